package chunk

import (
	"math"
	"time"
)

// A sample holds the measurements between two calls to Tuner.sample.
type sample struct {
	elapsed    time.Duration // above 0
	processors float64       // number of processors that the process may use
	cpu        time.Duration // processor time used, the sum of all processors
	memory     int64         // memory at the end of the interval, in bytes
	moved      int64         // bytes that were processed
	waited     int64         // number of times that Acquire had to wait
	starved    int64         // number of times that a Reader's Next waited for its source
	stuffed    int64         // number of times that reading paused because Depth chunks were ready
}

// A rule says when the Tuner changes its Setting, and when it keeps the change.
type rule struct {
	name, when, then, kept string // the row of this rule in the table of docs/chunk.md

	asks func(m *measure) bool                         // reports whether to try the step
	step func(s *Setting)                              // changes the Setting
	pays func(now, before *measure, best float64) bool // reports whether to keep the step
}

// tunerRules lists the Tuner's rules in the order in which it tries them. The Tuner applies
// memory_full after a single measurement, and never reverts it.
var tunerRules = []rule{
	{"memory_full", "memory above 90 % of GOMEMLIMIT",
		"depth × 1/2 down to 2, then chunks, then workers", "always",
		nil, nil, nil}, // shrink implements this rule
	{"memory_grows", "memory grows by more than 10 MB/s", "chunks × 1/2",
		"it grows by a quarter less",
		growing, halfChunks, growsLess},
	{"processors_busy", "processors above 85 %", "workers × 3/4",
		"the speed stays within 5 % of the best",
		busy, fewerWorkers, holdsSpeed},
	{"processors_free", "processors below 70 %, and Acquire waits", "workers × 2",
		"the speed rises by 5 %",
		pressed, func(s *Setting) { s.Workers *= 2 }, faster},
	{"fewer_may_do", "the same", "workers × 3/4", "the speed stays within 5 % of the best",
		pressed, fewerWorkers, holdsSpeed},
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
	notPaid = "not_paid" // Stats counts reverted steps under this name

	freeShare, busyShare = 0.70, 0.85 // of the processors; in between, Workers stays the same
	roomShare, fullShare = 0.75, 0.90 // roomShare and fullShare are shares of the memory limit. Above roomShare, no step may use more memory.
	// mostGrowth is in bytes a second. If the memory grows faster, the rule memory_grows applies.
	mostGrowth = 10e6
	tolerance  = 0.05 // as a share of the speed
	certainty  = 2    // in standard errors of the speed
	otherSpeed = 0.30 // if the speed changes by this share, the load has changed
	otherShare = 0.15 // if the processors' share changes by this much, the load has changed

	settling      = 2 // number of samples to skip after a change of the setting
	leastWindow   = 4 // in samples; a window is longer if the speed varies
	mostWindow    = 20
	sureEnough    = 0.025 // largest standard error of the speed, relative to the speed
	leastPatience = 16    // in windows; see tuning.patience
	mostPatience  = 1 << 12
	// After a change of the load, the pause between two rounds is at most tuning.patience windows,
	// divided by changePatience.
	changePatience = 32
	leastBusyDepth = 2 // the smallest Depth that keeps both a source and a worker busy
)

// A measure summarizes several consecutive samples with the same Setting.
type measure struct {
	speed, spread float64 // speed in bytes a second, and its standard error
	share         float64 // share of the processors in use
	growth        float64 // growth of memory, in bytes a second
	memory        int64
	waited        bool // workers waited in Acquire
	starved       bool // Next waited for the source
	stuffed       bool // the source waited for Next
}

func growing(m *measure) bool  { return m.growth > mostGrowth }
func busy(m *measure) bool     { return m.share > busyShare }
func pressed(m *measure) bool  { return m.share < freeShare && m.waited }
func inBursts(m *measure) bool { return m.starved && m.stuffed }
func anyWaits(m *measure) bool { return m.share > busyShare || m.waited || m.starved }

func halfChunks(s *Setting)   { s.ChunkSize /= 2 }
func halfDepth(s *Setting)    { s.Depth = max(s.Depth/2, min(s.Depth, leastBusyDepth)) }
func fewerWorkers(s *Setting) { s.Workers -= max(s.Workers/4, 1) }

// lessMemory lists changes of a Setting that save memory. The first change costs the least speed.
var lessMemory = []func(s *Setting){halfDepth, halfChunks, fewerWorkers}

func faster(now, before *measure, _ float64) bool {
	chance := certainty * math.Hypot(now.spread, before.spread)
	return now.speed > before.speed+max(tolerance*before.speed, chance)
}

// holdsSpeed reports whether the speed after a change is at least 95 % of the best speed so far. If
// it compared only with the speed before the change, many small losses could add up.
func holdsSpeed(now, before *measure, best float64) bool {
	return now.speed >= (1-tolerance)*max(best, before.speed)
}

