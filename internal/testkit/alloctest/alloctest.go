// Package alloctest counts a function's allocations.
package alloctest

import (
	"runtime/debug"
	"testing"
)

// tries is how often Count counts. More than one try is needed because a count covers the whole
// process, in which the runtime sometimes allocates for its own goroutines. The function's own
// allocations are in every try.
const tries = 3

// Count returns the number of allocations of one call of f, after one call that is not counted. If
// a count differs from want, Count counts again. Meanwhile it disables garbage collection, because
// a collection would empty each sync.Pool. f is called up to six times. It should do at least a
// hundred operations, so that one allocation in a hundred operations is detected.
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
