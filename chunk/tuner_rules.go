package chunk

import (
	"math"
	"time"
)

// A sample is what happened between one look at the process and the next.
type sample struct {
	Elapsed    time.Duration
	Processors float64       // that the process may use; 0 for GOMAXPROCS
	CPU        time.Duration // processor time that it took, of all processors together
	Memory     int64         // bytes that it has at the end
	Moved      int64         // bytes that were worked on
	Waited     int64         // times that Acquire had to wait
	Starved    int64         // times that a Reader's Next waited for its source
	Stuffed    int64         // times that a source waited for Next, because Depth chunks did already
}

// A move is what a sample made a Tuner do. From and To are the same if it did nothing.
type move struct {
	From, To Setting
	Why      string // the name of the rule, or notPaid when a step is taken back; "" for no move
}

// A rule is one reason to try another setting. when, then and kept are its row in docs/chunk.md.
type rule struct {
	name, when, then, kept string

	part part // that step moves
	asks func(m *measure) bool
	step func(s Setting) Setting
	pays func(now, before *measure, best float64) bool
}

type part int8

const (
	workers part = iota
	size
	depth
)

// tunerRules are tried in this order. After a step that paid, the rules of the other parts come first.
var tunerRules = []rule{
	{"memory_grows", "memory grows by more than 10 MB/s", "chunks × 1/2", "it grows by a quarter less",
		size, growing, func(s Setting) Setting { s.ChunkSize /= 2; return s }, growsLess},
	{"processors_busy", "processors above 85 %", "workers × 3/4", "the speed stays within 5 % of the best",
		workers, busy, fewerWorkers, holds},
	{"processors_free", "processors below 70 %, and Acquire waits", "workers × 2", "the speed rises by 5 %",
		workers, pressed, func(s Setting) Setting { s.Workers *= 2; return s }, faster},
	{"fewer_may_do", "the same", "workers × 3/4", "the speed stays within 5 % of the best",
		workers, pressed, fewerWorkers, holds},
	{"source_in_bursts", "Next and the source wait for each other", "depth × 2", "the speed rises by 5 %",
		depth, inBursts, func(s Setting) Setting { s.Depth *= 2; return s }, faster},
	{"larger_may_pay", "processors above 85 %, or Acquire or Next waits", "chunks × 2",
		"the speed rises by 5 %",
		size, anyWaits, func(s Setting) Setting { s.ChunkSize *= 2; return s }, faster},
	{"smaller_may_pay", "the same", "chunks × 1/2", "the speed rises by 5 %",
		size, anyWaits, func(s Setting) Setting { s.ChunkSize /= 2; return s }, faster},
}

// The rule of memory that is short is no trial: the step is always kept.
const (
	memoryFull     = "memory_full"
	memoryFullWhen = "memory above 90 % of GOMEMLIMIT"
	memoryFullThen = "depth × 1/2 down to 2, then chunks, then workers"

	notPaid = "not_paid" // a step is taken back
)

const (
	freeShare, busyShare = 0.70, 0.85 // of the processors; between them workers are left alone
	roomShare, fullShare = 0.75, 0.90 // of the memory limit; nothing grows above the first
	mostGrowth           = 10e6       // bytes a second; a process that leaks so fast fills a gigabyte in two minutes
	tolerance            = 0.05       // how much less is the same, and how much more pays
	certainty            = 2          // standard errors that two speeds must lie apart
	otherSpeed           = 0.30       // how much the speed changes when the load is another one
	otherShare           = 0.15       // the same of the processors

	settling       = 2 // samples after a move that still belong to the setting before
	leastWindow    = 4 // samples; a noisy load is looked at for longer
	mostWindow     = 20
	sureEnough     = 0.025 // standard error of the speed, in parts of it
	leastPatience  = 16    // windows of rest after a round; twice as many after each further one
	mostPatience   = 1 << 12
	changePatience = 16 // the part of the rest that passes although the load has changed
	leastBusyDepth = 2  // keeps a source and a worker both busy
)

// measure is how a setting did in a window of samples.
type measure struct {
	speed, spread float64 // bytes a second, and their standard error
	share         float64 // of the processors
	growth        float64 // of memory, bytes a second
	memory        int64
	waited        bool // work waits for workers
	starved       bool // workers wait for the source
	stuffed       bool // the source waits for workers
}

