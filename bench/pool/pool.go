// Package pool measures what it costs to have a buffer for a moment: to get one, write to it and give it back. It is done on
// one goroutine, on every processor at once, and between two goroutines, of which one gets the buffers and the other gives
// them back.
//
// Every contender is used as its own documentation says and has its own copy of the loop, so that nobody is called through
// an interface. Pools are made anew for each turn, but for those that a program has one of.
package pool

import (
	"runtime"
	"sync"
)

// Sizes are those of the buffers.
var Sizes = []int{1 << 10, 16 << 10, 64 << 10}

// stride is how far apart the bytes are that are written: a cache line. So it shows who gives memory out that is still in
// the processor's cache, and not much else is measured.
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

// A Contender is a way to have buffers.
type Contender struct {
	Name string

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

// contender makes one of l, which is called anew for each turn.
func contender[T any](name string, l func(size int) lending[T]) Contender {
	return Contender{name, func(size int) works {
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

// A Mode is who gets buffers and gives them back.
type Mode struct {
	Key  string // of the command line
	What string

	procs func() int                  // that do n operations each
	run   func(w works, n int) uint64 // on each of them
}

// Modes are all of them.
var Modes = []Mode{
	{"one", "one goroutine", one, works.one},
	{"each", "a goroutine on each processor, one pool for all", everyProcessor, works.one},
	{"handoff", "taken on one goroutine, given back on another", one, works.two},
}

func one() int            { return 1 }
func everyProcessor() int { return runtime.GOMAXPROCS(0) }

func (w works) one(n int) uint64 { return w.alone(n) }
func (w works) two(n int) uint64 { return w.handOff(n) }

// do does n operations on each processor that takes part.
func (m Mode) do(w works, n int) {
	var all sync.WaitGroup
	for range m.procs() - 1 {
		all.Go(func() { m.run(w, n) })
	}
	m.run(w, n)
	all.Wait()
}
