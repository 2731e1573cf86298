package arena_test

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// rounds returns n, or fewer if each round takes long.
func rounds(n int) int {
	if testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// stride returns 1, or more if there are many steps and each takes long.
func stride(slots int) int {
	if slots > 8 && (testing.Short()) {
		return 7
	}
	return 1
}

// A program chooses the operations. Any string of bytes is a program, so the random test and the
// fuzz tests share it.
type program []byte

// choose returns the next byte of the program, or 0 after its end.
func (p *program) choose() byte {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return b
}

// number chooses a number from 0 to n.
func (p *program) number(n int) int {
	return (int(p.choose())<<16 | int(p.choose())<<8 | int(p.choose())) % (n + 1)
}

// upTo chooses a number from 0 to n, both ends more often than others.
func (p *program) upTo(n int) int {
	switch b := p.choose(); {
	case b < 32:
		return 0
	case b < 64:
		return n
	case b < 128:
		return min(int(b)-64, n)
	}
	return p.number(n)
}

func randomProgram(rng *rand.Rand, n int) program {
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(rng.Uint32())
	}
	return bytes
}

// A modelRun is a model with the program that is run on it.
type modelRun struct {
	*model
	program
}

// modelOps are the possible operations. Fuzz inputs refer to the entries by index: add new ones at
// the end.
var modelOps = []func(p *modelRun){
	func(p *modelRun) { p.writable(p.size()); p.take() },
	func(p *modelRun) { p.writable(p.size()) },
	func(p *modelRun) { p.write(p.size(), p.choose()%4 == 0) },
	func(p *modelRun) { p.take() },
	func(p *modelRun) { p.truncate(p.upTo(len(p.frame))) },
	func(p *modelRun) { p.setStart(p.upTo(len(p.frame))) },
	func(p *modelRun) { p.seal(int(p.choose()), int(p.choose())) },
	func(p *modelRun) { p.some((*model).release) },
	func(p *modelRun) { p.some((*model).promote) },
	func(p *modelRun) { p.some((*model).scribble) },
	func(p *modelRun) { p.releaseAll() },
	func(p *modelRun) { // fills all slots
		n := 1 + int(p.choose())%4
		for range min(p.slots, 70) - len(p.held) {
			p.writable(n)
			p.take()
		}
	},
	func(p *modelRun) { // releases most, keeps a few
		for i := len(p.held) - 1; i >= 0; i-- {
			if p.choose()%4 != 0 {
				p.release(i)
			}
		}
	},
	// Repeated, so that it is chosen more often.
	func(p *modelRun) { p.writable(p.size()); p.take() },
	func(p *modelRun) { p.some((*model).release) },
	func(p *modelRun) { // a frame that fills its gap and is moved down over its old place
		p.take()
		p.writable(1 + int(p.choose())%20)
		p.take()
		gaps := p.gaps()
		last := gaps[len(gaps)-1]
		p.writable(last[1] - last[0])
		p.setStart(p.upTo(len(p.frame)))
		if len(p.held) > 0 {
			p.release(len(p.held) - 1)
		}
		if p.choose()%2 == 0 {
			p.write(1+int(p.choose())%4, true)
		} else {
			p.seal(int(p.choose()), int(p.choose()))
		}
	},
}

// runModel makes a Pool and runs a program to its end, or to the first difference.
func runModel(t testing.TB, todo program, most int) {
	t.Helper()
	p := &modelRun{program: todo}
	slots := []int{8, 8, 8, 64, 512}[int(p.choose())%5]
	fallback := p.choose()%4 != 0
	p.model = newModel(t, p.number(most), slots, fallback)
	defer func() {
		if e := recover(); e != nil {
			p.errorf("panic: %v", e)
		}
	}()
	for len(p.program) > 0 && !t.Failed() {
		modelOps[int(p.choose())%len(modelOps)](p)
	}
	if !t.Failed() {
		p.finish()
	}
}

// size chooses the number of bytes to write: few, an equal share for each slot, all bytes of one
// gap, one byte more than that, or more than the memory.
func (p *modelRun) size() int {
	switch b := p.choose(); {
	case b < 96:
		return int(b) % 12
	case b < 144:
		return p.capacity / p.slots
	case b < 168:
		gaps := p.gaps()
		g := gaps[int(p.choose())%len(gaps)]
		return g[1] - g[0]
	case b < 184:
		gaps := p.gaps()
		g := gaps[int(p.choose())%len(gaps)]
		return g[1] - g[0] + 1
	case b < 188:
		return p.capacity + int(p.choose())
	}
	return p.number(p.capacity) / (1 + int(p.choose())%8)
}

