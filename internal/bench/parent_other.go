//go:build !linux

package bench

import "syscall"

// endsWithParent is for Linux only.
func endsWithParent() *syscall.SysProcAttr { return nil }
