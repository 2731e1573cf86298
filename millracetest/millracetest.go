// Package millracetest finds blocks that a program's tests have not released, and slices that were
// kept after the release.
//
// A package that uses Millrace calls Main from its TestMain:
//
//	func TestMain(m *testing.M) { millracetest.Main(m) }
//
// A test that can choose its Pool uses [NewPool]: at the end of the test all blocks must be back,
// and the bytes of released blocks are overwritten. For a test of code that uses
// [millrace.DefaultPool], there is [NoLeaks].
//
// With -tags invariants, a failure lists the stacks of the calls that took the missing blocks.
package millracetest

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leak"
)

// Main runs the tests and exits with their exit code. The exit code is 1 if the tests pass, but a
// goroutine that they have started is still running or a block has not been released. Main checks
// [millrace.DefaultPool] and the given Pools.
//
// Goroutines have ten seconds to end. Main does not check failed tests for leaks, because a test
// that stops in the middle releases nothing.
func Main(m *testing.M, pools ...*millrace.Pool) {
	os.Exit(run(m.Run, os.Stderr, append(slices.Clip(pools), millrace.DefaultPool())))
}

func run(tests func() int, w io.Writer, pools []*millrace.Pool) int {
	before := leak.Take() // goroutines that the program's init functions have started
	if code := tests(); code != 0 {
		return code
	}
	leaks := leak.Settled(func() string { return leak.Since(before, pools...) })
	if leaks == "" {
		return 0
	}
	fmt.Fprintf(w, "%smillracetest: FAIL\n", leaks)
	return 1
}

// NoLeaks fails t if, at the end of t, a goroutine is still running that t has started, or a block
// of [millrace.DefaultPool] has not been released. Cleanups that are registered after this call run
// before the check. Goroutines have ten seconds to end. If t has failed, NoLeaks does not check.
//
// Other tests must not run at the same time, because NoLeaks cannot distinguish their goroutines
// and blocks. A parallel test uses [NewPool].
func NoLeaks(t testing.TB) {
	t.Helper()
	before := leak.Take(millrace.DefaultPool())
	atEnd(t, func() string { return leak.Since(before, millrace.DefaultPool()) })
}

// CheckPool fails t if, at the end of t, the number of p's bytes in use differs from the number at
// this call, or p has lost a block (see [millrace.PoolStats]). Cleanups that are registered after
// this call run before the check. Goroutines have ten seconds to release their blocks. If t has
// failed, CheckPool does not check.
//
// Each parallel test needs its own Pool.
func CheckPool(t testing.TB, p *millrace.Pool) {
	t.Helper()
	before := p.Stats()
	atEnd(t, func() string { return leak.Outstanding(p, before) })
}

// atEnd checks for leaks at the end of t. A failed test is not checked, because a test that stops
// in the middle releases nothing.
func atEnd(t testing.TB, leaks func() string) {
	t.Cleanup(func() {
		t.Helper()
		if t.Failed() {
			return
		}
		if s := leak.Settled(leaks); s != "" {
			t.Error(s)
		}
	})
}

// NewPool returns a Pool for one test, with the options [millrace.Poison] and opts. At the end of
// t, all blocks must be back, as [CheckPool] says. The bytes of a released block become 0xDB in
// every build, so a test that reads a slice too late sees garbage.
func NewPool(t testing.TB, opts ...millrace.PoolOption) *millrace.Pool {
	t.Helper()
	p := millrace.NewPool(append(slices.Clip(opts), millrace.Poison())...)
	CheckPool(t, p)
	return p
}