// some applies do to one of the held Slices, if there is one: the oldest, the newest or any.
func (p *modelRun) some(do func(m *model, i int)) {
	if len(p.held) > 0 {
		do(p.model, p.upTo(len(p.held)-1))
	}
}

func TestPoolAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range rounds(700) {
		runModel(t, randomProgram(rng, 10+rng.IntN(500)), []int{0, 3, 40, 300, 5000}[rng.IntN(5)])
		if t.Failed() {
			return
		}
	}
}

// releaseOrders choose which held Slice is released next.
var releaseOrders = []struct {
	name string
	next func(rng *rand.Rand, held int) int
}{
	{"newest first", func(_ *rand.Rand, held int) int { return held - 1 }},
	{"oldest first", func(*rand.Rand, int) int { return 0 }},
	{"from the middle", func(_ *rand.Rand, held int) int { return held / 2 }},
	{"random", func(rng *rand.Rand, held int) int { return rng.IntN(held) }},
	{"all but the oldest", func(_ *rand.Rand, held int) int { return min(1, held-1) }},
}

// Every order of release is tried with every number of held Slices, up to one more than there are
// slots. Depth 1 takes one frame after the other. The model checks the place of each frame: if all
// frames have one size and the memory has a place for each, they never leave the memory, in any
// order.
func TestReleaseOrders(t *testing.T) {
	for _, order := range releaseOrders {
		t.Run(order.name, func(t *testing.T) {
			for _, slots := range []int{8, 64, 512} {
				rng := rand.New(rand.NewPCG(7, uint64(slots)))
				for depth := 1; depth <= slots+1; depth += (1 + depth/9*slots/64) * stride(slots) {
					for _, size := range []int{1, 7} {
						capacity := depth // frames of one byte each
						if size > 1 {
							capacity = slots * size * (1 + rng.IntN(3))
						}
						m := newModel(t, capacity, slots, rng.IntN(4) > 0)
						m.hold(rng, depth, 2*depth+20, size, order.next)
						if t.Failed() {
							t.Fatalf("%d slots, %d held", slots, depth)
						}
						m.finish()
					}
				}
			}
		})
	}
}

// hold takes frames of at most size bytes. Before each it releases one if depth frames are held.
func (m *model) hold(rng *rand.Rand, depth, frames, size int, next func(*rand.Rand, int) int) {
	for range frames {
		if len(m.held) >= depth {
			m.release(next(rng, len(m.held)))
		}
		m.writable(1 + rng.IntN(size))
		if rng.IntN(4) == 0 {
			m.writable(rng.IntN(size))
		}
		m.take()
		if m.t.Failed() {
			return
		}
	}
}

// 8 Slices are released in each of the 40,320 orders, or in a quarter of them if each takes long. A
// frame is taken after each release.
func TestEveryOrderOfEight(t *testing.T) {
	pool := arena.NewPool(8 * unit)
	quarter := 1
	if testing.Short() {
		quarter = 4 // two are left
	}
	var order [8]int
	var try func(n int, used int)
	try = func(n, used int) {
		if n == len(order) {
			releaseInOrder(t, pool, order)
			return
		}
		for i := range order {
			if used&(1<<i) == 0 && !t.Failed() && (n > 0 || i%quarter == 0) {
				order[n] = i
				try(n+1, used|1<<i)
			}
		}
	}
	try(0, 0)
}

func releaseInOrder(t *testing.T, pool *arena.Pool, order [8]int) {
	var held [8]arena.Slice
	for i := range held {
		pool.Writable(unit)
		held[i] = pool.Take()
	}
	for _, i := range order {
		held[i].Release()
		pool.Writable(unit)
		if pool.Mode() == arena.Alloc {
			t.Fatalf("order %v: on the heap after the release of %d", order, i)
		}
		held[i] = pool.Take()
	}
	for _, i := range order {
		held[i].Release()
	}
	pool.Writable(8 * unit)
	if pool.Mode() != arena.Back {
		t.Fatalf("order %v: mode %v after all were released", order, pool.Mode())
	}
	s := pool.Take()
	s.Release()
	if err := arena.Broken(pool); err != nil {
		t.Fatalf("released in the order %v: %v", order, err)
	}
}