func growsLess(now, before *measure, _ float64) bool {
	return now.growth <= max(mostGrowth, 0.75*before.growth)
}

// loadChanged reports whether the load differs between two measures with the same Setting.
func (m *measure) loadChanged(earlier *measure) bool {
	chance := 2 * certainty * math.Hypot(m.spread, earlier.spread)
	return math.Abs(m.speed-earlier.speed) > max(otherSpeed*earlier.speed, chance) ||
		math.Abs(m.share-earlier.share) > otherShare || m.waited != earlier.waited
}

// tuning chooses the Setting of a Tuner, by trial:
//
//   - After each change of the Setting, it skips a few samples.
//   - Then it measures the process over several samples, called a window.
//   - If the condition of a rule is true, it applies the step of that rule. This begins a trial.
//   - After another window, it keeps the step if the measurement shows the result that the rule
//     requires. Otherwise, it reverts the step, and does not try that rule again in this round.
//   - A round ends when all rules have been tried. Then tuning pauses until the next round.
//
// tuning has no clock and no goroutine. The Tuner calls observe for each sample.
type tuning struct {
	least, most Setting
	limit       int64 // memory limit in bytes; math.MaxInt64 for none

	home   Setting // the Setting without the step that is being tried
	now    Setting // the current Setting: home, or home after the step of a trial
	trial  int     // index of the rule that is being tried
	before measure // measure before the trial
	usual  measure // measure with home since the load changed; its speed is 0 if unknown
	best   float64 // best speed since the load changed

	window []sample
	settle int // samples to skip

	barred   [16]bool // rules not to try again in this round, by index in tunerRules
	turn     int      // index of the rule to try first
	rest     int      // number of windows until the next round begins; 0 during a round
	patience int      // number of windows in the next pause; 1 ≤ patience ≤ mostPatience
}

// observe processes a sample. If it changes the Setting, it returns the name of the rule, or
// notPaid if it reverts a step. Otherwise it returns "".
func (t *tuning) observe(s sample) (reason string) {
	from := t.now
	if s.elapsed <= 0 {
		return "" // possible with a coarse clock
	}
	if reason = t.decide(s); t.now == from {
		return ""
	}
	t.settle, t.window = settling, t.window[:0]
	return reason
}

func (t *tuning) decide(s sample) (reason string) {
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
	if t.now != t.home && !t.endTrial(&m) {
		return notPaid
	}
	if m.speed == 0 {
		return "" // there is no load
	}
	return t.tryRules(&m)
}

// shrink changes the Setting to save memory. If the step of a trial takes more memory, shrink
// reverts it. Otherwise it makes the first possible change in lessMemory.
func (t *tuning) shrink() {
	if t.now.memory() <= t.home.memory() {
		t.home = t.now
		for i := 0; i < len(lessMemory) && t.home == t.now; i++ {
			t.home = t.withStep(lessMemory[i])
		}
	}
	t.now, t.usual = t.home, measure{}
}

// withStep applies step to a copy of t.home, and limits the result to the Tuner's range.
func (t *tuning) withStep(step func(s *Setting)) Setting {
	next := t.home
	step(&next)
	return next.clamp(t.least, t.most)
}

// endTrial ends a trial. The measure m was made after the step. If m shows the result that the rule
// requires, endTrial keeps the step and returns true. Otherwise it reverts the step and returns
// false.
func (t *tuning) endTrial(m *measure) (kept bool) {
	// While memory grows, do not keep a step that needs more memory: memory_grows would revert it.
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

// tryRules tries the rules in order, until one changes the Setting. It returns that rule's name, or
// "". m is the measure of the current Setting.
func (t *tuning) tryRules(m *measure) (reason string) {
	if t.usual.speed == 0 || m.loadChanged(&t.usual) {
		t.usual, t.best = *m, m.speed
		t.rest = min(t.rest, t.patience/changePatience)
	}
	if t.tryRule(1, m) { // even during a pause
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
		if k := (t.turn + i) % len(tunerRules); k > 0 && t.tryRule(k, m) {
			return tunerRules[k].name
		}
	}
	t.rest, t.patience = t.patience, min(2*t.patience, mostPatience)
	return ""
}

// tryRule applies the step of rule k. It returns false if m does not meet the condition, if the
// rule is barred, or if the limits or the memory do not allow the step.
func (t *tuning) tryRule(k int, m *measure) bool {
	if t.barred[k] || !tunerRules[k].asks(m) {
		return false
	}
	next := t.withStep(tunerRules[k].step)
	grows := next.memory() > t.home.memory()
	if next == t.home || grows && float64(m.memory) > roomShare*float64(t.limit) {
		return false
	}
	t.trial, t.before, t.now = k, *m, next
	return true
}

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
