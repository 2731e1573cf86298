package chunk

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// A Tuner moves three things while work is done: how many workers do it, how large the chunks are that they work on, and
// how many chunks are read ahead. It looks at processor time, memory and the bytes that got done, tries one step at a
// time, and takes back each that did not pay. What it does, and when, is in docs/chunk.md; each [Move] says why.
//
//	tuner := chunk.NewTuner()
//	go tuner.Run(ctx)
//	r := chunk.NewReader(src, chunk.At(chunk.Lines()), chunk.TunedBy(tuner))
//	defer r.Close()
//	for tuner.Acquire(ctx) == nil {
//		ref, err := r.Next(ctx)
//		if err != nil {
//			tuner.Release()
//			if err != io.EOF {
//				failed = err
//			}
//			break
//		}
//		workers.Go(func() {
//			defer tuner.Release()
//			defer ref.Release()
//			work(ref.Bytes())
//		})
//	}
//
// [Tuner.Run] samples the process. Whoever measures something else, a cgroup or a model, calls [Tuner.Observe] instead,
// which looks at no clock: the same samples make the same moves.
//
// One Tuner may serve any number of Readers and workers, which it takes for one load. All methods may be called from any
// goroutine, Run from one at a time.
type Tuner struct {
	cfg  tunerConfig
	gate gate

	// reading is what Readers take their setting from, without a lock: the chunk size above, the depth in the lower 32
	// bits. Each read of a source loads it; a Reader that sees a change late takes one more chunk of the old size.
	reading atomic.Uint64

	// What Readers and workers have done since the Tuner was made.
	moved   atomic.Int64 // bytes
	starved atomic.Int64 // times Next waited for the source
	stuffed atomic.Int64 // times a source waited for Next, because Depth chunks did already

	sampling atomic.Bool // Run is under way

	mu    sync.Mutex // guards what follows; gate.mu is taken within it
	rules rules
	stats TunerStats
}

// TunerStats is a snapshot of a Tuner. The counters begin with 0 and only grow.
type TunerStats struct {
	Setting Setting // in force
	Trying  bool    // Setting is being tried: what was there before may come back

	Running int // workers that have Acquired and not Released
	Waiting int // goroutines that wait in Acquire

	Samples uint64
	Moves   [moveReasons]uint64 // by MoveReason; those for Stay are samples that moved nothing
	Kept    uint64              // steps that paid

	Last   Move   // the last one that moved something
	Sample Sample // the last one observed
}

// NewTuner returns a Tuner that begins with two workers per processor and the Reader's defaults. It does nothing until
// Run or Observe is called.
func NewTuner(opts ...TunerOption) *Tuner {
	t := &Tuner{cfg: defaultTunerConfig(runtime.GOMAXPROCS(0))}
	for _, opt := range opts {
		opt(&t.cfg)
	}
	t.cfg.start = t.cfg.bound(t.cfg.start)
	t.rules = newRules(&t.cfg)
	t.apply(t.cfg.start)
	return t
}

// Setting returns the setting in force.
func (t *Tuner) Setting() Setting {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rules.now
}

// Observe takes in a sample and returns what it made the Tuner do: most often to [Stay]. A sample of no time is left out.
func (t *Tuner) Observe(s Sample) Move {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.rules.observe(s)
	t.stats.Samples++
	t.stats.Moves[m.Why]++
	t.stats.Sample = s
	t.stats.Kept = t.rules.paid
	if m.From != m.To {
		t.stats.Last = m
		t.apply(m.To)
	}
	return m
}

// apply tells workers and Readers. t.mu is held, or t is not shared yet.
func (t *Tuner) apply(s Setting) {
	t.gate.setLimit(s.Workers)
	t.reading.Store(uint64(s.ChunkSize)<<32 | uint64(s.Depth))
}

// Stats returns a snapshot.
func (t *Tuner) Stats() TunerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Setting, s.Trying = t.rules.now, t.rules.trying
	s.Running, s.Waiting, _ = t.gate.load()
	return s
}

// Acquire waits until fewer than Setting().Workers workers are at work, and makes the caller one more; whoever came
// first is first. [Tuner.Release] ends its work. When ctx ends before that, Acquire returns ctx's error, and there is
// nothing to release. When the setting falls, nobody is stopped: the next ones wait until enough have released.
func (t *Tuner) Acquire(ctx context.Context) error { return t.gate.acquire(ctx) }

// Release ends the work of a worker that has Acquired. It panics when there is none.
func (t *Tuner) Release() { t.gate.release() }

// Moved counts bytes that were worked on. Readers under the Tuner count what they give by themselves; this is for workers
// whose bytes come from elsewhere.
func (t *Tuner) Moved(bytes int64) { t.moved.Add(max(bytes, 0)) }
