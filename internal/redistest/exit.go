package redistest

import "os/exec"

// removeAtExit has dir removed when this process has ended. Whoever does that must live longer: it is a shell, which waits
// for the end of a pipe whose other end only this process has. The second attempt is for a server that was just writing.
func removeAtExit(dir string) error {
	shell := exec.Command("/bin/sh", "-c", `trap "" INT TERM HUP; cat >/dev/null; rm -rf "$1" || { sleep 1; rm -rf "$1"; }`, "sh", dir)
	if _, err := shell.StdinPipe(); err != nil { // stays open as long as shell refers to it, or this process lives
		return err
	}
	atExit = append(atExit, shell)
	return shell.Start()
}

// atExit keeps the pipes from being closed by the garbage collector.
var atExit []*exec.Cmd
