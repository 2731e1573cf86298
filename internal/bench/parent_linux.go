package bench

import "syscall"

// endsWithParent keeps a program that knows nothing of us from outliving a benchmark that was killed, and from hearing the
// Ctrl-C that is for us.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
