// Package alloctest counts a function's allocations.
package alloctest

import (
	"runtime/debug"
	"testing"
)

// tries is the maximum number of times that Count measures. If the result is not the expected one,
// Count measures again, because a result includes allocations of other goroutines. On a busy
// machine, they may affect several results in a row.
const tries = 30

// Count returns the number of allocations that one call of f makes. Count first calls f once
// without counting.
//
// If the number differs from want, Count repeats both calls, up to 30 times in all, and returns the
// smallest number.
//
// Count disables garbage collection while it runs, because a collection would empty each sync.Pool.
//
// The function f should perform at least a hundred operations. Otherwise Count may miss an
// allocation that occurs only once in a hundred operations.
func Count(want float64, f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	n := testing.AllocsPerRun(1, f)
	for i := 1; i < tries && n != want; i++ {
		n = min(n, testing.AllocsPerRun(1, f))
	}
	return n
}
