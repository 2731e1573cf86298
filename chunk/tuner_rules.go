package chunk

import (
	"math"
	"time"
)

// A sample is what happened between one look at the process and the next.
type sample struct {
	Elapsed    time.Duration // above 0
	Processors float64       // that the process may use
	CPU        time.Duration // processor time that it took, of all processors together
	Memory     int64         // bytes that it has at the end
	Moved      int64         // bytes that were worked on
	Waited     int64         // times that Acquire had to wait
	Starved    int64         // times that a Reader's Next waited for its source
	Stuffed    int64         // times that a source waited for Next, because Depth chunks did already
}

// since returns what happened after last. Both began to count at the same time.
func (s sample) since(last sample) sample {
	s.Elapsed -= last.Elapsed
	s.CPU -= last.CPU
	s.Moved -= last.Moved
	s.Waited -= last.Waited
	s.Starved -= last.Starved
	s.Stuffed -= last.Stuffed
	return s
}

// A move is what a sample made a Tuner do. From and To are the same if it did nothing.
type move struct {
	From, To Setting
	Why      string // the name of the rule, or notPaid when a step is taken back; "" for no move
}

// A rule is one reason to try another setting. when, then and kept are its row in docs/chunk.md.
type rule struct {
	name, when, then, kept string

	asks func(m *measure) bool
	step func(s *Setting)
	pays func(now, before *measure, best float64) bool
}

// tunerRules are tried in this order. The first one is no trial: its step is taken after a single sample, and always kept.
var tunerRules = []rule{
	{"memory_full", "memory above 90 % of GOMEMLIMIT", "depth × 1/2 down to 2, then chunks, then workers", "always",
		nil, nil, nil}, // see shrink
	{"memory_grows", "memory grows by more than 10 MB/s", "chunks × 1/2", "it grows by a quarter less",
		growing, halfChunks, growsLess},
	{"processors_busy", "processors above 85 %", "workers × 3/4", "the speed stays within 5 % of the best",
		busy, fewerWorkers, holds},
	{"processors_free", "processors below 70 %, and Acquire waits", "workers × 2", "the speed rises by 5 %",
		pressed, func(s *Setting) { s.Workers *= 2 }, faster},
	{"fewer_may_do", "the same", "workers × 3/4", "the speed stays within 5 % of the best",
		pressed, fewerWorkers, holds},
	{"source_in_bursts", "Next and the source wait for each other", "depth × 2", "the speed rises by 5 %",
		inBursts, func(s *Setting) { s.Depth *= 2 }, faster},
	{"larger_may_pay", "processors above 85 %, or Acquire or Next waits", "chunks × 2", "the speed rises by 5 %",
		anyWaits, func(s *Setting) { s.ChunkSize *= 2 }, faster},
	{"smaller_may_pay", "the same", "chunks × 1/2", "the speed rises by 5 %",
		anyWaits, halfChunks, faster},
}

const (
	notPaid = "not_paid" // a step is taken back

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
	samples, speed, spread float64 // bytes a second, and their standard error
	share                  float64 // of the processors
	growth                 float64 // of memory, bytes a second
	memory                 int64
	waited                 bool // work waits for workers
	starved                bool // workers wait for the source
	stuffed                bool // the source waits for workers
}

func growing(m *measure) bool  { return m.growth > mostGrowth }
func busy(m *measure) bool     { return m.share > busyShare }
func pressed(m *measure) bool  { return m.share < freeShare && m.waited }
func inBursts(m *measure) bool { return m.starved && m.stuffed }
func anyWaits(m *measure) bool { return m.share > busyShare || m.waited || m.starved }

func halfChunks(s *Setting)   { s.ChunkSize /= 2 }
func fewerWorkers(s *Setting) { s.Workers -= max(s.Workers/4, 1) }

func halfDepth(s *Setting) {
	if s.Depth > leastBusyDepth {
		s.Depth = max(s.Depth/2, leastBusyDepth)
	}
}

