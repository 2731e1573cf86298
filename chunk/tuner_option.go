package chunk

import (
	"fmt"
	"math"
	"runtime/debug"
	"time"
)

const (
	// The options say why.
	workersPerProcessor     = 2
	mostWorkersPerProcessor = 16
	leastChunk              = 4 << 10
	mostChunk               = 1 << 20
	mostDepth               = 16
	defaultHigh             = 0.85
	defaultLow              = 0.70
	defaultGrowth           = 10e6
	defaultInterval         = 250 * time.Millisecond
	defaultDwell            = 2

	// leastInterval keeps what a sample costs, some microseconds, below a thousandth.
	leastInterval = 10 * time.Millisecond

	// mostDwell lets a step take a quarter of an hour, at the default interval, to show.
	mostDwell = 1 << 12
)

// tunerConfig is what options change.
//
// Invariants: for each bound 1 ≤ least ≤ most; start lies within them; 0 < low ≤ high.
type tunerConfig struct {
	processors            float64
	workers, sizes, depth bound
	start                 Setting
	low, high             float64 // shares of the processors
	growth                float64 // bytes a second
	memory                int64   // bytes; math.MaxInt64: no limit
	interval              time.Duration
	dwell                 int
}

// bound is the least and the most that something may be.
type bound struct{ least, most int }

func (b bound) clip(n int) int { return min(max(n, b.least), b.most) }

func (c *tunerConfig) bound(s Setting) Setting {
	return Setting{c.workers.clip(s.Workers), c.sizes.clip(s.ChunkSize), c.depth.clip(s.Depth)}
}

func defaultTunerConfig(processors int) tunerConfig {
	return tunerConfig{
		processors: float64(processors),
		workers:    bound{1, mostWorkersPerProcessor * processors},
		sizes:      bound{leastChunk, mostChunk},
		depth:      bound{1, mostDepth},
		start:      Setting{workersPerProcessor * processors, defaultSize, defaultDepth},
		low:        defaultLow,
		high:       defaultHigh,
		growth:     defaultGrowth,
		memory:     debug.SetMemoryLimit(-1),
		interval:   defaultInterval,
		dwell:      defaultDwell,
	}
}

// A TunerOption changes what [NewTuner] makes. Options panic when a value is out of range.
type TunerOption func(*tunerConfig)

// StartAt is the setting to begin with, moved into the bounds if it is outside. The default is two workers per processor,
// one that works and one that waits, and a Reader's defaults: chunks of 64 KiB and a depth of 3.
func StartAt(s Setting) TunerOption {
	return func(c *tunerConfig) { c.start = s }
}

// WorkersBetween bounds the workers. The default is 1 to 16 per processor: where more of them than that wait for a disk
// or a peer, that one is the bottleneck, or should be asked for more at a time.
func WorkersBetween(least, most int) TunerOption {
	b := newBound("WorkersBetween", least, most, 1<<16)
	return func(c *tunerConfig) { c.workers = b }
}

// SizeBetween bounds the chunk size, in bytes. The default is 4 KiB, a page, below which a system call costs more than
// the bytes, to 1 MiB, which is the largest block that a Pool keeps.
func SizeBetween(least, most int) TunerOption {
	b := newBound("SizeBetween", least, most, mostBytes)
	return func(c *tunerConfig) { c.sizes = b }
}

// DepthBetween bounds how many chunks each Reader reads ahead. The default is 1 to 16, with which a source and a worker
// that both come in bursts make up for each other. A longer queue only hides that one of them is slower.
func DepthBetween(least, most int) TunerOption {
	b := newBound("DepthBetween", least, most, 1<<16)
	return func(c *tunerConfig) { c.depth = b }
}

// ProcessorMarks are the shares of the processors' time between which the number of workers is left alone: it may grow
// below low, and falls above high. The default is 0.70, below which a processor in three or four has nothing to do, and
// 0.85, above which whoever shares the machine has to wait.
func ProcessorMarks(low, high float64) TunerOption {
	if !(0 < low && low <= high && high <= 1) {
		panic(fmt.Sprintf("chunk: ProcessorMarks(%v, %v) is not 0 < low ≤ high ≤ 1", low, high))
	}
	return func(c *tunerConfig) { c.low, c.high = low, high }
}

// GrowthMark is how many bytes per second memory may grow before chunks are made smaller. The default is 10 million,
// with which a process that leaks fills a gigabyte in two minutes.
func GrowthMark(bytes float64) TunerOption {
	if !(bytes > 0) {
		panic(fmt.Sprintf("chunk: GrowthMark(%v) is not above 0", bytes))
	}
	return func(c *tunerConfig) { c.growth = bytes }
}

// MemoryLimit is how many bytes the process may have. Above nine tenths of it chunks, depth and workers shrink, whatever
// that costs; above three quarters none of them grows. The default is GOMEMLIMIT; without that there is no limit.
func MemoryLimit(bytes int64) TunerOption {
	if bytes < 1 {
		panic(fmt.Sprintf("chunk: MemoryLimit(%d) is below 1", bytes))
	}
	return func(c *tunerConfig) { c.memory = bytes }
}

// Interval is how often [Tuner.Run] takes a sample. The default is 250 ms, in which hundreds of chunks are worked on, and
// which is many ticks of the clock that counts processor time where that is coarse. The least is 10 ms.
func Interval(d time.Duration) TunerOption {
	if d < leastInterval {
		panic(fmt.Sprintf("chunk: Interval(%v) is below %v", d, leastInterval))
	}
	return func(c *tunerConfig) { c.interval = d }
}

// Dwell is how many samples after a move are not looked at, so that the ones that are tell of the new setting. The
// default is 2: one in which the move came, and one for the chunks of the old setting to be worked off. Work that takes
// long over a chunk needs more.
func Dwell(samples int) TunerOption {
	inRange("Dwell", samples, mostDwell)
	return func(c *tunerConfig) { c.dwell = samples }
}

func newBound(name string, least, most, limit int) bound {
	if !(1 <= least && least <= most && most <= limit) {
		panic(fmt.Sprintf("chunk: %s(%d, %d) is not 1 ≤ least ≤ most ≤ %d", name, least, most, limit))
	}
	return bound{least, most}
}

// limited reports whether there is a memory limit.
func (c *tunerConfig) limited() bool { return c.memory < math.MaxInt64 }
