//go:build !linux

package measure

import (
	"errors"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

func childrenOf(int) []int { return nil }

func usageOf(int) (Usage, error) { return Usage{}, errors.ErrUnsupported }
