package childproc

import (
	"os/exec"
	"syscall"
)

// A Guard ends a child process when this process ends, even if this process is killed. On Linux,
// the kernel does that.
type Guard struct{}

// Start starts cmd in a new process group. Because of Pdeathsig, the kernel kills cmd when the
// thread that forked it ends. The thread does not end before this process, because Go ends a thread
// only if a goroutine that is locked to the thread ends.
func (*Guard) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd.Start()
}

// Release releases the resources of the Guard. Call it when the process that Start started has
// ended. On Linux, a Guard has no resources, so Release does nothing.
func (*Guard) Release() {}
