//go:build !linux

package redis

import "syscall"

// dieWithParent is for Linux only.
func dieWithParent() *syscall.SysProcAttr { return nil }
