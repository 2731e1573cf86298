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

// A parcel is a Slice that is passed to another goroutine, with its expected contents.
type parcel struct {
	slice  arena.Slice
	number int
	length int
}

// fill writes the contents of the frame with this number, starting at offset at.
func fill(p []byte, number, at int) {
	for i := range p {
		p[i] = byte(number + (at+i)*(2*number+1))
	}
}

// check reports whether the Slice still holds the written bytes.
func (p *parcel) check() error {
	b := p.slice.Bytes()
	if len(b) != p.length || p.slice.Len() != p.length {
		return fmt.Errorf("frame %d has %d bytes, want %d", p.number, len(b), p.length)
	}
	for i := range b {
		if want := byte(p.number + i*(2*p.number+1)); b[i] != want {
			return fmt.Errorf("byte %d of %d of frame %d is %#x, want %#x", i, len(b), p.number,
				b[i], want)
		}
	}
	return nil
}

// A depot is a Pool whose Slices are passed to goroutines. The goroutines check them, hold them for
// a while, and release them.
type depot struct {
	t       testing.TB
	pool    *arena.Pool
	cap     int
	parcels chan parcel
	out     atomic.Int64 // parcels sent and not released
	workers sync.WaitGroup
}

func newDepot(t testing.TB, capacity, slots int, fallback bool, workers int) *depot {
	d := &depot{
		t: t, pool: newPool(capacity, slots, fallback), cap: capacity,
		parcels: make(chan parcel, 2*workers),
	}
	for i := range workers {
		rng := rand.New(rand.NewPCG(21, uint64(i)))
		d.workers.Go(func() { d.work(rng) })
	}
	return d
}

// work receives parcels and holds some of them, in no order. If none arrives, work releases all.
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

// handle does one of the things that the owner of a parcel may do.
func (d *depot) handle(rng *rand.Rand, p *parcel) {
	if err := p.check(); err != nil {
		d.t.Error(err)
	}
	switch rng.IntN(8) {
	case 0:
		p.slice.Promote()
	case 1: // overwrites it
		p.number += 1000
		fill(p.slice.Bytes(), p.number, 0)
	case 2: // passes it on
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

// letGo releases one of the parcels.
func (d *depot) letGo(rng *rand.Rand, held []parcel) []parcel {
	i := rng.IntN(len(held))
	if err := held[i].check(); err != nil {
		d.t.Error(err)
	}
	held[i].slice.Release()
	d.out.Add(-1)
	return append(held[:i], held[i+1:]...)
}

// writable adds n bytes to the frame. If there is no room, writable waits: the workers release all
// Slices when no new ones arrive.
func (d *depot) writable(n int) []byte {
	for {
		out := d.out.Load()
		if p := d.pool.Writable(n); p != nil || n == 0 {
			return p
		}
		if out == 0 {
			d.t.Errorf("no room for %d+%d bytes of %d, and nothing is held", d.pool.Len(), n, d.cap)
			return nil
		}
		runtime.Gosched()
	}
}

// send writes a frame in one step per length, and passes it to a worker.
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

// close ends the workers. After that all Slices are released, and the next frame starts at the
// beginning of the memory.
func (d *depot) close() {
	close(d.parcels)
	d.workers.Wait()
	if n := d.out.Load(); n != 0 {
		d.t.Errorf("%d parcels are out", n)
	}
	if st := d.pool.Stats(); st.SlotsInUse != 0 || !d.pool.Droppable() {
		d.t.Errorf("%d slots are in use, Droppable %t", st.SlotsInUse, d.pool.Droppable())
	}
	if d.cap == 0 {
		return
	}
	d.pool.Writable(d.cap)
	if at, _ := arena.PlaceOf(d.pool); at != 0 || d.pool.Mode() != arena.Back {
		d.t.Errorf("nothing is held, and the frame is at %d in %v mode", at, d.pool.Mode())
	}
	s := d.pool.Take()
	s.Release()
	if err := arena.Broken(d.pool); err != nil {
		d.t.Error(err)
	}
}

// Slices are passed to many goroutines, which release them in any order, some much later than
// others.
func TestSlicesOnManyGoroutines(t *testing.T) {
	for _, slots := range []int{8, 64, 512} {
		for _, capacity := range []int{100, 2000, 60_000} {
			for _, fallback := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d slots, %d bytes, fallback %t", slots, capacity, fallback),
					func(t *testing.T) {
						rng := rand.New(rand.NewPCG(22, uint64(slots+capacity)))
						d := newDepot(t, capacity, slots, fallback, 6)
						for i := range rounds(2000) {
							n := rng.IntN(min(capacity, 1000)/3 + 1)
							d.send(i, 1+n, rng.IntN(n+1), rng.IntN(n+1)/2)
							if t.Failed() {
								break
							}
						}
						d.close()
					})
			}
		}
	}
}

// All slots are taken. The producer searches for one while another goroutine releases them, oldest
// first. Nearly every release happens during a search.
func TestReleaseWhileTheProducerSearches(t *testing.T) {
	for _, slots := range []int{8, 64, 512} {
		// The frames have places of 2 bytes. First the slots run out, then the memory.
		for _, size := range []int{1, 3} {
			d := newDepot(t, 2*slots, slots, false, 0)
			d.parcels = make(chan parcel, slots)
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

// If several goroutines release copies of one Slice, one succeeds and the others panic.
func TestDoubleReleaseOnManyGoroutines(t *testing.T) {
	if arena.Invariants {
		t.Skip("two copies overwrite the released memory at once, which is a race")
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
