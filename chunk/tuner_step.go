package chunk

// A step is one way to move one part of a Setting.
type step int8

// In the order in which they are tried: what the measures ask for most plainly comes first.
const (
	workersDown step = iota
	workersUp
	workersLess // fewer, because more would not help
	depthUp
	sizeUp
	sizeDown
	sizeForMemory // smaller, because memory grows; it has reasons of its own
	noStep        // never tried
	steps
)

// stepReasons is why each is tried. sizeForMemory and noStep are not tried for speed.
var stepReasons = [steps]MoveReason{
	workersDown: ProcessorsBusy,
	workersUp:   ProcessorsFree,
	workersLess: FewerMayDo,
	depthUp:     SourceInBursts,
	sizeUp:      LargerMayPay,
	sizeDown:    SmallerMayPay,
}

// opposites is what each step would be taken back by.
var opposites = [steps]step{
	depthUp:       noStep,
	workersDown:   workersUp,
	workersUp:     workersLess,
	workersLess:   workersUp,
	sizeUp:        sizeDown,
	sizeDown:      sizeUp,
	sizeForMemory: sizeUp,
}

// asksFor reports whether what was measured is a reason for s.
func (r *rules) asksFor(s step, m *measure) bool {
	switch s {
	case workersDown:
		return m.share > r.cfg.high
	case workersUp, workersLess: // the second one's turn comes when the first did not pay
		return m.share < r.cfg.low && m.pressed
	case depthUp:
		return m.starved && m.stuffed
	default:
		// Where nobody waits for anybody, chunks of another size could only be seen to cost more memory.
		return m.share > r.cfg.high || m.pressed || m.starved
	}
}

// try makes s, from home, the setting in force. It reports whether it could.
func (r *rules) try(s step, m *measure) bool {
	if r.barred[s] {
		return false
	}
	next := r.after(s, m)
	if next == r.home || next.footprint() > r.home.footprint() && !r.hasRoom(next, m) {
		return false
	}
	r.trying, r.step, r.before, r.now = true, s, *m, next
	return true
}

// after returns where s leads to, within the bounds.
func (r *rules) after(s step, m *measure) Setting {
	next := r.home
	switch s {
	case workersDown, workersLess:
		next.Workers = fewer(next.Workers)
	case workersUp:
		next.Workers += r.stride.next(next.Workers)
	case depthUp:
		next.Depth *= 2
	case sizeUp:
		next.ChunkSize *= 2
	case sizeDown, sizeForMemory:
		next.ChunkSize /= 2
	}
	return r.cfg.bound(next)
}

// hasRoom reports whether memory allows for next.
func (r *rules) hasRoom(next Setting, m *measure) bool {
	return next.footprint() < r.ceiling.footprint &&
		m.growth <= growthRoom*r.cfg.growth &&
		(!r.cfg.limited() || float64(m.memory) <= room*float64(r.cfg.memory))
}

// fewer is three quarters of n, and less than n.
func fewer(n int) int { return n - max(n/4, 1) }

// leastStride is the part of the workers that a step adds at least: what an eighth of them brings is hardly more than
// what is taken for the same.
const leastStride = 8

// stride is how many workers a step adds. It doubles while steps pay, so that sixty-four are reached in a few steps, and
// halves with each step from the first one on that did not, which closes in on where it ceases to pay.
type stride struct {
	workers int  // the next one, 0 before the first
	paid    bool // one did
	halving bool // one did not
}

// next returns the stride from n workers.
func (s *stride) next(n int) int {
	if s.workers == 0 {
		s.workers = max(n/4, 1)
	}
	return s.workers
}

func (s *stride) judged(paid bool) {
	s.paid, s.halving = s.paid || paid, s.halving || !paid
	switch {
	case !s.paid:
		s.workers = 0 // there is nothing to close in on
	case s.halving:
		s.workers /= 2
	default:
		s.workers *= 2
	}
}

// isOver reports whether the next stride would show nothing.
func (s *stride) isOver(n int) bool { return s.workers < max(n/leastStride, 1) }
