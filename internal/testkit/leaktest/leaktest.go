// Package leaktest makes the tests of a package fail if they leave a goroutine, a pooled block or a
// temporary file. It also makes them independent of the caller's environment.
//
// In a package that uses pooled memory, starts goroutines or writes files, TestMain calls it:
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
//
// (In the root package, TestMain is in package millrace_test, because leaktest imports millrace.) A
// single test can use [Check] if it shares no Pool with parallel tests.
package leaktest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// grace is how long goroutines may take to end and release their blocks. The tests wait that long
// only if there is a leak.
var grace = 10 * time.Second

// Main runs the tests and exits with their exit code. If the tests pass but leak something, the
// exit code is 1. Main does not check failed tests for leaks, because a test that stops in the
// middle releases nothing.
//
// The tests and their child processes do not inherit the caller's environment variables that begin
// with MILLRACE_, except MILLRACE_NEEDS. TMPDIR is a new directory, which Main removes.
func Main(m *testing.M) {
	dir, err := isolate()
	if err != nil {
		fmt.Fprintf(os.Stderr, "leaktest: %v\n", err)
		os.Exit(1)
	}
	code := run(m.Run, dir, os.Stderr)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var atExit []func()

// AtExit makes Main call f when all tests have ended, before it checks for leaks. Use it to release
// resources that the tests share.
func AtExit(f func()) { atExit = append(atExit, f) }

func run(tests func() int, dir string, w io.Writer) int {
	code := tests()
	for _, f := range atExit {
		f()
	}
	if code != 0 {
		return code
	}
	leaks := settled(func() string {
		var b strings.Builder
		b.WriteString(files(dir))
		b.WriteString(outstanding(millrace.DefaultPool(), millrace.PoolStats{}))
		for _, stack := range goroutines() {
			fmt.Fprintf(&b, "leaktest: a goroutine is still running:\n%s\n\n", stack)
		}
		return b.String()
	})
	if leaks == "" {
		return 0
	}
	fmt.Fprintf(w, "%sleaktest: FAIL\n", leaks)
	return 1
}

// Check compares the memory of p now with its memory at the end of t. It fails t if the number of
// bytes in use has changed, or if p has lost a block since. Each parallel test needs its own Pool.
// Cleanups that are registered after this call run before the check.
func Check(t testing.TB, p *millrace.Pool) {
	t.Helper()
	before := p.Stats()
	t.Cleanup(func() {
		t.Helper()
		if leaks := settled(func() string { return outstanding(p, before) }); leaks != "" {
			t.Error(leaks)
		}
	})
}

// settled calls f until f returns "" or the grace period has passed. It returns the last result.
func settled(f func() string) string {
	deadline := time.Now().Add(grace)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		leaks := f()
		if leaks == "" || !time.Now().Before(deadline) {
			return leaks
		}
		time.Sleep(pause)
	}
}

// outstanding compares InUse and Lost in p.Stats() with want. It returns a description of the
// difference, or "" if there is none.
func outstanding(p *millrace.Pool, want millrace.PoolStats) string {
	s := p.Stats()
	if s.InUse == want.InUse && s.Lost == want.Lost {
		return ""
	}
	var b strings.Builder
	name := "a Pool"
	if p == millrace.DefaultPool() {
		name = "millrace.DefaultPool()"
	}
	fmt.Fprintf(&b, "leaktest: %s has %d bytes in use (%d blocks), want %d\n", name, s.InUse,
		s.InUseBlocks, want.InUse)
	if s.Lost != want.Lost {
		fmt.Fprintf(&b, "leaktest: %s has lost %d blocks that were never released\n", name,
			s.Lost-want.Lost)
	}
	leaks := p.Leaks()
	for _, leak := range leaks {
		fmt.Fprintf(&b, "leaktest: not released: %s\n", leak)
	}
	if len(leaks) == 0 {
		b.WriteString("leaktest: run the tests again with -tags invariants to see who took them\n")
	}
	return b.String()
}
