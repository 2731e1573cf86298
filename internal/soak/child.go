package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/guard"
)

const (
	// startPatience is how long a process may take to say where it listens, on a machine that is busy.
	startPatience = time.Minute

	// stopPatience is how much longer than its drain timeout a server may take to end after SIGTERM.
	stopPatience = time.Minute

	// endingPatience is how long after its last connection was refused a process may be about to end.
	endingPatience = time.Second

	// pollEvery is how often to look whether something has come about.
	pollEvery = 20 * time.Millisecond

	// maxLog is how much of a server's log is kept: it is emptied at the next quiet point at which all is well.
	maxLog = 8 << 20
)

// A child is a process that dies with this one. It writes to a file.
type child struct {
	cmd   *exec.Cmd
	guard guard.Guard
	log   *os.File // for reading
	began int64    // where in log the process began

	ended chan struct{} // closed when the process has ended, and err is valid
	err   error

	mu      sync.Mutex
	scanned int64 // what of the log was looked through for errors
}

// startChild starts a program whose output is appended to the file of that name.
func startChild(logName string, env []string, name string, args ...string) (*child, error) {
	out, err := os.OpenFile(logName, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(name, args...), log: out, ended: make(chan struct{})}
	if info, err := out.Stat(); err == nil {
		c.began = info.Size()
	}
	c.scanned = c.began
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	if err := c.guard.Start(c.cmd); err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("soak: %w", err)
	}
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
		c.guard.Release()
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// alive returns nil while the process has not ended.
func (c *child) alive() error {
	select {
	case <-c.ended:
		return fmt.Errorf("the process has ended by itself: %w", exitReason(c.err))
	default:
		return nil
	}
}

// silent returns why a process does not answer, if that is because it has ended. One that is about to has a moment for it.
func (c *child) silent() error {
	late := time.NewTimer(endingPatience)
	defer late.Stop()
	select {
	case <-c.ended:
	case <-late.C:
	}
	return c.alive()
}

func exitReason(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// terminate sends SIGTERM and waits for the end, which is to come within the time given. Then it kills.
func (c *child) terminate(within time.Duration) (time.Duration, error) {
	if err := c.alive(); err != nil {
		return 0, err
	}
	began := time.Now()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-c.ended:
		if c.err != nil {
			return 0, fmt.Errorf("after SIGTERM: %w", c.err)
		}
		return time.Since(began), nil
	case <-late.C:
		c.kill()
		return 0, fmt.Errorf("the process has not ended %v after SIGTERM", within)
	}
}

// kill ends the process at once, and returns when it is gone. It may be called more than once.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

func (c *child) close() {
	c.kill()
	_ = c.log.Close()
}

// A logLine is what a server logs, as far as somebody here looks at it.
type logLine struct {
	Level   string `json:"level"`
	Message string `json:"msg"`
	Address string `json:"address"`
}

// addresses waits until the process has logged where it listens.
func (c *child) addresses(ctx context.Context) (main, admin string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := c.lines(c.began, func(l logLine, _ []byte) {
			switch l.Message {
			case "listening":
				main = l.Address
			case "admin listening":
				admin = l.Address
			}
		})
		if err != nil {
			return "", "", err
		}
		if main != "" && admin != "" {
			return main, admin, nil
		}
		if err := c.alive(); err != nil {
			return "", "", fmt.Errorf("%w\n%s", err, c.tail())
		}
		if !pause(ctx, pollEvery) {
			return "", "", fmt.Errorf("the server has not said where it listens: %w", ctx.Err())
		}
	}
}

// lines calls f with each whole line of the log from an offset on.
func (c *child) lines(from int64, f func(l logLine, text []byte)) error {
	r := bufio.NewReader(io.NewSectionReader(c.log, from, 1<<62-from))
	for {
		text, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil // what has no end yet is for the next time
		}
		if err != nil {
			return err
		}
		var l logLine
		_ = json.Unmarshal(text, &l) // what is no JSON is the runtime's word
		f(l, text)
	}
}

// complaints returns the lines in which the server reports a mistake of its own, since the last call. It lets go of a log
// that has become long.
func (c *child) complaints() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := int64(0)
	if info, err := c.log.Stat(); err == nil {
		size = info.Size()
	}
	_ = c.lines(c.scanned, func(l logLine, text []byte) {
		if l.Level == "ERROR" || bytes.HasPrefix(text, []byte("panic:")) || bytes.HasPrefix(text, []byte("fatal error:")) ||
			bytes.Contains(text, []byte("DATA RACE")) {
			list = append(list, string(bytes.TrimSpace(text)))
		}
		c.scanned += int64(len(text))
	})
	if size > maxLog && len(list) == 0 && c.log.Truncate(0) == nil {
		c.scanned = 0
	}
	return list
}

// shownLog is how much of the end of a log is told.
const shownLog = 4 << 10

// tail returns the end of the log.
func (c *child) tail() string {
	info, err := c.log.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(info.Size(), shownLog))
	n, _ := c.log.ReadAt(b, info.Size()-int64(len(b)))
	return string(b[:n])
}

// pause waits for d, and says whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
