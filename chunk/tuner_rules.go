package chunk

import (
	"math"
	"time"
)

// A sample is a measurement of the process between two calls of Tuner.sample.
type sample struct {
	elapsed    time.Duration // above 0
	processors float64       // number of processors that the process may use
	cpu        time.Duration // processor time used, of all processors together
	memory     int64         // memory at the end, in bytes
	moved      int64         // bytes that were processed
	waited     int64         // number of times that Acquire had to wait
	starved    int64         // number of times that a Reader's Next waited for its source
	// Number of times that a source waited for Next, because Depth chunks were waiting already.
	stuffed int64
}

// A rule is one reason to try another setting. when, then and kept correspond to its row in
// docs/chunk.md.
type rule struct {
	name, when, then, kept string

	asks func(m *measure) bool
	step func(s *Setting)
	pays func(now, before *measure, best float64) bool
}

// tunerRules are tried in this order. The first rule is different: its step is taken after a single
// sample and always kept.
var tunerRules = []rule{
	{"memory_full", "memory above 90 % of GOMEMLIMIT",
		"depth × 1/2 down to 2, then chunks, then workers", "always",
		nil, nil, nil}, // shrink implements this rule
	{"memory_grows", "memory grows by more than 10 MB/s", "chunks × 1/2",
		"it grows by a quarter less",
		growing, halfChunks, growsLess},
	{"processors_busy", "processors above 85 %", "workers × 3/4",
		"the speed stays within 5 % of the best",
		busy, fewerWorkers, holds},
	{"processors_free", "processors below 70 %, and Acquire waits", "workers × 2",
		"the speed rises by 5 %",
		pressed, func(s *Setting) { s.Workers *= 2 }, faster},
	{"fewer_may_do", "the same", "workers × 3/4", "the speed stays within 5 % of the best",
		pressed, fewerWorkers, holds},
	{"source_in_bursts", "Next and the source wait for each other", "depth × 2",
		"the speed rises by 5 %",
		inBursts, func(s *Setting) { s.Depth *= 2 }, faster},
	{"larger_may_pay", "processors above 85 %, or Acquire or Next waits", "chunks × 2",
		"the speed rises by 5 %",
		anyWaits, func(s *Setting) { s.ChunkSize *= 2 }, faster},
	{"smaller_may_pay", "the same", "chunks × 1/2", "the speed rises by 5 %",
		anyWaits, halfChunks, faster},
}

const (
	notPaid = "not_paid" // name for a step that is reverted

	freeShare, busyShare = 0.70, 0.85 // of the processors; between the two, workers do not change
	roomShare, fullShare = 0.75, 0.90 // of the memory limit; above roomShare, nothing grows
	// Bytes a second; a process that leaks this fast fills a gigabyte in two minutes.
	mostGrowth = 10e6
	tolerance  = 0.05 // a speed may fall by this share and be kept; it must rise by it to pay
	certainty  = 2    // standard errors by which two speeds must differ
	otherSpeed = 0.30 // if the speed changes by this share, the load is a different one
	otherShare = 0.15 // the same for the share of the processors in use

	settling      = 2 // samples after a move that still belong to the previous setting
	leastWindow   = 4 // in samples; a noisy load is measured for longer
	mostWindow    = 20
	sureEnough    = 0.025 // largest standard error of the speed, relative to the speed
	leastPatience = 16    // windows of rest after a round; doubled after each further round
	mostPatience  = 1 << 12
	// If the load has changed, the rest is shortened to patience/changePatience windows.
	changePatience = 32
	leastBusyDepth = 2 // enough to keep a source and a worker both busy
)

