package chunk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	headLen = 1 << 10 // number of bytes at the start of a file that identify the file
	sumLen  = 16      // number of bytes of a SHA-256 hash that a Position contains
)

var errOtherFile = errors.New("chunk: the file is not the one of the Position")

// A Position is a place in a log. After a restart, a program can continue there (see [OpenTail]). A
// Position can be stored as JSON. The zero Position is the start of the current file.
//
// A Position identifies the file by its first bytes, not by its name or inode. OpenTail can
// therefore find the file after a rotation, or find a copy of the file. This requires that the
// files of a log differ within their first KiB. If a stored Position is in the first KiB of its
// file, the files must differ before that Position. A timestamp in each line is sufficient. If the
// files begin with the same header line, do not store a Position within or directly after the
// header. [OpenTail] describes what happens otherwise.
type Position struct {
	Offset int64  // offset in the file, in bytes
	Head   int    // number of bytes at the start of the file that Sum covers, at most 1024
	Sum    string // start of the SHA-256 hash of these bytes, in hexadecimal; empty if Head is 0
}

func newPosition(offset int64, head []byte) Position {
	p := Position{Offset: offset, Head: len(head)}
	if p.Head > 0 {
		sum := sha256.Sum256(head)
		p.Sum = hex.EncodeToString(sum[:sumLen])
	}
	return p
}

// openAt opens the named file and returns the file and its first bytes. The caller must close the
// file. If the Position p belongs to another file, the error is errOtherFile.
func openAt(name string, p Position) (*os.File, []byte, error) {
	if p.Head < 0 || p.Head > headLen || p.Offset < 0 {
		return nil, nil, fmt.Errorf("chunk: invalid Position: offset %d, head %d", p.Offset, p.Head)
	}
	file, head, err := openRegular(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err := file.Stat(); err != nil || info.Size() < p.Offset || len(head) < p.Head ||
		newPosition(p.Offset, head[:p.Head]) != p {
		_ = file.Close()
		return nil, nil, cmp.Or(err, errOtherFile)
	}
	return file, head, nil
}

// openRegular opens a regular file and returns the file and its first bytes. The caller must close
// the file.
func openRegular(name string) (*os.File, []byte, error) {
	info, err := os.Stat(name) // opening a pipe would wake its writer
	if err != nil {
		return nil, nil, err
	}
	notRegular := &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	if !info.Mode().IsRegular() {
		return nil, nil, notRegular
	}
	// Another process may have replaced the file with a pipe. With nonblock, opening a pipe returns
	// at once.
	file, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	head, err := readHead(file, notRegular)
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, head, nil
}

// readHead returns the first bytes of a file. If the file is not regular, the error is notRegular.
func readHead(file *os.File, notRegular error) ([]byte, error) {
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, notRegular)
	}
	head := make([]byte, headLen)
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < int64(n) {
		err = notRegular // the kernel generates the content, as in /proc
	}
	return head[:n], err
}
