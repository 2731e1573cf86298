package chunk

import (
	"time"

	"github.com/millrace-io/millrace"
)

// From takes the blocks from p, so that a test can count them.
func From(p *millrace.Pool) ReaderOption { return func(r *Reader) { r.pool = p } }

// ReadInNext makes Next read any source itself, so that the ends of chunks depend on the bytes
// alone.
func ReadInNext() ReaderOption { return func(r *Reader) { r.mayHang = false } }

// Cut and Whole call a Cutter; Scan is its input.
func Cut(c Cutter, s *Scan) int { return c.cut((*scan)(s)) }

func Whole(c Cutter, s *Scan) bool { return c.whole((*scan)(s)) }

// Scan has the fields of scan.
type Scan scan

// NewScan returns a Scan with a limit.
func NewScan(limit int) *Scan { return &Scan{limit: limit} }

// Show has the Cutter look at data next.
func (s *Scan) Show(data []byte) { s.data = data }

// Seen is what the Cutter need not see again.
func (s *Scan) Seen() int { return s.seen }

// Advance is over n bytes that were cut off.
func (s *Scan) Advance(n int) { s.seen = max(s.seen-n, 0) }

// Running reports whether the goroutine that reads ahead is there.
func (r *Reader) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// StartAt takes the place of the setting to begin with.
func StartAt(s Setting) TunerOption { return func(t *Tuner) { t.rules.home = s } }

// SetMemoryLimit takes the place of GOMEMLIMIT.
func (t *Tuner) SetMemoryLimit(bytes int64) { t.rules.limit = bytes }

// A Sample is what Observe takes in.
type Sample struct {
	Elapsed, CPU                            time.Duration
	Processors                              float64
	Memory, Moved, Waited, Starved, Stuffed int64
}

// A Move is what a sample led to. From and To are the same if it led to none.
type Move struct {
	From, To Setting
	Why      string
}

// Observe takes in a sample.
func (t *Tuner) Observe(s Sample) Move {
	from := t.Setting()
	why := t.observe(sample{s.Elapsed, s.Processors, s.CPU, s.Memory, s.Moved, s.Waited, s.Starved,
		s.Stuffed})
	return Move{from, t.Setting(), why}
}

// Setting is the setting in force.
func (t *Tuner) Setting() Setting { return *t.setting.Load() }

// Workers returns how many workers are at work, and how many wait in Acquire.
func (t *Tuner) Workers() (running, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running, int(t.waiting)
}

// Sampler returns a function that takes a sample of the time since the one before.
func (t *Tuner) Sampler() func() Sample {
	t.sample()
	return func() Sample {
		s := t.sample()
		return Sample{s.elapsed, s.cpu, s.processors, s.memory, s.moved, s.waited, s.starved,
			s.stuffed}
	}
}

// TunerRules are the rows of the table of rules: name, when, then, kept if.
func TunerRules() (rows [][4]string) {
	for _, r := range tunerRules {
		rows = append(rows, [4]string{r.name, r.when, r.then, r.kept})
	}
	return rows
}
