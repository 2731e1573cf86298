// Package pool measures the cost of getting a buffer, writing to it and returning it, on one
// goroutine and on all processors at once.
//
// Each contender has its own loop, so that no method is called through an interface. Each
// measurement uses a new pool, unless the contender has one global pool.
package pool

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/bytedance/gopkg/lang/mcache"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
)

// Program is the benchmark of buffer pools. It takes many short measurements, so that most of them
// are not interrupted.
var Program = &measure.Program{
	Name: "pool", What: "a buffer from a pool and back", Rounds: 11, Turn: 20 * time.Millisecond,
	Parts: []string{"one", "each"},
	Run:   run,
}

type mode struct {
	key, what string
	procs     func() int
}

var modes = []mode{
	{"one", "one goroutine", func() int { return 1 }},
	{"each", "a goroutine on each processor, one pool for all",
		func() int { return runtime.GOMAXPROCS(0) }},
}

var sizes = []int{1 << 10, 16 << 10, 64 << 10}

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
		for i, c := range contenders {
			row := []any{c.name}
			for _, of := range costs {
				row = append(row, of[i].Nanos, of[0].Nanos.Over(of[i].Nanos), of[i].Bytes.Whole())
			}
			t.Row(row...)
		}
		if err := p.Add(t); err != nil {
			return err
		}
	}
	return nil
}

func (m mode) contenders(size int) (all []measure.Contender) {
	const warmUp = 256 // operations that fill the pools before the clock starts
	for _, c := range contenders {
		all = append(all, measure.Contender{Name: c.name, Turn: func(n int) (measure.Turn, error) {
			lend := c.open(size)
			m.do(lend, warmUp)
			return measure.Take(n*m.procs(), func() { m.do(lend, n) }), nil
		}})
	}
	return all
}

func (m mode) do(lend func(int) uint64, n int) {
	var all sync.WaitGroup
	for range m.procs() - 1 {
		all.Go(func() { lend(n) })
	}
	lend(n)
	all.Wait()
}

type contender struct {
	name string
	// open creates a pool. The function lend takes and returns n buffers, one after the other. It
	// may be called concurrently.
	open func(size int) (lend func(n int) uint64)
}

// The first contender is the baseline.
var contenders = []contender{
	{"sync.Pool of *[]byte", lendSyncPool},
	{"millrace.Pool, Get and Release", func(size int) func(int) uint64 {
		return lendMillrace(millrace.NewPool(), size)
	}},
	{"bytedance mcache", lendMcache},
	{"make", lendMade},
}

// touch writes v to each cache line of p.
func touch(p []byte, v byte) {
	const cacheLine = 64
	for i := 0; i < len(p); i += cacheLine {
		p[i] = v
	}
}

// lendSyncPool stores pointers in the pool, because storing a slice allocates.
func lendSyncPool(size int) func(int) uint64 {
	pool := sync.Pool{New: func() any {
		p := make([]byte, size)
		return &p
	}}
	return func(n int) (sum uint64) {
		for i := range n {
			p := pool.Get().(*[]byte)
			touch(*p, byte(i))
			sum += uint64((*p)[0])
			pool.Put(p)
		}
		return sum
	}
}

func lendMillrace(pool *millrace.Pool, size int) func(int) uint64 {
	return func(n int) (sum uint64) {
		for i := range n {
			d := pool.Get(size)
			p := d.Bytes()[:size]
			touch(p, byte(i))
			sum += uint64(p[0])
			d.Release()
		}
		return sum
	}
}

func lendMcache(size int) func(int) uint64 {
	return func(n int) (sum uint64) {
		for i := range n {
			p := mcache.Malloc(size)
			touch(p, byte(i))
			sum += uint64(p[0])
			mcache.Free(p)
		}
		return sum
	}
}

func lendMade(size int) func(int) uint64 {
	return func(n int) (sum uint64) {
		for i := range n {
			p := make([]byte, size)
			touch(p, byte(i))
			sum += uint64(p[0])
		}
		return sum
	}
}
