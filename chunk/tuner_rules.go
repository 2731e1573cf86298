package chunk

import "math"

const (
	// maxPasses is how often a round goes through the steps while each pass finds one that pays: what is best for
	// workers depends on the size, and the other way round.
	maxPasses = 4

	// leastPatience and mostPatience are how many windows pass from one round to the next. It doubles each time, so that
	// a load that stays the same is tried on less and less. At the default interval it is 16 seconds at first, and more
	// than an hour in the end.
	leastPatience = 16
	mostPatience  = 1 << 12

	// changePatience is the part of the patience that passes even when the load has changed: a load that changes back
	// and forth, and for which no step pays, is not followed for ever.
	changePatience = 16

	// changedWindows is how many windows in a row must be of another load. One alone may be a compaction, or a neighbour.
	changedWindows = 2

	// growingWindows is how many windows in a row memory must grow. One alone is a pool that fills.
	growingWindows = 2

	// room is the part of the memory limit that workers, sizes and depth may grow in, and full the part above which they
	// shrink. What lies between is left alone.
	room, full = 0.75, 0.90

	// growthRoom is the part of the growth mark below which chunks may become larger.
	growthRoom = 0.5

	// doubleBuffer is the depth that has a source and a worker both busy. What is above it is given up first when memory
	// is short.
	doubleBuffer = 2

	// slower is how much slower memory must grow for a smaller chunk to have helped.
	slower = 0.75
)

// rules decides. It is a state machine over samples, with no clock and no goroutine:
//
//	settle (dwell samples) ──▶ look (a window) ──▶ try a step ──▶ settle ──▶ look ──▶ keep it, or take it back
//
// A round tries each step that the measures ask for. One that did not pay is barred until the next round. When no step is
// left, rules rests: for patience windows, or until the load is another one.
//
// Invariants:
//
//	now is home, or a step away from it while trying
//	home and now lie within cfg's bounds
//	1 ≤ patience ≤ mostPatience
type rules struct {
	cfg *tunerConfig

	home, now Setting
	window    window
	settling  int   // samples that are still to pass
	memory    int64 // at the end of the last sample, 0 before the first
	idle      int   // samples in a row in which nothing was done

	trying bool
	step   step
	before measure // of home

	usual  measure // of home, when it became that or the load changed
	best   float64 // speed, the most that was kept since the load changed
	other  int     // windows in a row that were of another load
	grew   int     // windows in a row in which memory grew
	paid   uint64  // steps that were kept, ever
	stride stride

	barred   [steps]bool
	turn     step // that next begins with
	passes   int  // of this round
	kept     int  // steps, in this pass
	gained   bool
	changed  bool // the round began because the load changed
	resting  bool
	rested   int // windows
	patience int
	ceiling  ceiling
}

func newRules(cfg *tunerConfig) rules {
	r := rules{cfg: cfg, home: cfg.start, now: cfg.start, patience: leastPatience, ceiling: newCeiling()}
	r.beginPass()
	return r
}

// observe takes in a sample.
func (r *rules) observe(s Sample) Move {
	from := r.now
	if s.Elapsed <= 0 {
		return Move{from, from, Stay}
	}
	why := r.decide(s.sane())
	if from != r.now {
		r.settling, r.window = r.cfg.dwell, window{}
	}
	return Move{from, r.now, why}
}

func (r *rules) decide(s Sample) MoveReason {
	before := r.memory
	r.memory = s.Memory
	if r.settling > 0 {
		r.settling--
		return Stay
	}
	if r.cfg.limited() && float64(s.Memory) > full*float64(r.cfg.memory) {
		return r.escape()
	}
	if r.idle++; s.Moved > 0 {
		r.idle = 0
	}
	if r.idle >= fewestSamples {
		return r.goIdle()
	}
	processors := s.Processors
	if processors == 0 {
		processors = r.cfg.processors
	}
	if r.window.samples == 0 && before == 0 {
		before = s.Memory
	}
	r.window.add(s, processors, before)
	if !r.window.isDone() {
		return Stay
	}
	m := r.window.measure()
	r.window = window{}
	r.ceiling.pass()
	if r.trying {
		return r.judge(m)
	}
	return r.look(m)
}

// goIdle gives up what is being tried: without a load there is nothing to see.
func (r *rules) goIdle() MoveReason {
	r.window = window{}
	if !r.trying {
		return Stay
	}
	r.trying, r.now = false, r.home
	return LoadGone
}

// escape makes something smaller because memory is close to its limit. It is no trial: the limit is one.
func (r *rules) escape() MoveReason {
	r.ceiling.hit(r.now)
	r.grew, r.gained = 0, false
	if r.trying && r.home.footprint() < r.now.footprint() {
		r.trying, r.now = false, r.home
		r.barred[r.step] = true
		return MemoryFull
	}
	r.trying = false
	next := r.now
	switch {
	case next.Depth > max(r.cfg.depth.least, doubleBuffer):
		next.Depth = max(r.cfg.depth.clip(next.Depth/2), doubleBuffer)
	case next.ChunkSize > r.cfg.sizes.least:
		next.ChunkSize = r.cfg.sizes.clip(next.ChunkSize / 2)
	case next.Depth > r.cfg.depth.least:
		next.Depth = r.cfg.depth.clip(next.Depth / 2)
	case next.Workers > r.cfg.workers.least:
		next.Workers = r.cfg.workers.clip(fewer(next.Workers))
	default:
		r.home = r.now
		return Stay
	}
	r.home, r.now = next, next
	r.usual, r.best = measure{}, 0 // what is usual now will be seen
	return MemoryFull
}

