//go:build !race && !invariants

package arena_test

import (
	"crypto/cipher"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

// wantAllocs checks how often a hundred calls of f allocate after a warm-up.
func wantAllocs(t *testing.T, what string, want float64, f func()) {
	t.Helper()
	for range 1200 {
		f()
	}
	hundred := func() {
		for range 100 {
			f()
		}
	}
	if n := alloctest.Count(100*want, hundred); n != 100*want {
		t.Errorf("%s: %v allocations in a hundred calls, want %v", what, n, 100*want)
	}
}

func TestFramesInMemoryAllocateNothing(t *testing.T) {
	for _, slots := range []int{8, 64, 512} {
		for _, order := range releaseOrders {
			for _, live := range []int{1, 3, 8, 64, 512} {
				if live > slots {
					continue
				}
				pool := arena.NewPool(live*32, arena.Slots(slots))
				rng := rand.New(rand.NewPCG(41, 41))
				held := make([]arena.Slice, 0, live)
				wantAllocs(t, order.name, 0, func() {
					if len(held) == live {
						i := order.next(rng, live)
						held[i].Release()
						held = append(held[:i], held[i+1:]...)
					}
					pool.Writable(32)
					held = append(held, pool.Take())
				})
				if n := pool.Stats().Modes[arena.Alloc].Frames; n > 0 {
					t.Errorf("%s: %d frames on the heap", order.name, n)
				}
			}
		}
	}
}

func TestTheRestOfPoolAllocatesNothing(t *testing.T) {
	pool := arena.NewPool(1000, arena.PromoteAfter(time.Hour))
	whole, chunk := make([]byte, 500), make([]byte, 10)
	wantAllocs(t, "in steps of ten bytes", 0, func() {
		for range 50 {
			copy(pool.Writable(10), chunk)
		}
		s := pool.Take()
		s.Promote()
		s.Release()
	})
	wantAllocs(t, "Write", 0, func() {
		pool.Write(whole)
		pool.Write(chunk)
		s := pool.Take()
		s.Release()
	})
	wantAllocs(t, "moved in memory", 0, func() {
		pool.Writable(100)
		a := pool.Take()
		pool.Writable(300)
		b := pool.Take()
		a.Release()
		pool.Writable(550) // after b
		pool.Writable(20)
		b.Release()
		pool.Writable(80)
		s := pool.Take()
		s.Release()
	})
	wantAllocs(t, "what looks", 0, func() {
		pool.Writable(100)
		pool.SetStart(10)
		pool.Truncate(50)
		pool.Data(20)
		pool.Stats()
		pool.Droppable()
		s := pool.Take()
		s.Bytes()
		s.Release()
	})
	if n := pool.Stats().Modes[arena.Alloc].Frames; n > 0 {
		t.Errorf("%d frames on the heap", n)
	}
	full := arena.NewPool(10, arena.NoHeap())
	wantAllocs(t, "refused", 0, func() {
		full.Writable(11)
		full.Write(whole)
	})
}

func TestSealAndOpenAllocateNothing(t *testing.T) {
	gcm := aeads[0].aead
	nonce, plain := make([]byte, gcm.NonceSize()), make([]byte, 200)
	pool := arena.NewPool(1000)
	for _, b := range []arena.Buffer{pool, sealedOnce(gcm, nonce)} {
		wantAllocs(t, "Seal and Open", 0, func() {
			b.Truncate(0)
			b.Write(plain)
			b.SetStart(6)
			if b.Seal(gcm, nonce, plain[:6]) != nil || b.Open(gcm, nonce, plain[:6]) != nil {
				t.Error("not sealed, or not opened")
			}
		})
	}
}

// sealedOnce returns a Heap that already has room in its frame.
func sealedOnce(aead cipher.AEAD, nonce []byte) *arena.Heap {
	var h arena.Heap
	h.Writable(500)
	h.Seal(aead, nonce, nil)
	return &h
}

func TestHandingOverAllocatesNothing(t *testing.T) {
	pool := arena.NewPool(1000, arena.Slots(64))
	slices, back := make(chan arena.Slice), make(chan bool)
	go func() {
		for s := range slices {
			s.Release()
			back <- true
		}
		close(back)
	}()
	wantAllocs(t, "to a goroutine that releases", 0, func() {
		pool.Writable(100)
		slices <- pool.Take()
		<-back
	})
	close(slices)
	<-back
}

// A frame on the heap needs two allocations: its memory, and the value that its Slice points to.
func TestWhatAFrameOnTheHeapAllocates(t *testing.T) {
	var h arena.Heap
	for _, b := range []arena.Buffer{arena.NewPool(0), &h} {
		wantAllocs(t, "a frame on the heap", 2, func() {
			b.Writable(100)
			s := b.Take()
			s.Release()
		})
	}
	grow := func() {
		for range 1000 {
			h.Writable(10)
		}
		h.Truncate(0)
		h.Take()
	}
	if n := testing.AllocsPerRun(100, grow); n > 20 {
		t.Errorf("10,000 bytes in steps of ten: %v allocations, want about as many as append makes",
			n)
	}
	pool := arena.NewPool(100)
	wantAllocs(t, "Promote", 2, func() {
		pool.Writable(100)
		s := pool.Take()
		s.Promote()
		s.Release()
	})
}
