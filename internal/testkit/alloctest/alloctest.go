// Package alloctest counts a function's allocations.
package alloctest

import (
	"runtime/debug"
	"testing"
)

// tries is the number of times that Count counts. The count covers the whole process, in which the
// runtime sometimes allocates for its own goroutines. The function's allocations are in every try.
const tries = 3

// Count returns the number of allocations of one call of f, after one call that is not counted. If
// a count differs from want, Count counts again. It disables garbage collection meanwhile, which
// would empty each sync.Pool. f is called up to six times. It should do at least a hundred
// operations, so that one allocation in a hundred operations is detected.
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
