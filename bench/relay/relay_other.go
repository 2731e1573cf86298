//go:build !linux

package relay

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }

func children(int) []int { return nil }
