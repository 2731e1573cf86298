package alloctest_test

import (
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

var sink *int

func TestCount(t *testing.T) {
	for _, want := range []int{0, 1, 100} {
		got := alloctest.Count(0, func() {
			for range want {
				sink = new(int)
			}
		})
		if int(got) != want {
			t.Errorf("%v allocations, want %d", got, want)
		}
	}
	calls := 0
	if n := alloctest.Count(0, func() {
		if calls++; calls == 2 { // as if by the runtime
			sink = new(int)
		}
	}); n != 0 {
		t.Errorf("%v allocations of a function that makes none", n)
	}
}