// measure is the result of a setting in a window of samples.
type measure struct {
	speed, spread float64 // speed in bytes a second, and its standard error
	share         float64 // share of the processors in use
	growth        float64 // growth of memory, in bytes a second
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

func halfChunks(s *Setting)   { s.ChunkSize /= 2 }
func halfDepth(s *Setting)    { s.Depth = max(s.Depth/2, min(s.Depth, leastBusyDepth)) }
func fewerWorkers(s *Setting) { s.Workers -= max(s.Workers/4, 1) }

// lessMemory are the steps of the rule memory_full, the step that costs the least speed first. The
// rule takes the first step that the limits allow.
var lessMemory = []func(s *Setting){halfDepth, halfChunks, fewerWorkers}

func faster(now, before *measure, _ float64) bool {
	chance := certainty * math.Hypot(now.spread, before.spread)
	return now.speed > before.speed+max(tolerance*before.speed, chance)
}

// holds reports whether the speed is kept. It compares with the best speed of all. If it compared
// only with the speed before the step, steps that each cost a little would add up.
func holds(now, before *measure, best float64) bool {
	return now.speed >= (1-tolerance)*max(best, before.speed)
}

func growsLess(now, before *measure, _ float64) bool {
	return now.growth <= max(mostGrowth, 0.75*before.growth)
}

// isOther reports whether the load has changed between before and m, which measure the same
// setting.
func (m *measure) isOther(before *measure) bool {
	chance := 2 * certainty * math.Hypot(m.spread, before.spread)
	return math.Abs(m.speed-before.speed) > max(otherSpeed*before.speed, chance) ||
		math.Abs(m.share-before.share) > otherShare || m.waited != before.waited
}

// tuning decides about the setting. The setting that was kept last is called home. A step from home
// is on trial until it is kept or reverted. tuning has no clock and no goroutine:
//
//	settle ──▶ look (a window of samples) ──▶ try a step ──▶ settle ──▶ look ──▶ keep it, or take it back
//
// In a round, tuning tries each rule whose condition holds. It bars a rule that did not pay until
// the next round. When no rule is left, tuning rests.
type tuning struct {
	least, most Setting
	limit       int64 // memory limit in bytes; math.MaxInt64 for none

	home   Setting // the setting that was kept last; least ≤ home ≤ most
	now    Setting // home, or a step from it that is on trial
	trial  int     // index of the rule on trial
	before measure // measure of home, taken before the trial
	usual  measure // measure of home since the load changed; speed 0 if it is not known
	best   float64 // best speed since the load changed

	window []sample
	settle int // samples to skip

	barred   [16]bool // by index in tunerRules
	turn     int      // the rule that is tried first: the one after the rule that paid
	rest     int      // windows until the next round; 0 during a round
	patience int      // windows that the next rest takes: 1 ≤ patience ≤ mostPatience
}

// observe processes a sample. It returns the name of the rule that moved the setting, notPaid, or
// "" for no move.
func (t *tuning) observe(s sample) (why string) {
	from := t.now
	if s.elapsed <= 0 {
		return "" // possible with a coarse clock
	}
	if why = t.decide(s); t.now == from {
		return ""
	}
	t.settle, t.window = settling, t.window[:0]
	return why
}

func (t *tuning) decide(s sample) (why string) {
	if t.settle > 0 {
		t.settle--
		return ""
	}
	if float64(s.memory) > fullShare*float64(t.limit) {
		t.shrink()
		return tunerRules[0].name
	}
	t.window = append(t.window, s)
	m := measureOf(t.window)
	if n := len(t.window); n < leastWindow || n < mostWindow && m.spread > sureEnough*m.speed {
		return ""
	}
	t.window = t.window[:0]
	if t.now != t.home && !t.judge(&m) {
		return notPaid
	}
	if m.speed == 0 {
		return "" // there is no load
	}
	return t.look(&m)
}

// shrink reduces the setting because memory is short. If the setting on trial needs more memory
// than home, shrink returns to home. Otherwise it takes a step of lessMemory.
func (t *tuning) shrink() {
	if t.now.memory() <= t.home.memory() {
		t.home = t.now
		for i := 0; i < len(lessMemory) && t.home == t.now; i++ {
			t.home = t.moved(lessMemory[i])
		}
	}
	t.now, t.usual = t.home, measure{}
}

// moved returns the setting that step makes of home.
func (t *tuning) moved(step func(s *Setting)) Setting {
	next := t.home
	step(&next)
	return next.within(t.least, t.most)
}

// judge keeps the setting on trial, or reverts it.
func (t *tuning) judge(m *measure) (paid bool) {
	// A step that needs more memory must not be kept while memory grows. If it were kept, the rule
	// against growth would try smaller chunks next, and so on.
	tooMuch := m.growth > mostGrowth && t.now.memory() > t.home.memory()
	if tooMuch || !tunerRules[t.trial].pays(m, &t.before, t.best) {
		t.barred[t.trial] = true
		t.now = t.home
		return false
	}
	t.home, t.usual = t.now, *m
	t.best = max(t.best, m.speed)
	t.turn, t.patience = t.trial+1, leastPatience
	return true
}

// look evaluates the measure of home, and begins a trial if the condition of a rule holds.
func (t *tuning) look(m *measure) (why string) {
	if t.usual.speed == 0 || m.isOther(&t.usual) {
		t.usual, t.best = *m, m.speed
		t.rest = min(t.rest, t.patience/changePatience)
	}
	if t.try(1, m) { // growing memory is handled at once, even during a rest
		return tunerRules[1].name
	}
	if t.rest > 0 {
		if t.rest--; t.rest > 0 {
			return ""
		}
		t.turn = 0
		clear(t.barred[:])
	}
	for i := range tunerRules {
		if k := (t.turn + i) % len(tunerRules); k > 0 && t.try(k, m) {
			return tunerRules[k].name
		}
	}
	t.rest, t.patience = t.patience, min(2*t.patience, mostPatience)
	return ""
}

// try puts a rule's step on trial if the rule's condition holds and there is enough memory.
func (t *tuning) try(k int, m *measure) bool {
	if t.barred[k] || !tunerRules[k].asks(m) {
		return false
	}
	next := t.moved(tunerRules[k].step)
	grows := next.memory() > t.home.memory()
	if next == t.home || grows && float64(m.memory) > roomShare*float64(t.limit) {
		return false
	}
	t.trial, t.before, t.now = k, *m, next
	return true
}

// measureOf summarizes a window of samples.
func measureOf(window []sample) (m measure) {
	var seconds, sum, squares float64
	waited := 0
	for _, s := range window {
		speed := float64(s.moved) / s.elapsed.Seconds()
		sum, squares = sum+speed, squares+speed*speed
		seconds += s.elapsed.Seconds()
		m.speed += float64(s.moved)
		m.share += s.cpu.Seconds() / s.processors
		m.starved = m.starved || s.starved > 0
		m.stuffed = m.stuffed || s.stuffed > 0
		waited += int(min(s.waited, 1))
	}
	first, last := window[0], window[len(window)-1]
	n := float64(len(window))
	m.speed, m.share = m.speed/seconds, m.share/seconds
	m.spread = math.Sqrt(max(squares-sum*sum/n, 0) / max(n-1, 1) / n)
	m.memory = last.memory
	m.growth = float64(last.memory-first.memory) / max(seconds-first.elapsed.Seconds(), 1e-9)
	m.waited = 2*waited >= len(window)
	return m
}
