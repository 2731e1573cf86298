// Package pool measures what it costs to have a buffer for a moment: to get one, write to it and give it back. It is done on
// one goroutine, on every processor at once, and between two goroutines, of which one gets the buffers and the other gives
// them back.
//
// Every contender is used as its own documentation says and has its own copy of the loop, so that no contender is called
// through an interface. Pools are made anew for each turn, but for pools that a program has one of.
package pool

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program measures a table for each mode. Turns are short, and there are many, so that most are not interrupted.
var Program = &measure.Program{
	Name: "pool", What: "a buffer from a pool and back", Rounds: 11, Turn: 20 * time.Millisecond,
	Parts: []string{"one", "each", "handoff"},
	Run:   run,
}

func run(ctx context.Context, p *measure.Params) error {
	for _, m := range modes {
		if !p.Wants(m.key) {
			continue
		}
		p.Logf("pool: %s", m.what)
		columns := []string{"contender"}
		var costs [][]measure.Cost
		for _, size := range sizes {
			name := fmt.Sprintf("%d KiB", size>>10)
			columns = append(columns, name+" ns", name+", x sync.Pool", name+" B/op")
			of, err := measure.Compare(ctx, m.contenders(size), p.Rounds, p.Turn)
			if err != nil {
				return err
			}
			costs = append(costs, of)
		}
		t := measure.NewTable("pool-"+m.key, "A buffer from a pool and back: "+m.what, columns...)
		t.Bar = 1
		t.Note = "A buffer is taken, a byte of each cache line is written, and the buffer is given back. x is how many times as fast."
		base := slices.IndexFunc(contenders, func(c contender) bool { return c.name == baseName })
		for i, c := range contenders {
			row := []any{c.name}
			for _, of := range costs {
				row = append(row, of[i].Nanos, of[base].Nanos.Over(of[i].Nanos), of[i].Bytes.Whole())
			}
			t.Row(row...)
		}
		if err := p.Add(t); err != nil {
			return err
		}
	}
	return nil
}

// warmUp is how many operations fill the pools before the clock starts.
const warmUp = 4 * freeList

// contenders has each contender do the mode's work with buffers of one size.
func (m mode) contenders(size int) (all []measure.Contender) {
	for _, c := range contenders {
		all = append(all, measure.Contender{Name: c.name, Turn: func(n int) (measure.Turn, error) {
			w := c.open(size)
			m.do(w, warmUp)
			return measure.Take(n*m.procs(), func() { m.do(w, n) }), nil
		}})
	}
	return all
}

// sizes are the lengths of the buffers.
var sizes = []int{1 << 10, 16 << 10, 64 << 10}

// stride is how far apart the bytes are that are written: a cache line. So it shows which pool gives out memory that is
// still in the processor's cache, and not much else is measured.
const stride = 64

// touch writes v to each cache line of p.
func touch(p []byte, v byte) {
	for i := 0; i < len(p); i += stride {
		p[i] = v
	}
}

// look reads what touch wrote.
func look(p []byte) (sum uint64) {
	for i := 0; i < len(p); i += stride {
		sum += uint64(p[i])
	}
	return sum
}

// A contender is a way to have buffers.
type contender struct {
	name string
	open func(size int) works
}

// works are a contender at work with buffers of one size. Both get, touch and give back n buffers, and return a sum of what
// they saw, which is the same for all contenders.
type works struct {
	alone   func(n int) uint64 // any number of goroutines may call it at a time
	handOff func(n int) uint64
}

// lending is a contender's way with a T, which holds a buffer.
type lending[T any] struct {
	alone func(n int) uint64
	take  func([]T)         // fills the slice with buffers that it has touched
	give  func([]T) uint64  // looks at each buffer, and gives it back
	bytes func(t *T) []byte // of a test: what t holds, until it is given back
}

// newContender makes one of l, which is called anew for each turn.
func newContender[T any](name string, l func(size int) lending[T]) contender {
	return contender{name, func(size int) works {
		way := l(size)
		return works{way.alone, way.handOff}
	}}
}

const (
	// batch is how many buffers cross a channel at once. A channel operation for each of them costs several times what
	// is measured here.
	batch = 16

	// batches is how many there are: 64 buffers are out at most, which is 4 MiB of the largest.
	batches = 4
)

// handOff takes n buffers on this goroutine and gives them back on another one.
func (l lending[T]) handOff(n int) uint64 {
	full, empty := make(chan []T, batches), make(chan []T, batches)
	for range batches {
		empty <- make([]T, batch)
	}
	sum := make(chan uint64)
	go func() {
		var s uint64
		for b := range full {
			s += l.give(b)
			empty <- b
		}
		sum <- s
	}()
	for ; n > 0; n -= batch {
		b := (<-empty)[:min(n, batch)]
		l.take(b)
		full <- b
	}
	close(full)
	return <-sum
}

// A mode says which goroutines take buffers and give them back.
type mode struct {
	key  string // of the command line
	what string

	procs func() int                  // that do n operations each
	run   func(w works, n int) uint64 // on each of them
}

var modes = []mode{
	{"one", "one goroutine", one, works.one},
	{"each", "a goroutine on each processor, one pool for all", everyProcessor, works.one},
	{"handoff", "taken on one goroutine, given back on another", one, works.two},
}

func one() int            { return 1 }
func everyProcessor() int { return runtime.GOMAXPROCS(0) }

func (w works) one(n int) uint64 { return w.alone(n) }
func (w works) two(n int) uint64 { return w.handOff(n) }

// do does n operations on each processor that takes part.
func (m mode) do(w works, n int) {
	var all sync.WaitGroup
	for range m.procs() - 1 {
		all.Go(func() { m.run(w, n) })
	}
	m.run(w, n)
	all.Wait()
}
