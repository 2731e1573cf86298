package pool

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// TestContendersSeeTheSame checks that all contenders touch and read the same bytes, including
// those of returned buffers.
func TestContendersSeeTheSame(t *testing.T) {
	const n = 600
	var want uint64
	for i := range n {
		want += uint64(byte(i))
	}
	for _, size := range sizes {
		for _, c := range contenders {
			lend := c.open(size)
			for range 2 {
				if sum := lend(n); sum != want {
					t.Errorf("%d bytes, %s: %d, want %d", size, c.name, sum, want)
				}
			}
		}
	}
}

// TestDraftsComeBack checks that all blocks have been returned to the Pool at the end.
func TestDraftsComeBack(t *testing.T) {
	pool := millrace.NewPool()
	modes[1].do(lendMillrace(pool, sizes[0]), 500)
	if s := pool.Stats(); s.InUseBlocks != 0 || s.Taken != 500*uint64(modes[1].procs()) {
		t.Errorf("%d blocks are out, and %d were taken", s.InUseBlocks, s.Taken)
	}
}

func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn", "1us"}, &out,
		t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		if n := strings.Count(out.String(), "| "+c.name+" "); n != len(modes) {
			t.Errorf("%d rows of %q:\n%s", n, c.name, &out)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := Program.Main(stopped, nil, &out, t.Output()); !errors.Is(err, context.Canceled) {
		t.Errorf("a program that is interrupted ends with %v", err)
	}
}
