package childproc

import (
	"os/exec"
	"syscall"
)

// A Guard makes a process die with this process, even if this process is killed. On Linux the
// kernel does that.
type Guard struct{}

// Start starts cmd in a new process group. Pdeathsig refers to the thread that forks. Go ends a
// thread only together with a goroutine that has locked itself to the thread and returns without
// unlocking it, which does not happen here.
func (*Guard) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd.Start()
}

// Release must be called when the process has ended.
func (*Guard) Release() {}
