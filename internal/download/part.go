package download

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	partSuffix = ".part"
	infoSuffix = ".part.info"

	// maxInfo bounds what is read of a .part.info, which has a few hundred bytes: enough for every field at its longest, and
	// written as JSON writes what it must escape.
	maxInfo = 32 << 10
)

// A part is a target that is called FILE.part until it is whole. One process at a time has it open.
//
// Invariant: if FILE.part has any bytes, FILE.part.info says of what they are the first.
type part struct {
	path  string // FILE
	force bool
	file  *os.File // FILE.part
}

// open opens FILE.part where it ends, or, if its bytes are of no use, where it begins.
func (p *part) open(wanted origin) (have int64, known origin, err error) {
	if err := p.vacant(); err != nil {
		return 0, wanted, err
	}
	name := p.path + partSuffix
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|openFlags, 0o666)
	if err != nil {
		return 0, wanted, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return 0, wanted, err
	}
	if !info.Mode().IsRegular() {
		return 0, wanted, fmt.Errorf("%s is no file that could be written to", name)
	}
	if err := lock(f); err != nil {
		return 0, wanted, fmt.Errorf("%s is being written to by another process", name)
	}
	// Whoever had it until now may have given it FILE's name.
	if now, err := os.Lstat(name); err != nil || !os.SameFile(info, now) {
		return 0, wanted, fmt.Errorf("%s was finished by another process", name)
	}
	have, known, err = p.recall(info.Size(), wanted)
	if err != nil {
		return 0, wanted, err
	}
	p.file = f
	_, err = f.Seek(have, io.SeekStart)
	return have, known, err
}

// vacant returns an error if FILE is there and must stay, or could not be replaced. A device or a pipe must: whoever names
// one means what is behind it, and others use it.
func (p *part) vacant() error {
	info, err := os.Lstat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: say what the file is to be called", p.path)
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("%s is no regular file: use - and a redirection", p.path)
	case !p.force:
		return fmt.Errorf("%s is there already: --force replaces it", p.path)
	}
	return nil
}

// recall returns how many of the size bytes in FILE.part can be used, and what they are of, as FILE.part.info says. If
// that is something other than what is wanted, or nothing, the bytes can at best be replaced.
func (p *part) recall(size int64, wanted origin) (int64, origin, error) {
	if size == 0 {
		return 0, wanted, nil
	}
	var o origin
	text, err := readInfo(p.path + infoSuffix)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	known := err == nil && o.sound() && (o.Length == unknown || o.Length >= size)
	switch {
	case known && (o.URL == wanted.URL || o.renewable(wanted)):
		return size, o, nil
	case p.force:
		return 0, wanted, nil
	case known:
		return 0, wanted, &foreignError{part: p.path + partSuffix, origin: o, wanted: wanted}
	}
	return 0, wanted, fmt.Errorf("%s is there, and %s does not say what it is: --force replaces it",
		p.path+partSuffix, p.path+infoSuffix)
}

// sound reports whether what was read as an origin could have been written as one.
func (o *origin) sound() bool {
	return o.URL != "" && (o.ETag == "" || strongTag(o.ETag) != "") && len(o.Modified) <= maxValidator && o.Length >= unknown
}

func readInfo(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxInfo))
}

func (p *part) writer() io.Writer { return p.file }

func (p *part) restart() error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	return err
}

// remember replaces FILE.part.info in one step, so that it is never half of one.
func (p *part) remember(o origin) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(p.path), filepath.Base(p.path)+infoSuffix+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), p.path+infoSuffix)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// finish gives FILE.part its own name when its bytes are on the disk.
func (p *part) finish() error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := p.rename(); err != nil {
		return err
	}
	_ = os.Remove(p.path + infoSuffix)
	return syncDir(filepath.Dir(p.path))
}

// rename never replaces a FILE that has come meanwhile, unless it may.
func (p *part) rename() error {
	name := p.path + partSuffix
	if p.force {
		if err := p.vacant(); err != nil {
			return err
		}
		return os.Rename(name, p.path)
	}
	err := os.Link(name, p.path)
	if err == nil {
		return os.Remove(name)
	}
	if vacant := p.vacant(); vacant != nil {
		return vacant
	}
	return os.Rename(name, p.path) // a file system without links
}

// close leaves nothing behind of a download that has not got a byte.
func (p *part) close() error {
	if info, err := p.file.Stat(); err == nil && info.Size() == 0 {
		if now, err := os.Lstat(p.path + partSuffix); err == nil && os.SameFile(info, now) {
			_ = os.Remove(p.path + partSuffix)
			_ = os.Remove(p.path + infoSuffix)
		}
	}
	return p.file.Close()
}

func (p *part) hint(have int64, prospect string) string {
	if have == 0 {
		return ""
	}
	there := fmt.Sprintf("%s has %d bytes", p.path+partSuffix, have)
	if prospect == "" {
		return there
	}
	return there + ", " + prospect
}

// syncDir makes a directory's names durable. Not every file system can, which is no failure of a download.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return nil
	}
	_ = d.Sync()
	return d.Close()
}
