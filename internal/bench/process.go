package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
)

// A process is a server under load: a child of this one that serves until its input ends.
type process struct {
	addr string

	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	said complaint // to standard error
}

const (
	// stopWithin is how long a server may take to end when it is told to.
	stopWithin = 5 * time.Second
	// answerWithin is how long it may take to answer: to start under a race detector, on a machine that is busy.
	answerWithin = 20 * time.Second
)

// startProcess starts this program again, to carry out o.
func (c Config) startProcess(o order) (*process, error) {
	command := c.Command
	if command == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		command = []string{self, "bench"}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Env = append(os.Environ(), childVar+"="+string(text))
	p.cmd.Stderr = &p.said
	p.cmd.WaitDelay = stopWithin
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var h hello
	if err := p.read(&h); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	p.addr = h.Addr
	return p, nil
}

// ask writes a line and reads the answer.
func (p *process) ask(line string, answer any) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return fmt.Errorf("the server is gone: %w", err)
	}
	return p.read(answer)
}

// read reads an answer. A server that does not give one is ended.
func (p *process) read(answer any) error {
	late := time.AfterFunc(answerWithin, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	if err := p.out.Decode(answer); err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	return nil
}

// cpu is the CPU time that the server has used so far.
func (p *process) cpu() (time.Duration, error) {
	var u usage
	err := p.ask(askUsage, &u)
	return u.CPU, err
}

// record has the server record what it does until endRecord.
func (p *process) record(o recordOrder) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var e excuse
	if err := p.ask(askRecord+" "+string(text), &e); err != nil || e.Error == "" {
		return err
	}
	return errors.New(e.Error)
}

func (p *process) endRecord() (*observe.Timeline, error) {
	var r recorded
	if err := p.ask(askStop, &r); err != nil {
		return nil, err
	}
	if r.Error != "" {
		return r.Timeline, errors.New(r.Error)
	}
	return r.Timeline, nil
}

// stop ends the server, and returns what it complained about if it did not end as it should.
func (p *process) stop() error {
	_ = p.in.Close()
	kill := time.AfterFunc(stopWithin, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the server: %w\n%s", err, &p.said)
	}
	return nil
}

// onEnd calls end when ctx ends, unless the function that it returns was called before.
func onEnd(ctx context.Context, end func()) (stop func()) {
	f := context.AfterFunc(ctx, end)
	return func() { f() }
}
