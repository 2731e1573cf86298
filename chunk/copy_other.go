//go:build !linux

package chunk

import (
	"context"
	"io"
	"net"
	"os"
)

// canSendfile says that a fileRange that is shared can be sent without its bytes coming to this process.
const canSendfile = false

// sendTo leaves a transfer to the standard library, which knows what the system has for it. That moves the file's position,
// so a file that others read as well is copied.
func (f *fileRange) sendTo(w io.Writer) error {
	conn, ok := w.(*net.TCPConn)
	if !ok || f.shared || f.own || f.tally.progress != nil {
		return errUnhandled
	}
	if _, err := f.file.Seek(f.off, io.SeekStart); err != nil {
		return errUnhandled
	}
	n, err := conn.ReadFrom(io.LimitReader(f.file, f.end-f.off))
	f.off += n
	f.tally.add(&f.tally.Copied, n)
	if err == nil && f.off < f.end {
		return f.ended(io.EOF)
	}
	return err
}

func (f *fileRange) toFile(*os.File) error { return errUnhandled }

func spliceTo(context.Context, *tally, *alarm, io.Writer, io.Reader, int64) error {
	return errUnhandled
}

func spliceable(io.Reader) bool { return false }

// look returns what kind of file f is, and the size that it says it has.
func look(f *os.File) (kind os.FileMode, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	return info.Mode(), info.Size(), nil
}
