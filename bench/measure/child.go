package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
)

var children = make(map[string]func(args []string) error)

// RegisterChild registers the function f, so that [Self] can run f in a child process by its name.
// It returns the name. RegisterChild must be called during package initialization.
func RegisterChild(name string, f func(args []string) error) string {
	children[name] = f
	return name
}

// childVar is the environment variable that selects the function to run. The value is a JSON list
// of the function's name and arguments.
const childVar = "MILLRACE_BENCH_CHILD"

// In a child process that the command from [Self] has started, RunChild runs the registered
// function and exits. In any other process, RunChild does nothing. The functions main and TestMain
// must call RunChild first.
func RunChild() {
	order := os.Getenv(childVar)
	if order == "" {
		return
	}
	var args []string
	if err := json.Unmarshal([]byte(order), &args); err != nil {
		log.Fatal(err)
	}
	if f := children[args[0]]; f == nil {
		log.Fatalf("measure: no child %q", args[0])
	} else if err := f(args[1:]); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// Self returns a command that runs a registered function in a child process.
func Self(name string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(append([]string{name}, args...))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVar+"="+string(order))
	return cmd, nil
}

// A Process is a child process that dies with this process, even if this process is killed.
type Process struct {
	Cmd   *exec.Cmd
	Ended chan struct{} // closed when the process has ended and Cmd.ProcessState is set
	err   error

	guard childproc.Guard
}

// Start starts a command. If cmd.Stderr is nil, the command uses this process's standard error.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	p := &Process{Cmd: cmd, Ended: make(chan struct{})}
	if err := p.guard.Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.Ended)
		p.err = cmd.Wait()
		p.guard.Release()
	}()
	return p, nil
}

// Wait waits until the process has ended. The error is nil if the exit status is 0.
func (p *Process) Wait() error {
	<-p.Ended
	return p.err
}

// Stop sends SIGTERM to the process and waits until it has ended. If the process does not end
// within timeout, Stop kills the process and returns an error. Otherwise the error is nil if the
// exit status is 0.
func (p *Process) Stop(timeout time.Duration) error {
	p.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended:
		return p.err
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("%s has not ended %v after SIGTERM", filepath.Base(p.Cmd.Path), timeout)
	}
}

// Kill kills the process and waits until it has ended. It may be called more than once.
func (p *Process) Kill() {
	p.Cmd.Process.Kill()
	<-p.Ended
}

// A Child is a process that reads requests from its standard input and writes answers to its
// standard output, one line each. It ends when its input ends. Only one goroutine may use a Child.
type Child struct {
	*Process
	in   io.WriteCloser
	pipe *os.File
	out  *bufio.Reader // reads from pipe
}

// StartChild starts a command. The caller must call Close.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // not StdoutPipe, because Wait would discard unread output
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stdout = w
	p, err := Start(cmd)
	if err != nil {
		r.Close()
		return nil, err
	}
	return &Child{Process: p, in: in, pipe: r, out: bufio.NewReader(r)}, nil
}

// Ask writes a line to the child and returns the child's next line.
func (c *Child) Ask(line string) (string, error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return "", err
	}
	return c.Line()
}

// Line returns the next line of the child's output, including the newline.
func (c *Child) Line() (string, error) { return c.out.ReadString('\n') }

// Close ends the child's input and waits for the child. It may be called more than once.
func (c *Child) Close() error {
	c.in.Close()
	err := c.Wait()
	c.pipe.Close()
	return err
}
