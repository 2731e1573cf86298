package soak

import (
	"os/exec"
	"syscall"
)

// guard sees to it that a process dies with this one, however that ends. The kernel does it on Linux.
type guard struct{}

// start starts cmd. Pdeathsig speaks of the thread that forks; Go ends a thread only with a goroutine that has locked
// itself to it and returns without unlocking it, which nothing here does.
func (guard) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd.Start()
}

func (guard) release() {}
