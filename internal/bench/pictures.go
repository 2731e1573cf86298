package bench

import (
	"errors"
	"os"
	"path/filepath"
)

// WritePictures writes the report's pictures as SVG files to a directory, which is made if there is none: ratios-SUITE.svg for a
// suite that has rivals, and SUITE-KEY.svg for a recording.
func (r *Report) WritePictures(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	write := func(p picture, err error) {
		if err == nil && p.id != "" {
			err = os.WriteFile(filepath.Join(dir, p.id+".svg"), p.file(), 0o644)
		}
		errs = append(errs, err)
	}
	for _, s := range r.Suites {
		write(ratios(s.Name, r.FiguresOf(s.Name)))
	}
	for i := range r.Recordings {
		write(r.Recordings[i].timeline())
	}
	return errors.Join(errs...)
}