// look looks at how home does, and begins something if there is reason to.
func (r *rules) look(m measure) MoveReason {
	if r.usual.speed == 0 {
		r.usual, r.best = m, m.speed
	}
	if r.other++; !m.isOther(&r.usual) {
		r.other = 0
	}
	if r.grew++; m.growth <= r.cfg.growth {
		r.grew = 0
	}
	changed := r.other >= changedWindows || r.other > 0 && !r.resting
	if changed {
		r.usual, r.best, r.other = m, m.speed, 0
		r.changed = true
	}
	if r.grew >= growingWindows && r.try(sizeForMemory, &m) {
		return MemoryGrows
	}
	if r.resting && !r.wakes() {
		return Stay
	}
	return r.next(m)
}

// wakes reports whether a rest is over, and begins a round if so.
func (r *rules) wakes() bool {
	r.rested++
	if r.rested < r.patience && !(r.changed && r.rested >= r.patience/changePatience) {
		return false
	}
	r.resting, r.gained, r.passes = false, false, 0
	r.patience = min(2*r.patience, mostPatience)
	r.beginPass()
	return true
}

func (r *rules) beginPass() {
	r.passes++
	r.kept, r.barred, r.turn = 0, [steps]bool{}, 0
	r.stride = stride{}
}

// next tries a step that the measures ask for and that is not barred. When there is none, the pass is over. It begins
// behind the step that was kept last: workers and sizes that grow by turns meet neither the one's limits nor the other's
// first.
func (r *rules) next(m measure) MoveReason {
	for {
		for i := range steps {
			s := (r.turn + i) % steps
			if why := stepReasons[s]; why != Stay && r.asksFor(s, &m) && r.try(s, &m) {
				return why
			}
		}
		if r.kept == 0 || r.passes == maxPasses {
			r.rest()
			return Stay
		}
		r.beginPass()
	}
}

// rest ends a round.
func (r *rules) rest() {
	if r.changed && r.gained {
		r.patience = leastPatience
	}
	r.resting, r.rested, r.changed = true, 0, false
}

// judge keeps what was tried, or takes it back.
func (r *rules) judge(m measure) MoveReason {
	if m.growth > r.cfg.growth && r.step != sizeForMemory && r.now.footprint() > r.home.footprint() {
		r.ceiling.hit(r.now)
		r.barred[r.step] = true
		r.trying, r.now = false, r.home
		return MemoryGrows
	}
	r.trying = false
	paid := r.hasPaid(&m)
	if paid {
		r.keep(m)
	} else {
		r.barred[r.step] = true
		r.now = r.home
	}
	if r.step == workersUp {
		r.stride.judged(paid)
		r.barred[workersUp] = r.stride.isOver(r.home.Workers)
	}
	if !paid {
		return NotPaid
	}
	return r.look(m)
}

// keep makes what was tried home.
func (r *rules) keep(m measure) {
	if r.step == sizeForMemory {
		r.ceiling.hit(r.home)
	} else {
		r.kept, r.gained = r.kept+1, true
		r.turn = r.step + 1
		r.barred[opposites[r.step]] = true // it has just been looked at
	}
	r.home, r.usual, r.other = r.now, m, 0
	r.best = max(r.best, m.speed)
	r.paid++
	if r.step == sizeForMemory && m.growth > r.cfg.growth {
		r.grew = growingWindows // go on
	}
}

// hasPaid reports whether what was tried is to be kept.
func (r *rules) hasPaid(m *measure) bool {
	switch r.step {
	case workersDown, workersLess:
		// Against the best of all, so that steps that each cost a little don't add up.
		return m.speed >= (1-tolerance)*max(r.best, r.before.speed)
	case sizeForMemory:
		return m.growth <= max(r.cfg.growth, slower*r.before.growth)
	}
	// Processor time per byte drifts with what else the machine does. When it drifts down, nothing would stop sizes
	// from drifting with it.
	return m.pays(&r.before) || r.step == sizeUp && m.spares(&r.before)
}

// ceiling remembers what was too much for the memory, and for how many windows that is believed: longer each time.
type ceiling struct {
	footprint      int64 // bytes of chunks; math.MaxInt64: no ceiling
	left, patience int   // windows
}

func newCeiling() ceiling { return ceiling{footprint: math.MaxInt64, patience: leastPatience} }

func (c *ceiling) hit(s Setting) {
	c.footprint = min(c.footprint, s.footprint())
	c.patience = min(2*c.patience, mostPatience)
	c.left = c.patience
}

func (c *ceiling) pass() {
	if c.left--; c.left <= 0 {
		c.left, c.footprint = 0, math.MaxInt64
	}
}
