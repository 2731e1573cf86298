package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
)

// shownLog is the number of bytes at the end of a server's log that a failed test shows.
const shownLog = 32 << 10

// stopGrace is the time that a server may take to end before it is killed.
const stopGrace = 5 * time.Second

// process is a program that writes to a file. It can be started again when it has ended. It needs
// no goroutine. It may therefore outlast the tests of a package without being reported as a leak.
// It dies with the test binary (see childproc).
type process struct {
	out   *os.File // opened for reading, too, because the file may have been removed
	begun int64    // the size of out when the program was last started

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended bool
	guard childproc.Guard
}

// open creates a file in dir for the output.
func (p *process) open(dir string) (err error) {
	p.out, err = os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return err
}

// run starts the program.
func (p *process) run(path string, args ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = p.written()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	err := p.guard.Start(p.cmd)
	p.ended = err != nil
	return err
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// output returns the process's output since offset from, but no more than the last shownLog bytes.
func (p *process) output(from int64) string {
	size := p.written()
	from = max(from, size-shownLog)
	text, err := io.ReadAll(io.NewSectionReader(p.out, from, size-from))
	if err != nil {
		text = fmt.Appendf(text, "[%v]", err)
	}
	return string(text)
}

// written returns the size of the output so far.
func (p *process) written() int64 {
	info, err := p.out.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// signal sends sig. If the process has ended, it does nothing.
func (p *process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	return p.cmd.Process.Signal(sig)
}

// Kill ends the server as a power cut would. The server sends nothing more, but the kernel closes
// its connections.
func (p *process) Kill() { p.end(syscall.SIGKILL) }

// stop shuts the server down, and returns when it has ended.
func (p *process) stop() { p.end(syscall.SIGTERM) }

// end sends sig and waits until the process has ended. If the process does not end in time, end
// kills it.
func (p *process) end(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	p.guard.Release()
	_ = p.cmd.Process.Signal(resumeSignal) // a paused process cannot receive SIGTERM
	_ = p.cmd.Process.Signal(sig)
	late := time.AfterFunc(stopGrace, func() { _ = p.cmd.Process.Kill() })
	err := p.cmd.Wait()
	late.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(p.out, "redistest: %v\n", err)
	}
}

// removeAtExit removes dir when this process has ended. It starts a shell that lives longer than
// this process. The shell waits until a pipe ends, and then removes dir. Only this process has the
// other end of the pipe, so the pipe ends with it. The shell tries twice, because a server may just
// have been writing.
func removeAtExit(dir string) error {
	shell := exec.Command("/bin/sh", "-c",
		`trap "" INT TERM HUP; cat >/dev/null; rm -rf "$1" || { sleep 1; rm -rf "$1"; }`, "sh", dir)
	// The shell reads from this pipe. The pipe stays open until this process ends, because the
	// variable shell refers to it.
	if _, err := shell.StdinPipe(); err != nil {
		return err
	}
	atExit = append(atExit, shell)
	return shell.Start()
}

// atExit keeps the garbage collector from closing the pipes.
var atExit []*exec.Cmd
