package arena

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoCrate says that the Rust program cannot be built here: there is no cargo, an old one, or no way to what it fetches.
var ErrNoCrate = errors.New("install Rust from https://rustup.rs")

// Crate is the program that does the same work in Rust, a child process that is
// asked turn by turn, so that its start is not measured. It belongs to one
// goroutine.
type Crate struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	Version string // of what it was built with
}

// StartCrate builds the program, whose source is in dir, and starts it. The
// caller ends it with Close. The error is an ErrNoCrate when it cannot be built.
func StartCrate(ctx context.Context, dir string) (*Crate, error) {
	if _, err := exec.LookPath("cargo"); err != nil {
		return nil, fmt.Errorf("no cargo command: %w", ErrNoCrate)
	}
	build := exec.CommandContext(ctx, "cargo", "build", "--release", "--locked", "--quiet", "--target-dir", "target")
	build.Dir = dir
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("%s: cargo build: %w: %w", dir, err, ErrNoCrate)
	}
	version := exec.CommandContext(ctx, "rustc", "--version")
	version.Dir = dir
	out, err := version.Output()
	if err != nil {
		return nil, fmt.Errorf("rustc --version: %w", err)
	}
	c := &Crate{Version: strings.TrimSpace(string(out))}
	c.cmd = exec.CommandContext(ctx, filepath.Join(dir, "target", "release", "buffersv2"))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(stdout)
	return c, c.cmd.Start()
}

// Close ends the program and waits for it.
func (c *Crate) Close() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// ask sends a line and reads the values of the one that comes back.
func (c *Crate) ask(line string, values ...any) error {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return fmt.Errorf("buffersv2: %s: %w", line, err)
	}
	reply, err := c.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("buffersv2: %s: %w", line, err)
	}
	if _, err := fmt.Sscan(reply, values...); err != nil {
		return fmt.Errorf("buffersv2: %s: %s", line, strings.TrimSpace(reply))
	}
	return nil
}

// Sum does n operations of a case and returns the FNV-1a hash (64 bits) of the
// frames' bytes, one behind the other.
func (c *Crate) Sum(name string, n int) (sum uint64, err error) {
	err = c.ask(fmt.Sprint("sum ", name, " ", n), &sum)
	return sum, err
}

// Turner returns a Turner for a case by its name: the kind of work and the
// contender, and for the structure alone the frames that are live and the order.
func (c *Crate) Turner(name string) Turner { return crateTurner{c, name} }

type crateTurner struct {
	crate *Crate
	name  string
}

// Turn implements Turner.
func (t crateTurner) Turn(n int, r *Result) error {
	var nanos, cpu, heap float64 // an operation
	err := t.crate.ask(fmt.Sprint("run ", t.name, " ", n), &nanos, &cpu, &heap)
	r.Nanos, r.CPU, r.OnHeap = append(r.Nanos, nanos), append(r.CPU, cpu), append(r.OnHeap, heap)
	return err
}
