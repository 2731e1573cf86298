package redis

import "syscall"

// dieWithParent keeps a child from outliving an interrupted benchmark.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
