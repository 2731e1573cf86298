//go:build !linux

package childproc

import (
	"io"
	"os/exec"
	"strconv"
)

// A Guard ends a child process when this process ends, even if this process is killed. It starts a
// shell for the child process. The shell waits until a pipe is closed, and then kills the child.
// Only this process has the other end of the pipe, so the pipe is closed when this process ends.
type Guard struct {
	shell *exec.Cmd
	pipe  io.Closer
}

// Start starts cmd. The caller must call Release when cmd has ended.
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

// Release ends the shell. Call it when the child has ended. Without Release, the shell would later
// kill the process ID of the child, which another process may have by then.
func (g *Guard) Release() {
	_ = g.shell.Process.Kill()
	_ = g.shell.Wait()
	g.pipe.Close()
}