// lessMemory are the steps of memory_full. The first that the bounds allow is taken: it costs the least speed.
var lessMemory = []func(s *Setting){halfDepth, halfChunks, fewerWorkers}

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
	limit       int64 // bytes of memory; math.MaxInt64 for none

	home   Setting // least ≤ home ≤ most
	now    Setting // home, or a step from it that is on trial
	trial  int     // index of the rule on trial
	before measure // of home
	usual  measure // of home, since the load changed; speed 0 if it is not known
	best   float64 // speed since the load changed

	window []sample
	settle int   // samples to skip
	memory int64 // of the sample before the window; 0 for none

	barred   [16]bool // by index in tunerRules
	turn     int      // the rule that is tried first: the one after the rule that paid
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
	why := t.decide(s)
	if t.now == from {
		return move{From: from, To: from}
	}
	t.settle, t.window = settling, t.window[:0]
	return move{from, t.now, why}
}

func (t *tuning) decide(s sample) (why string) {
	if t.settle > 0 {
		t.settle, t.memory = t.settle-1, s.Memory
		return ""
	}
	if float64(s.Memory) > fullShare*float64(t.limit) {
		t.shrink()
		t.memory = s.Memory
		return tunerRules[0].name
	}
	t.window = append(t.window, s)
	m := measureOf(t.window, t.memory)
	if m.samples < leastWindow || m.samples < mostWindow && m.spread > sureEnough*m.speed {
		return ""
	}
	t.window, t.memory = t.window[:0], s.Memory
	if t.now != t.home && !t.judge(&m) {
		return notPaid
	}
	if m.speed == 0 {
		return "" // there is no load
	}
	return t.look(&m)
}

// shrink makes something smaller because memory is short, if anything can become smaller.
func (t *tuning) shrink() {
	before := t.now.memory()
	if t.home.memory() >= before {
		t.home = t.now
	}
	for i := 0; t.home.memory() >= before && i < len(lessMemory); i++ {
		next := t.home
		lessMemory[i](&next)
		t.home = next.within(t.least, t.most)
	}
	t.now, t.usual, t.gained = t.home, measure{}, false
}

// judge keeps what is on trial, or takes it back.
func (t *tuning) judge(m *measure) (paid bool) {
	tooMuch := m.growth > mostGrowth && t.now.memory() > t.home.memory()
	if tooMuch || !tunerRules[t.trial].pays(m, &t.before, t.best) {
		t.barred[t.trial] = true
		t.now = t.home
		return false
	}
	t.home, t.usual = t.now, *m
	t.best = max(t.best, m.speed)
	t.gained, t.turn = true, t.trial+1
	return true
}

// look looks at how home does, and begins a trial if a rule asks for one.
func (t *tuning) look(m *measure) (why string) {
	if other := t.usual.speed > 0 && m.isOther(&t.usual); other || t.usual.speed == 0 {
		t.usual, t.best, t.changed = *m, m.speed, t.changed || other
	}
	if t.try(1, m) { // memory that grows does not wait
		return tunerRules[1].name
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
		if k := (t.turn + i) % len(tunerRules); k > 0 && t.try(k, m) {
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
	next := t.home
	r.step(&next)
	next = next.within(t.least, t.most)
	grows := next.memory() > t.home.memory()
	if next == t.home || grows && (m.growth > mostGrowth/2 || float64(m.memory) > roomShare*float64(t.limit)) {
		return false
	}
	t.trial, t.before, t.now = k, *m, next
	return true
}

// measureOf returns what a window of samples says. memory is what the process had before it, or 0.
func measureOf(window []sample, memory int64) (m measure) {
	var total sample
	var squares, sum, share float64
	pressed := 0
	for _, s := range window {
		speed := float64(s.Moved) / s.Elapsed.Seconds()
		sum, squares = sum+speed, squares+speed*speed
		share += s.CPU.Seconds() / s.Processors
		total.Elapsed += s.Elapsed
		total.Moved += s.Moved
		total.Starved += s.Starved
		total.Stuffed += s.Stuffed
		if s.Waited > 0 {
			pressed++
		}
	}
	n, seconds := float64(len(window)), total.Elapsed.Seconds()
	if memory == 0 {
		memory = window[0].Memory
	}
	m.memory = window[len(window)-1].Memory
	return measure{
		samples: n, speed: float64(total.Moved) / seconds, share: share / seconds,
		spread: math.Sqrt(max(squares-sum*sum/n, 0) / max(n-1, 1) / n),
		memory: m.memory, growth: float64(m.memory-memory) / seconds,
		waited: 2*pressed >= len(window), starved: total.Starved > 0, stuffed: total.Stuffed > 0,
	}
}
