package childproc

import (
	"os/exec"
	"syscall"
)

// A Guard ends a child process when this process ends, even if this process is killed.
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

// Release does nothing on Linux. On other systems, it must be called when the child has ended.
func (*Guard) Release() {}
