package chunk

import (
	"time"

	"github.com/millrace-io/millrace"
)

// From takes the blocks from p, so that a test can count them.
func From(p *millrace.Pool) ReaderOption { return func(r *Reader) { r.pool = p } }

// ReadInNext makes Next itself read the source, so that the ends of chunks depend only on the
// bytes.
func ReadInNext() ReaderOption { return func(r *Reader) { r.mayHang = false } }

// Cut and Whole call a Cutter. Scan is its input.
func Cut(c Cutter, s *Scan) int { return c.cut((*scan)(s)) }

func Whole(c Cutter, s *Scan) bool { return c.whole((*scan)(s)) }

// Scan has the fields of scan.
type Scan scan

// NewScan returns a Scan with a limit.
func NewScan(limit int) *Scan { return &Scan{limit: limit} }

// Show sets the data that the Cutter scans next.
func (s *Scan) Show(data []byte) { s.data = data }

// Seen returns the length that the Cutter need not scan again.
func (s *Scan) Seen() int { return s.seen }

// Advance removes n bytes from the beginning.
func (s *Scan) Advance(n int) { s.seen = max(s.seen-n, 0) }

// Running reports whether the goroutine that reads ahead is running.
func (r *Reader) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// StartAt replaces the initial setting.
func StartAt(s Setting) TunerOption { return func(t *Tuner) { t.rules.home = s } }

// SetMemoryLimit replaces GOMEMLIMIT.
func (t *Tuner) SetMemoryLimit(bytes int64) { t.rules.limit = bytes }

// A Sample is the input of Observe.
type Sample struct {
	Elapsed, CPU                            time.Duration
	Processors                              float64
	Memory, Moved, Waited, Starved, Stuffed int64
}

// A Move is the result of a sample. From and To are equal if the setting did not change.
type Move struct {
	From, To Setting
	Why      string
}

// Observe evaluates a sample.
func (t *Tuner) Observe(s Sample) Move {
	from := t.Setting()
	why := t.observe(sample{s.Elapsed, s.Processors, s.CPU, s.Memory, s.Moved, s.Waited, s.Starved,
		s.Stuffed})
	return Move{from, t.Setting(), why}
}

// Setting returns the current setting.
func (t *Tuner) Setting() Setting { return *t.setting.Load() }

// Workers returns the number of running workers, and of workers that wait in Acquire.
func (t *Tuner) Workers() (running, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running, int(t.waiting)
}

// Sampler returns a function that samples the time since its previous call.
func (t *Tuner) Sampler() func() Sample {
	t.sample()
	return func() Sample {
		s := t.sample()
		return Sample{s.elapsed, s.cpu, s.processors, s.memory, s.moved, s.waited, s.starved,
			s.stuffed}
	}
}

// TunerRules returns the rows of the table of rules: name, condition, change, and condition to keep
// the change.
func TunerRules() (rows [][4]string) {
	for _, r := range tunerRules {
		rows = append(rows, [4]string{r.name, r.when, r.then, r.kept})
	}
	return rows
}

// Tags returns the number of tags of content that h keeps.
func (h *FileHandler) Tags() int {
	h.tags.mu.Lock()
	defer h.tags.mu.Unlock()
	return len(h.tags.tags)
}
