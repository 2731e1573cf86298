//go:build linux

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ProcSys is where the kernel has its parameters.
const ProcSys = "/proc/sys"

// Parameters are all that this package changes.
var Parameters = []string{
	"vm.dirty_ratio", "vm.dirty_bytes", "vm.dirty_background_ratio", "vm.dirty_background_bytes", "fs.aio-max-nr",
}

// parameters are those of a kernel.
type parameters interface {
	read(name string) (string, error)
	write(name, value string) error
}

// A directory holds a file for each parameter, as [ProcSys] does.
type directory string

func (d directory) path(name string) string {
	return filepath.Join(string(d), strings.ReplaceAll(name, ".", "/"))
}

func (d directory) read(name string) (string, error) {
	b, err := os.ReadFile(d.path(name))
	return strings.TrimSpace(string(b)), err
}

func (d directory) write(name, value string) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_TRUNC, 0) // never a new file
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// A former is a parameter and what it was.
type former struct{ name, value string }

// putBack gives the parameters the values that they had, and says what does not have it in the end.
//
// A limit is either a ratio or bytes. Writing one has the kernel clear the other, so a value may be back already when its
// turn comes; and what is written last must not clear what was there. The ratios come first in [Parameters] for that.
func putBack(p parameters, all []former) error {
	var wrong []string
	for _, f := range all {
		if now, err := p.read(f.name); err == nil && now == f.value {
			continue
		}
		if err := putBackOne(p, f); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	for _, f := range all {
		if now, err := p.read(f.name); err != nil {
			wrong = append(wrong, err.Error())
		} else if now != f.value {
			wrong = append(wrong, fmt.Sprintf("%s is %s and was %s", f.name, now, f.value))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("host: not put back: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func putBackOne(p parameters, f former) error {
	limit, isBytes := strings.CutSuffix(f.name, "_bytes")
	if !isBytes || f.value != "0" {
		return p.write(f.name, f.value)
	}
	// The kernel refuses 0 bytes. They are cleared by a change of the ratio, which was 0 as well if one gets here.
	if err := p.write(limit+"_ratio", "1"); err != nil {
		return err
	}
	return p.write(limit+"_ratio", "0")
}
