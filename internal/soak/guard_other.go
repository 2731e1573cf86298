//go:build !linux

package soak

import (
	"io"
	"os/exec"
	"strconv"
)

// guard sees to it that a process dies with this one, however that ends. Without the kernel's help that takes a shell for
// each: it waits for the end of a pipe of which only this process has the other end.
type guard struct {
	shell *exec.Cmd
	pipe  io.Closer
}

func (g *guard) start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	g.shell = exec.Command("/bin/sh", "-c", `trap "" INT TERM; cat >/dev/null; kill -9 `+strconv.Itoa(cmd.Process.Pid))
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

// release ends the shell, which must not outlive the process: it would kill the next one of that number.
func (g *guard) release() {
	_ = g.shell.Process.Kill()
	_ = g.shell.Wait()
	g.pipe.Close()
}
