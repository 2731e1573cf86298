// Package alloctest counts a function's allocations.
package alloctest

import (
	"runtime/debug"
	"testing"
)

// Count tries several times, because a count includes allocations of the runtime's own goroutines.
const tries = 3

// Count returns the number of allocations of one call of f, except in the first call. If the number
// differs from want, Count tries again. It calls f up to six times. It disables garbage collection
// meanwhile, because a collection would empty each sync.Pool. f should do at least a hundred
// operations, so that one allocation in a hundred operations is found.
func Count(want float64, f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var n float64
	for range tries {
		if n = testing.AllocsPerRun(1, f); n == want {
			break
		}
	}
	return n
}
