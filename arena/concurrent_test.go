package arena_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// A parcel is a Slice on its way to another goroutine, with what it ought to hold.
type parcel struct {
	slice  arena.Slice
	number int
	length int
}

// fill writes what the frame with that number has from at on.
func fill(p []byte, number, at int) {
	for i := range p {
		p[i] = byte(number + (at+i)*(2*number+1))
	}
}

// check reports whether the Slice still holds what was written.
func (p *parcel) check() error {
	b := p.slice.Bytes()
	if len(b) != p.length || p.slice.Len() != p.length {
		return fmt.Errorf("frame %d has %d bytes, want %d", p.number, len(b), p.length)
	}
	for i := range b {
		if want := byte(p.number + i*(2*p.number+1)); b[i] != want {
			return fmt.Errorf("byte %d of %d of frame %d is %#x, want %#x", i, len(b), p.number, b[i], want)
		}
	}
	return nil
}

// A depot is a Pool whose Slices go to goroutines, which verify them, hold them for a while, and release them.
type depot struct {
	t       testing.TB
	pool    *arena.Pool
	parcels chan parcel
	out     atomic.Int64 // how many have been sent and not been released
	workers sync.WaitGroup
}

func newDepot(t testing.TB, pool *arena.Pool, workers int) *depot {
	d := &depot{t: t, pool: pool, parcels: make(chan parcel, 2*workers)}
	for i := range workers {
		rng := rand.New(rand.NewPCG(21, uint64(i)))
		d.workers.Go(func() { d.work(rng) })
	}
	return d
}

// work takes parcels and holds a few of them, in no order; when nothing comes it releases what it holds.
func (d *depot) work(rng *rand.Rand) {
	var held []parcel
	for {
		var p parcel
		var ok bool
		select {
		case p, ok = <-d.parcels:
		default:
			for len(held) > 0 {
				held = d.letGo(rng, held)
			}
			p, ok = <-d.parcels
		}
		if !ok {
			break
		}
		held = append(held, p)
		for range rng.IntN(3) {
			runtime.Gosched()
		}
		d.handle(rng, &held[len(held)-1])
		if len(held) > rng.IntN(6) {
			held = d.letGo(rng, held)
		}
	}
	for len(held) > 0 {
		held = d.letGo(rng, held)
	}
}

// handle does with a parcel what its owner may do.
func (d *depot) handle(rng *rand.Rand, p *parcel) {
	if err := p.check(); err != nil {
		d.t.Error(err)
	}
	switch rng.IntN(8) {
	case 0:
		p.slice.Promote()
	case 1: // writes other bytes to it
		p.number += 1000
		fill(p.slice.Bytes(), p.number, 0)
	case 2: // hands it on
		done := make(chan bool)
		go func(moved parcel) {
			*p = moved
			if err := p.check(); err != nil {
				d.t.Error(err)
			}
			close(done)
		}(*p)
		<-done
	}
}

// letGo releases one of them.
func (d *depot) letGo(rng *rand.Rand, held []parcel) []parcel {
	i := rng.IntN(len(held))
	if err := held[i].check(); err != nil {
		d.t.Error(err)
	}
	held[i].slice.Release()
	d.out.Add(-1)
	return append(held[:i], held[i+1:]...)
}

// writable adds n bytes to the frame. If there is no room, it waits until there is: the workers release what they hold
// when nothing comes.
func (d *depot) writable(n int) []byte {
	for {
		out := d.out.Load()
		if p := d.pool.Writable(n); p != nil || n == 0 {
			return p
		}
		if out == 0 {
			d.t.Errorf("no room for %d+%d bytes of %d, and nothing is held", d.pool.Len(), n, d.pool.Cap())
			return nil
		}
		runtime.Gosched()
	}
}

// send writes a frame in as many steps as there are lengths, and gives it to a worker.
func (d *depot) send(number int, lengths ...int) {
	for _, n := range lengths {
		at := d.pool.Len()
		fill(d.writable(n), number, at)
	}
	p := parcel{number: number, length: d.pool.Len()}
	p.slice = d.pool.Take()
	if err := arena.Broken(d.pool); err != nil {
		d.t.Error(err)
	}
	if st := d.pool.Stats(); st.SlotsInUse > st.Slots {
		d.t.Errorf("%d of %d slots are in use", st.SlotsInUse, st.Slots)
	}
	d.out.Add(1)
	d.parcels <- p
}

// close ends the workers. Then everything has been released, and the next frame is in memory, from its beginning on.
func (d *depot) close() {
	close(d.parcels)
	d.workers.Wait()
	if n := d.out.Load(); n != 0 {
		d.t.Errorf("%d parcels are out", n)
	}
	if st := d.pool.Stats(); st.SlotsInUse != 0 || !d.pool.Droppable() {
		d.t.Errorf("%d slots are in use, Droppable %t", st.SlotsInUse, d.pool.Droppable())
	}
	if d.pool.Cap() == 0 {
		return
	}
	d.pool.Writable(d.pool.Cap())
	if at, _ := arena.PlaceOf(d.pool); at != 0 || d.pool.Mode() != arena.Back {
		d.t.Errorf("nothing is held, and the frame is at %d in %v mode", at, d.pool.Mode())
	}
	s := d.pool.Take()
	s.Release()
	if err := arena.Broken(d.pool); err != nil {
		d.t.Error(err)
	}
}

