//go:build !linux

package childproc

import (
	"io"
	"os/exec"
	"strconv"
)

// A Guard makes a process die with this process, even if this process is killed. Because this
// system's kernel does not do that, the Guard starts a shell for each process. The shell waits
// until a pipe ends, and then kills the process. Only this process has the other end of the pipe,
// so the pipe ends with it.
type Guard struct {
	shell *exec.Cmd
	pipe  io.Closer
}

// Start starts cmd. Release must be called when the process has ended.
func (g *Guard) Start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	g.shell = exec.Command("/bin/sh", "-c",
		`trap "" INT TERM; cat >/dev/null; kill -9 `+strconv.Itoa(cmd.Process.Pid))
	pipe, err := g.shell.StdinPipe()
	if err == nil {
		g.pipe = pipe
		err = g.shell.Start()
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return err
}

// Release ends the shell. If the shell outlived the process, it would kill the next process with
// the same number.
func (g *Guard) Release() {
	_ = g.shell.Process.Kill()
	_ = g.shell.Wait()
	g.pipe.Close()
}
