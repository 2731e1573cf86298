//go:build !linux

package files

import (
	"errors"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

func children(int) []int { return nil }

func useOf(int) (usage, error) { return usage{}, errors.ErrUnsupported }

// LoadAverage is only known on Linux.
func LoadAverage() string { return "unknown" }
