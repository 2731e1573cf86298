// Package leaktest makes the tests of a package fail if they leave a goroutine, a pooled block or a
// temporary file. It also makes the tests independent of the caller's environment.
//
// TestMain calls [Main]:
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
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leak"
	"github.com/millrace-io/millrace/millracetest"
)

// Main runs the tests and exits with their exit code, or with 1 if they pass but leak something. It
// does not check failed tests, because a test that stops in the middle releases nothing.
//
// The tests do not inherit environment variables that begin with MILLRACE_, except MILLRACE_NEEDS.
// TMPDIR is a new directory, which Main removes.
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

// AtExit makes Main call f after all tests, before it checks for leaks. Use it to release shared
// resources.
func AtExit(f func()) { atExit = append(atExit, f) }

func run(tests func() int, dir string, w io.Writer) int {
	code := tests()
	for _, f := range atExit {
		f()
	}
	if code != 0 {
		return code
	}
	leaks := leak.Settled(func() string {
		return files(dir) + leak.Since(leak.Snapshot{}, millrace.DefaultPool())
	})
	if leaks == "" {
		return 0
	}
	fmt.Fprintf(w, "%sleaktest: FAIL\n", leaks)
	return 1
}

// Check is [millracetest.CheckPool].
func Check(t testing.TB, p *millrace.Pool) {
	t.Helper()
	millracetest.CheckPool(t, p)
}
