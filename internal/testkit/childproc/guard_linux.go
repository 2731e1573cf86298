package childproc

import (
	"os/exec"
	"syscall"
)

// A Guard ends a child process when this process ends, even if this process is killed. On Linux,
// the kernel does that.
type Guard struct{}

// Start starts cmd in a new process group. When this process ends, the kernel kills cmd (see
// PR_SET_PDEATHSIG).
//
// The kernel also kills cmd if the thread that started cmd ends before this process. A thread ends
// early only if a goroutine ends while it is locked to the thread (see runtime.LockOSThread).
func (*Guard) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd.Start()
}

// Release releases the resources of the Guard. Call it when the process that Start started has
// ended. On Linux, a Guard has no resources, so Release does nothing.
func (*Guard) Release() {}
