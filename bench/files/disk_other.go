//go:build !linux

package files

import (
	"errors"
	"os"
)

// What a kernel would be told about a file.
const (
	dontNeed = iota
	sequential
)

// Disk is only known on Linux, where the page cache can be emptied.
func Disk(string) (string, error) { return "", errors.ErrUnsupported }

func advise(*os.File, int64, int64, int) error { return errors.ErrUnsupported }

func chill(*os.File, int64) error { return errors.ErrUnsupported }

func resident(*os.File, int64) int64 { return -1 }

func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func mapRandom(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return errors.ErrUnsupported }

func faults() (major, minor int64, err error) { return 0, 0, errors.ErrUnsupported }
