package reader

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program compares ways to read packets from TCP connections and from a Source. It also compares
// ways to read lines.
var Program = &measure.Program{
	Name: "reader", What: "packets and lines read from TCP connections, and from a generator",
	Rounds: 9, Turn: 300 * time.Millisecond, Parts: []string{"tcp", "lines", "generator"},
	Brief: []string{"-rounds", "5", "-turn", "200ms"},
	Run:   run,
}

func run(ctx context.Context, p *measure.Params) error {
	if p.Wants("tcp") {
		if err := runTCP(ctx, p); err != nil {
			return err
		}
	}
	if p.Wants("lines") {
		if err := runLines(ctx, p); err != nil {
			return err
		}
	}
	if p.Wants("generator") {
		return runGenerator(ctx, p)
	}
	return nil
}

type workload struct {
	name, title string
	parallel    bool // one stream per processor, each read by a goroutine
	streams     int
	subs        int
}

var workloads = []workload{
	{"w1", "W1, a generator on each processor, read by a goroutine each", true, 1, 0},
	{"w2", "W2, one generator", false, 1, 0},
	{"w3", "W3, 100 generators, each packet to 10 subscribers", false, 100, 10},
}

func runGenerator(ctx context.Context, p *measure.Params) error {
	for _, c := range onGenerator {
		if err := c.check([]io.Reader{NewSource(1), NewSource(2), NewSource(3)}, 999); err != nil {
			return err
		}
	}
	for _, w := range workloads {
		p.Logf("reader: %s", w.title)
		var contenders []measure.Contender
		for _, c := range onGenerator {
			contenders = append(contenders, measure.Contender{Name: c.name,
				Turn: func(n int) (measure.Turn, error) {
					return w.turn(c, n), nil
				}})
		}
		costs, err := measure.Compare(ctx, contenders, p.Rounds, p.Turn)
		if err != nil {
			return err
		}
		t := measure.NewTable("reader-generator-"+w.name,
			"Packets of 1 KiB from a generator: "+w.title, "contender", "ns a packet",
			"x bufio + make", "x Peek+Discard", "CPU ns", "by CPU, x Peek+Discard", "B/op",
			"allocs/op", "GCs a million")
		t.Bar = 1
		t.Note = "The generator gives 64 to 2048 bytes a Read and never waits. x is how many times as fast the contender is."
		for i, c := range costs {
			t.Row(contenders[i].Name, c.Nanos, costs[0].Nanos.Over(c.Nanos),
				costs[1].Nanos.Over(c.Nanos), c.CPU.Median(),
				costs[1].CPU.Over(c.CPU), c.Bytes.Whole(), c.Allocs.Median(), c.GCs.Median())
		}
		if err := p.Add(t); err != nil {
			return err
		}
	}
	return nil
}

// warmUp is the number of packets that are read before the clock starts, to fill all buffers and
// pools.
const warmUp = 20_000

// turn measures the cost of reading n packets on one processor, or on each processor if the
// workload is parallel.
func (w workload) turn(c contender, n int) measure.Turn {
	procs := 1
	if w.parallel {
		procs = runtime.GOMAXPROCS(0)
	}
	var opened atomic.Int32
	var warm, done sync.WaitGroup
	warm.Add(procs)
	start := make(chan struct{})
	for range procs {
		done.Go(func() {
			// Wait until all goroutines have a processor before the first one allocates. Otherwise
			// the memory of two goroutines may share a cache line.
			opened.Add(1)
			for opened.Load() < int32(procs) {
				runtime.Gosched()
			}
			packets, release := w.open(c)
			defer release()
			packets(warmUp)
			warm.Done()
			<-start
			packets(n)
		})
	}
	warm.Wait()
	runtime.GC()
	return measure.Take(n*procs, func() {
		close(start)
		done.Wait()
	})
}

func (w workload) open(c contender) (packets func(int), release func()) {
	streams := make([]io.Reader, w.streams)
	for i := range streams {
		streams[i] = NewSource(1 + uint64(i))
	}
	a := new(audience)
	for range w.subs {
		a.subs = append(a.subs, new(subscriber))
	}
	return c.open(streams, a)
}
