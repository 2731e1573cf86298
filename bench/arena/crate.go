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

// crateDir is the directory of the Rust source, relative to the directory of this module. The
// benchmark must run in the directory of this module.
const crateDir = "buffersv2"

// errNoCrate means that the Rust program cannot be built: cargo is missing or too old, or a
// download has failed.
var errNoCrate = fmt.Errorf("cargo %w (https://rustup.rs)", measure.ErrMissing)

// A crate is a child process that runs the Rust program. Only one goroutine may use it.
type crate struct {
	*measure.Child
	version string // version of the Rust compiler
}

// startCrate builds the program in dir, and starts it. The caller must call Close.
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

// ask sends a line to the program and scans the reply into values.
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

// sum makes the program assemble n frames for the case caseName (see benchmark). It returns the
// 64-bit FNV-1a hash of the bytes of all frames.
func (c *crate) sum(caseName string, n int) (sum uint64, err error) {
	err = c.ask(fmt.Sprint("sum ", caseName, " ", n), &sum)
	return sum, err
}

// benchmark returns a measure.Contender that runs in the Rust program. A caseName such as
// "ten/pool" consists of the kind of work and the implementation. The kind "slots" also needs the
// number of held frames and the frame to release, as in "slots/pool/8/oldest".
func (c *crate) benchmark(name, caseName string) measure.Contender {
	return measure.Contender{Name: name, Turn: func(n int) (measure.Turn, error) {
		var nanos, cpu, heap float64 // per operation
		err := c.ask(fmt.Sprint("run ", caseName, " ", n), &nanos, &cpu, &heap)
		all := func(each float64) time.Duration { return time.Duration(each * float64(n)) }
		return measure.Turn{Ops: n, Time: all(nanos), CPU: all(cpu),
			More: map[string]float64{"outside": heap}}, err
	}}
}