func growing(m *measure) bool  { return m.growth > mostGrowth }
func busy(m *measure) bool     { return m.share > busyShare }
func pressed(m *measure) bool  { return m.share < freeShare && m.waited }
func inBursts(m *measure) bool { return m.starved && m.stuffed }
func anyWaits(m *measure) bool { return m.share > busyShare || m.waited || m.starved }

func fewerWorkers(s Setting) Setting { s.Workers -= max(s.Workers/4, 1); return s }

func faster(now, before *measure, _ float64) bool {
	chance := certainty * math.Hypot(now.spread, before.spread)
	return now.speed > before.speed+max(tolerance*before.speed, chance)
}

// holds compares with the best speed of all, so that steps that each cost a little do not add up.
func holds(now, before *measure, best float64) bool {
	return now.speed >= (1-tolerance)*max(best, before.speed)
}

func growsLess(now, before *measure, _ float64) bool {
	return now.growth <= max(mostGrowth, 0.75*before.growth)
}

// isOther reports whether m is of another load than before, with the same setting.
func (m *measure) isOther(before *measure) bool {
	chance := 2 * certainty * math.Hypot(m.spread, before.spread)
	return math.Abs(m.speed-before.speed) > max(otherSpeed*before.speed, chance) ||
		math.Abs(m.share-before.share) > otherShare || m.waited != before.waited
}

// tuning decides. It has no clock and no goroutine:
//
//	settle ──▶ look (a window of samples) ──▶ try a step ──▶ settle ──▶ look ──▶ keep it, or take it back
//
// A round tries each rule that asks, and bars a rule that did not pay. When no rule is left, tuning rests.
type tuning struct {
	least, most Setting
	processors  float64
	limit       int64 // bytes of memory; math.MaxInt64 for none

	home   Setting // least ≤ home ≤ most
	now    Setting // home, or a step from it that is on trial
	trial  int     // index of the rule on trial
	before measure // of home
	usual  measure // of home, since the load changed; speed 0 if it is not known
	best   float64 // speed since the load changed

	window window
	settle int // samples to skip
	memory int64

	barred   [16]bool // by index in tunerRules
	turn     int      // the rule that is tried first
	gained   bool     // a step was kept in this round
	changed  bool     // this round began because the load had changed
	resting  bool
	rested   int // windows
	patience int // 1 ≤ patience ≤ mostPatience
}

// observe takes in a sample.
func (t *tuning) observe(s sample) move {
	from := t.now
	if s.Elapsed <= 0 {
		return move{From: from, To: from}
	}
	if !(s.Processors > 0) || math.IsInf(s.Processors, 1) {
		s.Processors = t.processors
	}
	s.CPU, s.Memory, s.Moved = max(s.CPU, 0), max(s.Memory, 0), max(s.Moved, 0)
	why := t.decide(s)
	t.memory = s.Memory
	if t.now != from {
		t.settle, t.window = settling, window{}
	}
	return move{from, t.now, why}
}

func (t *tuning) decide(s sample) (why string) {
	if t.settle > 0 {
		t.settle--
		return ""
	}
	if float64(s.Memory) > fullShare*float64(t.limit) {
		return t.shrink()
	}
	t.window.add(s, t.memory)
	if !t.window.isDone() {
		return ""
	}
	m := t.window.measure()
	t.window = window{}
	if t.now != t.home {
		if !t.judge(&m) {
			return notPaid
		}
	}
	if m.speed == 0 {
		return "" // there is no load
	}
	return t.look(&m)
}

// shrink makes something smaller because memory is short, if anything can become smaller.
func (t *tuning) shrink() (why string) {
	before, next := t.now, t.now
	switch {
	case t.home.memory() < t.now.memory():
		next = t.home
	case next.Depth > leastBusyDepth:
		next.Depth = max(next.Depth/2, leastBusyDepth)
	case next.ChunkSize > t.least.ChunkSize:
		next.ChunkSize /= 2
	default:
		next = fewerWorkers(next)
	}
	t.now = next.within(t.least, t.most)
	t.home, t.usual, t.gained = t.now, measure{}, false
	if t.now == before {
		return ""
	}
	return memoryFull
}

