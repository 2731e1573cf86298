package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// An outputFile is a file that is written when everything else has been done, and that is known to be writable before. What
// was in it stays there until then.
type outputFile struct {
	*os.File
	made bool // by openOutput, so that it is in the way if nothing is written
}

// openOutput opens the file called name, or makes it. It returns nil if name is empty.
func openOutput(name string) (*outputFile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(name, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, err
	}
	return &outputFile{f, made}, nil
}

// write replaces what is in the file by what to writes.
func (o *outputFile) write(to func(io.Writer) error) error {
	if o == nil {
		return nil
	}
	if info, err := o.Stat(); err == nil && info.Mode().IsRegular() {
		if err := o.Truncate(0); err != nil {
			return err
		}
	}
	o.made = false
	return to(o.File)
}

// close closes the file, and removes it if it was made for nothing.
func (o *outputFile) close() error {
	if o == nil {
		return nil
	}
	err := o.Close()
	if o.made {
		err = errors.Join(err, os.Remove(o.Name()))
	}
	return err
}
