package main

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/millrace-io/millrace/internal/soak"
)

// A reportFile is where a report will be written. Until then it keeps what it had. A nil one is none.
type reportFile struct {
	*os.File
	created bool
}

// openReport opens the file of that name, so that a name that cannot be written to is found before there is a report. It
// returns nil if there is no name.
func openReport(name string) (*reportFile, error) {
	if name == "" {
		return nil, nil
	}
	_, err := os.Stat(name)
	created := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return &reportFile{f, created}, nil
}

// write replaces what the file has, and closes it.
func (f *reportFile) write(r soak.Report) error {
	if f == nil {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if info, statErr := f.Stat(); err == nil && statErr == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	return errors.Join(err, f.Close())
}

// drop closes the file, and leaves what was there before, or nothing.
func (f *reportFile) drop() error {
	if f == nil {
		return nil
	}
	err := f.Close()
	if f.created {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
