package pool

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// TestContendersSeeTheSame checks that every contender touches and reads the same.
func TestContendersSeeTheSame(t *testing.T) {
	const n = 3*batch*batches + 5
	for _, size := range sizes {
		var alone, handed uint64
		for i := range n {
			alone += uint64(byte(i))
			handed += uint64(i%batch) * uint64(size/stride)
		}
		for _, c := range contenders {
			t.Run(fmt.Sprintf("%d/%s", size, c.name), func(t *testing.T) {
				w := c.open(size)
				for range 2 { // with new buffers, and with those that came back
					if sum := w.alone(n); sum != alone {
						t.Errorf("alone: %d, want %d", sum, alone)
					}
					if sum := w.handOff(n); sum != handed {
						t.Errorf("handed off: %d, want %d", sum, handed)
					}
				}
			})
		}
	}
}

// TestBuffersAreApart checks that every contender gives buffers of the size, and never lends one twice at a time.
func TestBuffersAreApart(t *testing.T) {
	for _, size := range sizes {
		apart(t, "no pool", size, lendSame)
		apart(t, "millrace", size, lendMillrace)
		apart(t, "sync.Pool", size, lendSyncPool)
		apart(t, "grpc", size, lendGRPC)
		apart(t, "mcache", size, lendMcache)
		apart(t, "stack", size, lendStack)
		apart(t, "make", size, lendMake)
	}
}

func apart[T any](t *testing.T, name string, size int, open func(int) lending[T]) {
	t.Helper()
	l := open(size)
	all := make([]T, batch)
	for range 3 {
		l.take(all)
		for i := range all {
			p := l.bytes(&all[i])
			if len(p) != size {
				t.Fatalf("%s: a buffer of %d bytes, want %d", name, len(p), size)
			}
			copy(p, bytes.Repeat([]byte{byte(i)}, size))
		}
		for i := range all {
			if n := bytes.Count(l.bytes(&all[i]), []byte{byte(i)}); n != size {
				t.Fatalf("%s: %d bytes of buffer %d are another one's", name, size-n, i)
			}
		}
		l.give(all)
	}
}

// TestDraftsComeBack checks that the Pool has all of its blocks in the end.
func TestDraftsComeBack(t *testing.T) {
	pool := millrace.NewPool()
	l := lendMillraceFrom(pool, sizes[0])
	l.handOff(10 * batch * batches)
	l.alone(10)
	if s := pool.Stats(); s.InUseBlocks != 0 || s.Taken != 10*batch*batches+10 {
		t.Errorf("%d blocks are out, and %d were taken", s.InUseBlocks, s.Taken)
	}
}

func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn", "1us"}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		if n := strings.Count(out.String(), "| "+c.name+" "); n != len(modes) {
			t.Errorf("%d rows of %q:\n%s", n, c.name, &out)
		}
	}
}
