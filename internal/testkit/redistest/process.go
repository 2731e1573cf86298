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

const shownLog = 32 << 10

// stopGrace is the time after which a server that does not end is killed.
const stopGrace = 5 * time.Second

// A process is a program that writes its output to a file, and can be started again. It has no
// goroutine, because leaktest would report the goroutine of a shared process.
type process struct {
	out   *os.File // also open for reading, because the file may be removed
	begun int64    // size of out at the last start

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended bool
	guard childproc.Guard
}

func (p *process) open(dir string) (err error) {
	p.out, err = os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return err
}

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

// output returns the program's output from offset to the end, but at most the last shownLog bytes.
func (p *process) output(offset int64) string {
	size := p.written()
	offset = max(offset, size-shownLog)
	text, err := io.ReadAll(io.NewSectionReader(p.out, offset, size-offset))
	if err != nil {
		text = fmt.Appendf(text, "[%v]", err)
	}
	return string(text)
}

func (p *process) written() int64 {
	info, err := p.out.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func (p *process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	return p.cmd.Process.Signal(sig)
}

// Kill kills the server, as a power cut would. The kernel closes its connections.
func (p *process) Kill() { p.end(syscall.SIGKILL) }

func (p *process) stop() { p.end(syscall.SIGTERM) }

// end sends sig and waits until the process has ended. After stopGrace, it kills the process.
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

// removeAtExit removes dir when this process ends, even if this process is killed. It starts a
// shell that waits until its input pipe is closed, and then removes dir. The other end of the pipe
// is closed when this process ends. The shell tries twice, because a server may still be writing.
func removeAtExit(dir string) error {
	shell := exec.Command("/bin/sh", "-c",
		`trap "" INT TERM HUP; cat >/dev/null; rm -rf "$1" || { sleep 1; rm -rf "$1"; }`, "sh", dir)
	if _, err := shell.StdinPipe(); err != nil {
		return err
	}
	atExit = append(atExit, shell)
	return shell.Start()
}

// atExit holds the shells that removeAtExit has started, so that the garbage collector does not
// close their input pipes.
var atExit []*exec.Cmd
