package chunk

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tunerInterval = 250 * time.Millisecond // hundreds of chunks, and many ticks of a coarse processor clock

	startWorkers = 2  // per processor: the first works while the second waits
	mostWorkers  = 16 // per processor: if more of them wait for a disk or a peer, that one is the bottleneck
	leastChunk   = 4 << 10
	mostChunk    = 1 << 20 // the largest block that a Pool keeps
	mostDepth    = 16
)

// A Setting is what a [Tuner] moves.
type Setting struct {
	Workers   int // at work at a time
	ChunkSize int // bytes, as Size
	Depth     int // chunks that each Reader reads ahead, as Depth
}

// memory is how many bytes of chunks a setting may hold, with one Reader.
func (s Setting) memory() int64 { return int64(s.ChunkSize) * int64(s.Depth+s.Workers) }

// within returns s with each part moved into the bounds.
func (s Setting) within(least, most Setting) Setting {
	return Setting{
		min(max(s.Workers, least.Workers), most.Workers),
		min(max(s.ChunkSize, least.ChunkSize), most.ChunkSize),
		min(max(s.Depth, least.Depth), most.Depth),
	}
}

// A Tuner moves three things while work is done: how many workers do it, how large the chunks are, and how many chunks
// are read ahead. It measures processor time, memory, waiting and the bytes that were worked on, tries one step at a
// time, and takes back each step that did not pay. docs/chunk.md has the table of its rules.
//
//	tuner := chunk.NewTuner()
//	go tuner.Run(ctx)
//	r := chunk.NewReader(src, chunk.At(chunk.Lines()), chunk.TunedBy(tuner))
//	defer r.Close()
//	for tuner.Acquire(ctx) == nil {
//		ref, err := r.Next(ctx)
//		if err != nil {
//			tuner.Release()
//			break
//		}
//		workers.Go(func() {
//			defer tuner.Release()
//			defer ref.Release()
//			work(ref.Bytes())
//		})
//	}
//
// One Tuner may serve any number of Readers and workers, which it takes for one load. All methods may be called from any
// goroutine, Run from one at a time.
type Tuner struct {
	reading atomic.Uint64 // for Readers, which take it without mu: the chunk size in the upper 32 bits, the depth in the lower

	moved    atomic.Int64 // bytes that were worked on
	starved  atomic.Int64 // times that Next waited for the source
	stuffed  atomic.Int64 // times that a source waited for Next, because Depth chunks did already
	sampling atomic.Bool  // Run is under way

	began time.Time

	mu      sync.Mutex // guards what follows
	rules   tuning
	stats   TunerStats
	running int       // workers that have Acquired and not Released
	waiting list.List // of chan struct{}: goroutines in Acquire, the first one first; each is closed when its turn comes
	waited  int64     // Acquires that had to wait
}

// TunerStats is a snapshot of a Tuner. The counters begin with 0 and only grow.
type TunerStats struct {
	Setting Setting // in force
	Trying  bool    // Setting is on trial

	Running int // workers that have Acquired and not Released
	Waiting int // goroutines that wait in Acquire

	Samples uint64
	Moves   map[string]uint64 // by the name of the rule, and "not_paid" for steps that were taken back
}

// A TunerOption changes what [NewTuner] makes. Options panic when a value is out of range.
type TunerOption func(*Tuner)

// StartAt is the setting to begin with, moved into the bounds. The default is two workers per processor, chunks of 64 KiB
// and a depth of 3.
func StartAt(s Setting) TunerOption {
	return func(t *Tuner) { t.rules.home = s }
}

// Between bounds the setting. The default is from 1 worker, 4 KiB and a depth of 1 to 16 workers per processor, 1 MiB and a
// depth of 16.
func Between(least, most Setting) TunerOption {
	if least.within(Setting{1, 1, 1}, most) != least || most.within(least, Setting{1 << 16, mostBytes, 1 << 16}) != most {
		panic(fmt.Sprintf("chunk: Between(%+v; %+v) is out of range", least, most))
	}
	return func(t *Tuner) { t.rules.least, t.rules.most = least, most }
}

