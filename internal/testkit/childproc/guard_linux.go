package childproc

import (
	"os/exec"
	"syscall"
)

// A Guard makes a process die with this process, even if this process is killed. On Linux the
// kernel does that.
type Guard struct{}

// Start starts cmd in a new process group. With Pdeathsig, the kernel kills cmd when the thread
// that forked it ends. Go ends a thread only if a goroutine that has locked itself to the thread
// returns without unlocking it. This does not happen here.
func (*Guard) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd.Start()
}

// Release must be called when the process has ended.
func (*Guard) Release() {}
