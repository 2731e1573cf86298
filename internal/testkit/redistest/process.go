package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
)

// shownLog is how much of the end of a server's log a failed test shows: the rest is of what went well before.
const shownLog = 32 << 10

// stopGrace is how long a server may take to end by itself before it is killed.
const stopGrace = 5 * time.Second

// process is a running program that writes to a file. It needs no goroutine, so that a process may outlast the tests of
// a package without being a leak; it dies with the test binary (see dieWithUs).
type process struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	ended bool
	out   *os.File // opened for reading, too; may have no name any more
	begun int64    // the size of out when this process began: it is one file for all starts of a server
	guard childproc.Guard
}

// startProcess runs path in dir, in which it leaves a file for the output.
func startProcess(dir, path string, args ...string) (*process, error) {
	out, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	p := &process{cmd: cmd, out: out}
	p.begun = p.written()
	if err := p.guard.Start(cmd); err != nil {
		out.Close()
		return nil, fmt.Errorf("redistest: %s: %w", path, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// output returns what the process has written since offset from, but no more than the last shownLog bytes.
func (p *process) output(from int64) string {
	size := p.written()
	cut := ""
	if size-from > shownLog {
		from, cut = size-shownLog, "[...]"
	}
	var b strings.Builder
	b.WriteString(cut)
	if _, err := io.Copy(&b, io.NewSectionReader(p.out, from, size-from)); err != nil {
		fmt.Fprintf(&b, "[%v]", err)
	}
	return b.String()
}

// written returns the size of the output so far.
func (p *process) written() int64 {
	info, err := p.out.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// signal sends sig; to a process that has ended it does nothing.
func (p *process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	return p.cmd.Process.Signal(sig)
}

// kill ends the process at once and returns when the kernel has closed all it had open.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop asks the process to end, and kills it when it does not.
func (p *process) stop() { p.end(syscall.SIGTERM) }

// wait waits until the process has ended by itself, and kills it when it does not.
func (p *process) wait() { p.end(nothing) }

// nothing is a signal without an effect.
const nothing = syscall.Signal(0)

func (p *process) end(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	p.guard.Release()
	_ = p.cmd.Process.Signal(resumeSignal) // one that was paused cannot hear SIGTERM
	_ = p.cmd.Process.Signal(sig)
	late := time.AfterFunc(stopGrace, func() { _ = p.cmd.Process.Kill() })
	err := p.cmd.Wait()
	late.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(p.out, "redistest: %v\n", err)
	}
}

// removeAtExit removes dir when this process has ended. A shell does that, which lives longer: it waits
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
