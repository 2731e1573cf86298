package chunk

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// tunerInterval is the time between two measurements of a Tuner. It is long enough for a coarse
// processor clock.
const tunerInterval = 250 * time.Millisecond

// A Tuner adjusts the number of workers, the size of the chunks, and the number of chunks read
// ahead, while a program works. It tries one step at a time, and reverts a step that has no
// benefit. docs/chunk.md has the table of its rules.
//
// One Tuner may serve any number of Readers and workers, and measures them together. All methods
// may be called from any goroutine.
type Tuner struct {
	setting atomic.Pointer[Setting] // a copy of rules.now; Readers load it without the lock

	// Counters since the last sample:
	moved   atomic.Int64 // bytes that were processed
	starved atomic.Int64 // number of times that Next waited for the source
	stuffed atomic.Int64 // number of times that reading paused because Depth chunks were ready

	mu      sync.Mutex // guards the fields below
	rules   tuning
	moves   map[string]uint64
	running int       // number of workers between Acquire and Release
	waiting int64     // number of goroutines that wait in Acquire
	room    sync.Cond // wakes the goroutines that wait in Acquire

	sampled time.Time
	cpu     time.Duration // processor time of the process at the last sample
	waited  int64         // number of Acquires that had to wait since the last sample
}

// A TunerOption changes the Tuner that [NewTuner] returns. An option panics if its value is out of
// range.
type TunerOption func(*Tuner)

// Between limits the values in the Setting that the Tuner chooses: each value is at least the value
// in least, and at most the value in most. The default minimum is 1 worker, chunks of 4 KiB and a
// Depth of 1. The default maximum is 16 workers per processor, chunks of 1 MiB and a Depth of 16.
// Chunks of more than 1 MiB are out of range.
func Between(least, most Setting) TunerOption {
	if least.clamp(Setting{1, 1, 1}, most) != least ||
		most.clamp(least, Setting{1 << 16, mostChunk, 1 << 16}) != most {
		panic(fmt.Sprintf("chunk: Between(%+v; %+v) is out of range", least, most))
	}
	return func(t *Tuner) { t.rules.least, t.rules.most = least, most }
}

// NewTuner returns a Tuner. Its first Setting is two workers per processor, chunks of 64 KiB and a
// Depth of 3, within the limits of [Between]. The Setting does not change until Run is called.
func NewTuner(opts ...TunerOption) *Tuner {
	processors := runtime.GOMAXPROCS(0)
	t := &Tuner{moves: make(map[string]uint64), rules: tuning{
		home:  Setting{startWorkers * processors, defaultSize, defaultDepth},
		least: Setting{1, leastChunk, 1},
		most:  Setting{mostWorkers * processors, mostChunk, mostDepth},
		limit: debug.SetMemoryLimit(-1), patience: leastPatience,
	}}
	t.room.L = &t.mu
	for _, opt := range opts {
		opt(t)
	}
	t.rules.home = t.rules.home.clamp(t.rules.least, t.rules.most)
	t.rules.now = t.rules.home
	t.apply()
	return t
}

// apply makes the current Setting visible to the Readers, and wakes the workers that wait in
// Acquire. Except in NewTuner, the caller must hold t.mu.
func (t *Tuner) apply() {
	now := t.rules.now
	t.setting.Store(&now)
	t.room.Broadcast()
}

func (t *Tuner) observe(s sample) (reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if reason = t.rules.observe(s); reason != "" {
		t.moves[reason]++
		t.apply()
	}
	return reason
}

// Stats returns the current Setting, and how often the Tuner has changed it. The changes are
// counted by the name of the rule that caused them (see docs/chunk.md). The count for "not_paid" is
// the number of changes that the Tuner has reverted because they had no benefit.
func (t *Tuner) Stats() (now Setting, moves map[string]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rules.now, maps.Clone(t.moves)
}

// Acquire waits until fewer workers are at work than the Setting allows, and counts the caller as
// one more worker. The caller must call [Tuner.Release] when it has finished. If ctx ends first,
// Acquire returns ctx's error, and there is nothing to release.
//
// If the Tuner reduces the number of workers, the workers that are at work continue. New workers
// wait in Acquire until enough of them have called Release.
func (t *Tuner) Acquire(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running >= t.rules.now.Workers {
		t.waiting++
		defer func() { t.waiting-- }()
		t.waited++
		stop := context.AfterFunc(ctx, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.room.Broadcast()
		})
		defer stop()
	}
	for t.running >= t.rules.now.Workers && ctx.Err() == nil {
		t.room.Wait()
	}
	if err := ctx.Err(); err != nil {
		// This goroutine may have received a signal just when ctx ended. Pass the signal on.
		t.room.Signal()
		return err
	}
	t.running++
	return nil
}

// Release tells the Tuner that a worker that called Acquire has finished. It panics if no worker is
// at work.
func (t *Tuner) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == 0 {
		panic("chunk: Release without Acquire")
	}
	t.running--
	t.room.Signal()
}

// Run measures the process every 250 ms and adjusts the Setting (workers, chunk size and depth),
// until ctx ends. One goroutine at a time may call Run.
//
// The Tuner takes the number of processors from GOMAXPROCS, which follows the processor limit of a
// cgroup. It measures the memory of the Go runtime, as GOMEMLIMIT counts it.
func (t *Tuner) Run(ctx context.Context) {
	tick := time.NewTicker(tunerInterval)
	defer tick.Stop()
	for t.sample(); ; { // the first sample covers the time before Run and is ignored
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.observe(t.sample())
		}
	}
}

// sample returns the memory in use, and the activity since the previous call.
func (t *Tuner) sample() sample {
	memory := [2]metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(memory[:])
	t.mu.Lock()
	defer t.mu.Unlock()
	now, cpu := time.Now(), processorTime()
	s := sample{
		elapsed:    now.Sub(t.sampled),
		processors: float64(runtime.GOMAXPROCS(0)),
		cpu:        cpu - t.cpu,
		memory:     int64(memory[0].Value.Uint64() - memory[1].Value.Uint64()),
		moved:      t.moved.Swap(0), waited: t.waited, starved: t.starved.Swap(0),
		stuffed: t.stuffed.Swap(0),
	}
	t.sampled, t.cpu = now, cpu
	t.waited = t.waiting // these goroutines wait in the next interval as well
	return s
}
