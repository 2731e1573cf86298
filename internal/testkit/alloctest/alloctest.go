// Package alloctest counts a function's allocations.
package alloctest

import (
	"runtime/debug"
	"testing"
)

// tries is how often Count counts. The count is of the whole process, and now and then the runtime
// allocates for its own goroutines. The function's allocations are in each try.
const tries = 3

// Count returns how many allocations one call of f makes, after one call that is not counted. A
// count that is not want is taken again. There is no garbage collection meanwhile, which would
// empty each sync.Pool. f is called up to six times, and the caller has it do a hundred operations
// or more, so that one allocation in a hundred is seen.
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