// Slices go to many goroutines, which release them in any order, some long after others.
func TestSlicesOnManyGoroutines(t *testing.T) {
	for _, slots := range []int{8, 64, 512} {
		for _, capacity := range []int{100, 2000, 60_000} {
			for _, fallback := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d slots, %d bytes, fallback %t", slots, capacity, fallback), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(22, uint64(slots+capacity)))
					pool := arena.NewPool(capacity, arena.Slots(slots), arena.HeapFallback(fallback))
					d := newDepot(t, pool, 6)
					frames := rounds(2000)
					for i := range frames {
						n := rng.IntN(min(capacity, 1000)/3 + 1)
						d.send(i, 1+n, rng.IntN(n+1), rng.IntN(n+1)/2)
						if t.Failed() {
							break
						}
					}
					d.close()
					total := uint64(1) // that of close
					for _, c := range pool.Stats().Modes {
						total -= c.Frames
					}
					if total != -uint64(frames) && !t.Failed() {
						t.Errorf("of %d frames, %d were not counted", frames, total)
					}
				})
			}
		}
	}
}

// All slots are taken, and the producer looks for one while another goroutine releases them, oldest first, so that
// nearly every release comes while the producer searches.
func TestReleaseWhileTheProducerSearches(t *testing.T) {
	for _, slots := range []int{8, 64, 512} {
		for _, size := range []int{1, 3} { // of frames in places for 2 bytes: the slots are short, or the memory is
			pool := arena.NewPool(2*slots, arena.Slots(slots), arena.HeapFallback(false))
			d := &depot{t: t, pool: pool, parcels: make(chan parcel, slots)}
			for range 2 {
				d.workers.Go(func() {
					rng := rand.New(rand.NewPCG(23, 23))
					for p := range d.parcels {
						d.letGo(rng, []parcel{p})
					}
				})
			}
			for i := range rounds(20_000) {
				d.send(i, size)
				if t.Failed() {
					break
				}
			}
			d.close()
		}
	}
}

// Every order of release and every number of Slices held, each released by the next of several goroutines while the
// producer goes on. The bytes stay what they were, and when all have come back the next frame is in memory again.
func TestReleaseOrdersOnManyGoroutines(t *testing.T) {
	for _, order := range releaseOrders {
		for _, slots := range []int{8, 64, 512} {
			rng := rand.New(rand.NewPCG(24, uint64(slots)))
			for depth := 1; depth <= slots+1; depth += (1 + depth/9*slots/64) * stride(slots) {
				pool := arena.NewPool(slots*traced, arena.Slots(slots))
				d := &depot{t: t, pool: pool, parcels: make(chan parcel, slots)}
				due := make(chan parcel, 4)
				for i := range 3 {
					rng := rand.New(rand.NewPCG(25, uint64(i)))
					d.workers.Go(func() {
						for p := range due {
							d.letGo(rng, []parcel{p})
						}
					})
				}
				var held []parcel
				for i := range 2*depth + 20 {
					if len(held) == depth {
						at := order.next(rng, depth)
						due <- held[at]
						held = append(held[:at], held[at+1:]...)
					}
					d.send(i, 1+rng.IntN(traced))
					held = append(held, <-d.parcels)
				}
				for _, p := range held { // those that were never let go
					due <- p
				}
				close(due)
				d.workers.Wait()
				pool.Writable(slots * traced)
				if pool.Mode() != arena.Back || t.Failed() {
					t.Fatalf("%s, %d slots, %d held: mode %v after all were released", order.name, slots, depth, pool.Mode())
				}
				s := pool.Take()
				s.Release()
			}
		}
	}
}

// Each of the Slices is released by a goroutine of its own, all at once.
func TestAllReleasedAtOnce(t *testing.T) {
	for _, slots := range []int{8, 64, 512} {
		pool := arena.NewPool(slots*traced, arena.Slots(slots))
		for range rounds(200) {
			var owners sync.WaitGroup
			start := make(chan bool)
			for range slots + 3 {
				pool.Writable(traced)
				s := pool.Take()
				owners.Go(func() {
					<-start
					s.Release()
				})
			}
			close(start)
			pool.Writable(traced) // wherever that is
			between := pool.Take()
			between.Release()
			owners.Wait()
			pool.Writable(slots * traced)
			if pool.Mode() != arena.Back {
				t.Fatalf("%d slots: mode %v after all were released", slots, pool.Mode())
			}
			s := pool.Take()
			s.Release()
		}
	}
}

// Of several goroutines that release copies of one Slice, one does and the others panic.
func TestDoubleReleaseOnManyGoroutines(t *testing.T) {
	if raceEnabled && arena.Invariants {
		t.Skip("both may overwrite the memory before one is found out, which is a race")
	}
	pool := arena.NewPool(100)
	for range rounds(500) {
		s := takeText(pool, "once")
		var released, panicked atomic.Int64
		var owners sync.WaitGroup
		for range 4 {
			owners.Go(func() {
				copied := s
				switch panicText(copied.Release) {
				case "":
					released.Add(1)
				case releasedTwice:
					panicked.Add(1)
				}
			})
		}
		owners.Wait()
		if released.Load() != 1 || panicked.Load() != 3 {
			t.Fatalf("%d released it and %d panicked, of 4", released.Load(), panicked.Load())
		}
	}
}
