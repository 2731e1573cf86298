package arena

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// crateDir is where the source of the Rust program is, seen from the directory of the module.
const crateDir = "buffersv2"

// errNoCrate means that the Rust program cannot be built: cargo is missing or old, or its downloads
// fail.
var errNoCrate = fmt.Errorf("cargo %w (https://rustup.rs)", measure.ErrMissing)

// A crate is the program that does the same work in Rust, a child process that is asked turn by
// turn, so that its start is not measured. It belongs to one goroutine.
type crate struct {
	*measure.Child
	version string // of the compiler
}

// startCrate builds the program, whose source is in dir, and starts it. The caller calls Close.
func startCrate(ctx context.Context, dir string) (*crate, error) {
	if _, err := exec.LookPath("cargo"); err != nil {
		return nil, errNoCrate
	}
	build := exec.CommandContext(ctx, "cargo", "build", "--release", "--locked", "--quiet",
		"--target-dir", "target")
	build.Dir = dir
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s: cargo build: %w", errNoCrate, dir, err)
	}
	version := exec.CommandContext(ctx, "rustc", "--version")
	version.Dir = dir
	out, err := version.Output()
	if err != nil {
		return nil, fmt.Errorf("rustc --version: %w", err)
	}
	child, err := measure.StartChild(exec.CommandContext(ctx,
		filepath.Join(dir, "target", "release", "buffersv2")))
	return &crate{child, strings.TrimSpace(string(out))}, err
}

// ask sends a line and reads the values of the one that comes back.
func (c *crate) ask(line string, values ...any) error {
	reply, err := c.Ask(line)
	if err != nil {
		return fmt.Errorf("buffersv2: %s: %w", line, err)
	}
	if _, err := fmt.Sscan(reply, values...); err != nil {
		return fmt.Errorf("buffersv2: %s: %s", line, strings.TrimSpace(reply))
	}
	return nil
}

// sum does n operations of a case and returns the FNV-1a hash (64 bits) of the bytes of all frames
// in order.
func (c *crate) sum(name string, n int) (sum uint64, err error) {
	err = c.ask(fmt.Sprint("sum ", name, " ", n), &sum)
	return sum, err
}

// turns has the crate do a case: the kind of work and the contender, and for the structure alone
// the frames that are held and the order.
func (c *crate) turns(name, what string) measure.Contender {
	return measure.Contender{Name: name, Turn: func(n int) (measure.Turn, error) {
		var nanos, cpu, heap float64 // of an operation
		err := c.ask(fmt.Sprint("run ", what, " ", n), &nanos, &cpu, &heap)
		all := func(each float64) time.Duration { return time.Duration(each * float64(n)) }
		return measure.Turn{Ops: n, Time: all(nanos), CPU: all(cpu),
			More: map[string]float64{"outside": heap}}, err
	}}
}