// judge keeps what is on trial, or takes it back.
func (t *tuning) judge(m *measure) (paid bool) {
	r := &tunerRules[t.trial]
	tooMuch := m.growth > mostGrowth && t.now.memory() > t.home.memory()
	if paid = !tooMuch && r.pays(m, &t.before, t.best); !paid {
		t.barred[t.trial] = true
		t.now = t.home
		return false
	}
	t.home, t.usual = t.now, *m
	t.best = max(t.best, m.speed)
	t.gained = true
	for t.turn = t.trial + 1; tunerRules[t.turn%len(tunerRules)].part == r.part; {
		t.turn++
	}
	return true
}

// look looks at how home does, and begins a trial if a rule asks for one.
func (t *tuning) look(m *measure) (why string) {
	if t.usual.speed == 0 {
		t.usual, t.best = *m, m.speed
	}
	if m.isOther(&t.usual) {
		t.usual, t.best, t.changed = *m, m.speed, true
	}
	if t.try(0, m) { // memory does not wait
		return tunerRules[0].name
	}
	if t.resting {
		t.rested++
		if t.rested < t.patience && !(t.changed && t.rested >= t.patience/changePatience) {
			return ""
		}
		t.resting, t.gained, t.turn = false, false, 0
		t.patience = min(2*t.patience, mostPatience)
		clear(t.barred[:])
	}
	for i := range tunerRules {
		k := (t.turn + i) % len(tunerRules)
		if t.try(k, m) {
			return tunerRules[k].name
		}
	}
	if t.changed && t.gained {
		t.patience = leastPatience
	}
	t.resting, t.rested, t.changed = true, 0, false
	return ""
}

// try puts a rule's step on trial if the rule asks for it and memory has room.
func (t *tuning) try(k int, m *measure) bool {
	r := &tunerRules[k]
	if t.barred[k] || !r.asks(m) {
		return false
	}
	next := r.step(t.home).within(t.least, t.most)
	grows := next.memory() > t.home.memory()
	if next == t.home || grows && (m.growth > mostGrowth/2 || float64(m.memory) > roomShare*float64(t.limit)) {
		return false
	}
	t.trial, t.before, t.now = k, *m, next
	return true
}

// window adds up the samples of one setting.
type window struct {
	samples, pressed       int
	speeds                 average
	seconds, moved, share  float64 // share is of the processors, times seconds
	starved, stuffed       bool
	memoryBefore, memoryAt int64
}

func (w *window) add(s sample, memoryBefore int64) {
	seconds := s.Elapsed.Seconds()
	if w.samples == 0 {
		if w.memoryBefore = memoryBefore; memoryBefore == 0 {
			w.memoryBefore = s.Memory
		}
	}
	w.samples++
	w.speeds.add(float64(s.Moved) / seconds)
	w.seconds += seconds
	w.moved += float64(s.Moved)
	w.share += s.CPU.Seconds() / s.Processors
	w.memoryAt = s.Memory
	w.starved = w.starved || s.Starved > 0
	w.stuffed = w.stuffed || s.Stuffed > 0
	if s.Waited > 0 {
		w.pressed++
	}
}

func (w *window) isDone() bool {
	return w.samples >= mostWindow || w.samples >= leastWindow && w.speeds.spread() <= sureEnough*w.speeds.mean()
}

func (w *window) measure() measure {
	return measure{
		speed: w.moved / w.seconds, spread: w.speeds.spread(),
		share: w.share / w.seconds, memory: w.memoryAt,
		growth: float64(w.memoryAt-w.memoryBefore) / w.seconds,
		waited: 2*w.pressed >= w.samples, starved: w.starved, stuffed: w.stuffed,
	}
}

// average is of numbers that are added one by one.
type average struct{ n, sum, squares float64 }

func (a *average) add(v float64) { a.n, a.sum, a.squares = a.n+1, a.sum+v, a.squares+v*v }

func (a *average) mean() float64 { return a.sum / max(a.n, 1) }

// spread is the standard error of the mean.
func (a *average) spread() float64 {
	n := max(a.n, 1)
	return math.Sqrt(max(a.squares-a.sum*a.sum/n, 0) / max(n-1, 1) / n)
}