// NewTuner returns a Tuner. It moves nothing until Run is called.
func NewTuner(opts ...TunerOption) *Tuner {
	processors := runtime.GOMAXPROCS(0)
	t := &Tuner{began: time.Now(), rules: tuning{
		home:  Setting{startWorkers * processors, defaultSize, defaultDepth},
		least: Setting{1, leastChunk, 1},
		most:  Setting{mostWorkers * processors, mostChunk, mostDepth},
		limit: math.MaxInt64, patience: leastPatience,
	}}
	if limit := debug.SetMemoryLimit(-1); limit > 0 {
		t.rules.limit = limit
	}
	for _, opt := range opts {
		opt(t)
	}
	t.rules.home = t.rules.home.within(t.rules.least, t.rules.most)
	t.rules.now = t.rules.home
	t.stats.Moves = make(map[string]uint64)
	t.apply()
	return t
}

// observe takes in a sample, and returns what it made the Tuner do.
func (t *Tuner) observe(s sample) move {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.rules.observe(s)
	t.stats.Samples++
	if m.From != m.To {
		t.stats.Moves[m.Why]++
		t.apply()
		t.admit()
	}
	return m
}

// apply tells Readers of the setting. mu is held, or t is not shared yet.
func (t *Tuner) apply() {
	t.reading.Store(uint64(t.rules.now.ChunkSize)<<32 | uint64(t.rules.now.Depth))
}

// Stats returns a snapshot.
func (t *Tuner) Stats() TunerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Moves = maps.Clone(s.Moves)
	s.Setting, s.Trying = t.rules.now, t.rules.now != t.rules.home
	s.Running, s.Waiting = t.running, t.waiting.Len()
	return s
}

// Acquire waits until fewer workers are at work than the setting allows, and makes the caller one more, in the order of the
// calls. [Tuner.Release] ends its work. When ctx ends before that, Acquire returns ctx's error, and there is nothing to
// release. When the setting falls, no worker is stopped: the next ones wait until enough have released.
func (t *Tuner) Acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if t.running < t.rules.now.Workers && t.waiting.Len() == 0 {
		t.running++
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := t.waiting.PushBack(turn)
	t.waited++
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn: // came at the same moment
		t.running--
		t.admit()
	default:
		t.waiting.Remove(place)
	}
	return ctx.Err()
}

// Release ends the work of a worker that has Acquired. It panics when there is none.
func (t *Tuner) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == 0 {
		panic("chunk: Release without Acquire")
	}
	t.running--
	t.admit()
}

// admit lets those in for whom there is room. mu is held.
func (t *Tuner) admit() {
	for t.waiting.Len() > 0 && t.running < t.rules.now.Workers {
		close(t.waiting.Remove(t.waiting.Front()).(chan struct{}))
		t.running++
	}
}

// readerSetting returns the chunk size and the depth in force.
func (t *Tuner) readerSetting() (size, depth int) {
	packed := t.reading.Load()
	return int(packed >> 32), int(packed & (1<<32 - 1))
}

// Run samples the process every 250 ms and observes each sample, until ctx ends. The number of processors is GOMAXPROCS,
// which follows the limit of a cgroup. Memory is what the Go runtime has and has not given back, as GOMEMLIMIT counts it.
// Run panics when it is under way already.
func (t *Tuner) Run(ctx context.Context) {
	if !t.sampling.CompareAndSwap(false, true) {
		panic("chunk: Run of a Tuner while another goroutine is in it")
	}
	defer t.sampling.Store(false)
	tick := time.NewTicker(tunerInterval)
	defer tick.Stop()
	for last := t.count(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := t.count()
			t.observe(now.since(last))
			last = now
		}
	}
}

// count returns what has been counted since the Tuner, or the process, began, and the Processors and Memory of now.
func (t *Tuner) count() sample {
	memory := [2]metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(memory[:])
	t.mu.Lock()
	if t.waiting.Len() > 0 {
		t.waited++ // it waits in this interval as well
	}
	waited := t.waited
	t.mu.Unlock()
	return sample{
		Elapsed:    time.Since(t.began),
		Processors: float64(runtime.GOMAXPROCS(0)),
		CPU:        processorTime(),
		Memory:     int64(memory[0].Value.Uint64() - memory[1].Value.Uint64()),
		Moved:      t.moved.Load(), Waited: waited, Starved: t.starved.Load(), Stuffed: t.stuffed.Load(),
	}
}
