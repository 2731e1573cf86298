// Package millracetest finds unreleased blocks, and slices that were kept after the release.
//
// A package that uses Millrace calls Main from its TestMain:
//
//	func TestMain(m *testing.M) { millracetest.Main(m) }
//
// A test that can choose its Pool uses [NewPool], which also overwrites released blocks. A test of
// code that uses [millrace.DefaultPool] calls [NoLeaks]. With -tags invariants, a failure lists the
// stacks of the calls that took the missing blocks.
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

// Main runs the tests and exits with their exit code. If the tests pass, but a goroutine that they
// have started is still running or a block has not been released, the exit code is 1. Main checks
// the blocks of [millrace.DefaultPool] and of the given Pools. Goroutines have ten seconds to end.
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

// NoLeaks checks, at the end of the test t, that all goroutines that the test has started have
// ended, and that all blocks of [millrace.DefaultPool] have been released. If not, it fails the
// test. Cleanups that are registered after this call run before the check. Goroutines have ten
// seconds to end. If the test has already failed, NoLeaks does not check.
//
// Other tests must not run at the same time, because NoLeaks cannot distinguish their goroutines
// and blocks. A parallel test must use [NewPool] instead.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := leak.Take(millrace.DefaultPool())
	atEnd(t, func() string { return leak.Since(before, millrace.DefaultPool()) })
}

// CheckPool checks the Pool p at the end of the test t. It fails the test if the number of bytes in
// use is not the same as when CheckPool was called, or if p has lost a block (see
// [millrace.PoolStats]). Cleanups that are registered after this call run before the check.
// Goroutines have ten seconds to release their blocks. If the test has already failed, CheckPool
// does not check.
//
// Each parallel test needs its own Pool.
func CheckPool(t testing.TB, p *millrace.Pool) {
	t.Helper()
	before := p.Stats()
	atEnd(t, func() string { return leak.Outstanding(p, before) })
}

// atEnd checks for leaks at the end of the test t. It does not check a failed test, because a test
// that stops in the middle releases nothing.
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
// the test, all blocks must have been released (see [CheckPool]). The bytes of a released block
// become 0xDB in every build, so a late read gets wrong bytes.
func NewPool(t testing.TB, opts ...millrace.PoolOption) *millrace.Pool {
	t.Helper()
	p := millrace.NewPool(append(slices.Clip(opts), millrace.Poison())...)
	CheckPool(t, p)
	return p
}
