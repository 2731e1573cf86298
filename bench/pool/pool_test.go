package pool

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestContendersSeeTheSame checks that nobody wins by touching less.
func TestContendersSeeTheSame(t *testing.T) {
	const n = 3*batch*batches + 5
	for _, size := range Sizes {
		var alone, handed uint64
		for i := range n {
			alone += uint64(byte(i))
			handed += uint64(i%batch) * uint64(size/stride)
		}
		for _, c := range Contenders {
			t.Run(fmt.Sprintf("%d/%s", size, c.Name), func(t *testing.T) {
				w := c.open(size)
				for range 2 { // with the buffers of others, and with its own
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

// TestBuffersAreApart checks that everybody gives buffers of the size, and never one to two at a time.
func TestBuffersAreApart(t *testing.T) {
	for _, size := range Sizes {
		apart(t, "no pool", size, lendSame)
		apart(t, "millrace", size, lendMillrace)
		apart(t, "sync.Pool", size, lendSyncPool)
		apart(t, "bytebufferpool", size, lendByteBufferPool)
		apart(t, "grpc", size, lendGRPC)
		apart(t, "grpc default", size, lendGRPCDefault)
		apart(t, "mcache", size, lendMcache)
		apart(t, "channel", size, lendChannel)
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
	before := millrace.DefaultPool.Stats()
	pool := millrace.NewPool()
	l := lendMillraceFrom(pool, Sizes[0])
	l.handOff(10 * batch * batches)
	l.alone(10)
	if s := pool.Stats(); s.InUseBlocks != 0 || s.Taken != 10*batch*batches+10 {
		t.Errorf("%d blocks are out, and %d were taken", s.InUseBlocks, s.Taken)
	}
	if after := millrace.DefaultPool.Stats(); after != before {
		t.Errorf("the default pool was used: %+v, %+v before", after, before)
	}
}

func TestTable(t *testing.T) {
	for _, m := range Modes {
		t.Run(m.Key, func(t *testing.T) {
			var all [][]Result
			sizes := Sizes[:2]
			for _, size := range sizes {
				all = append(all, Measure(m, Contenders, size, 2, time.Microsecond))
			}
			var b strings.Builder
			if err := WriteTable(&b, sizes, all); err != nil {
				t.Fatal(err)
			}
			for _, c := range Contenders {
				if !strings.Contains(b.String(), "| "+c.Name) {
					t.Errorf("no row of %q", c.Name)
				}
			}
			if strings.Contains(b.String(), "| - ") {
				t.Errorf("holes in the table:\n%s", b.String())
			}
		})
	}
}

func BenchmarkPool(b *testing.B) {
	for _, m := range Modes {
		for _, size := range Sizes {
			for _, c := range Contenders {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", m.Key, size>>10, c.Name), func(b *testing.B) {
					w := c.open(size)
					m.do(w, warmUp)
					b.ReportAllocs()
					b.ResetTimer()
					m.do(w, (b.N+m.procs()-1)/m.procs())
				})
			}
		}
	}
}
