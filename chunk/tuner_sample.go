package chunk

import (
	"math"
	"time"
)

// A Sample is what happened between one look at the process and the next.
type Sample struct {
	Elapsed    time.Duration
	Processors float64       // that the process may use; 0: what GOMAXPROCS was when the Tuner was made
	CPU        time.Duration // processor time that it took, of all processors together
	Memory     int64         // bytes that it has at the end
	Moved      int64         // bytes that were worked on

	Waiting int   // goroutines that wait in Acquire at the end
	Waited  int64 // Acquires that had to wait
	Starved int64 // times that a Reader's Next waited for its source
	Stuffed int64 // times that a source waited for Next, because Depth chunks did already
}

// sane returns s with nothing below 0.
func (s Sample) sane() Sample {
	if !(s.Processors > 0) || math.IsInf(s.Processors, 1) {
		s.Processors = 0
	}
	s.CPU, s.Memory, s.Moved = max(s.CPU, 0), max(s.Memory, 0), max(s.Moved, 0)
	return s
}

// isPressed reports whether work waits for workers.
func (s *Sample) isPressed() bool { return s.Waiting > 0 || s.Waited > 0 }

const (
	// fewestSamples and mostSamples are how long a setting is looked at: until the mean speed is known to sureEnough of
	// itself, but not for ever where the load is noisy.
	fewestSamples = 4
	mostSamples   = 20
	sureEnough    = 0.025
)

// window adds up the samples of one setting.
type window struct {
	samples, pressed int
	speeds, yields   average

	seconds, moved, share float64 // share is of the processors, times seconds
	starved, stuffed      bool
	memoryFirst           int64 // bytes, before the first sample
	memory                int64 // bytes, after the last one
}

// add takes in a sample. before is the memory at its start.
func (w *window) add(s Sample, processors float64, before int64) {
	seconds := s.Elapsed.Seconds()
	if w.samples == 0 {
		w.memoryFirst = before
	}
	w.samples++
	w.speeds.add(float64(s.Moved) / seconds)
	if s.CPU > 0 {
		w.yields.add(float64(s.Moved) / s.CPU.Seconds())
	}
	w.seconds += seconds
	w.moved += float64(s.Moved)
	w.share += s.CPU.Seconds() / processors
	w.memory = s.Memory
	w.starved = w.starved || s.Starved > 0
	w.stuffed = w.stuffed || s.Stuffed > 0
	if s.isPressed() {
		w.pressed++
	}
}

// isDone reports whether the setting has been looked at for long enough.
func (w *window) isDone() bool {
	return w.samples >= mostSamples || w.samples >= fewestSamples && w.speeds.spread() <= sureEnough*w.speeds.mean()
}

// measure returns what the samples say.
func (w *window) measure() measure {
	return measure{
		speed:   w.moved / w.seconds,
		spread:  w.speeds.spread(),
		yield:   w.yields.mean(),
		doubt:   w.yields.spread(),
		share:   w.share / w.seconds,
		growth:  float64(w.memory-w.memoryFirst) / w.seconds,
		memory:  w.memory,
		pressed: 2*w.pressed >= w.samples,
		starved: w.starved,
		stuffed: w.stuffed,
	}
}

// measure is how a setting did.
type measure struct {
	speed   float64 // bytes a second
	spread  float64 // standard error of speed
	yield   float64 // bytes a second of processor time
	doubt   float64 // standard error of yield
	share   float64 // of the processors
	growth  float64 // of memory, bytes a second
	memory  int64   // bytes
	pressed bool    // work waits for workers
	starved bool    // workers wait for the source
	stuffed bool    // the source waits for workers
}

// average is of numbers that are added one by one.
type average struct {
	n            int
	sum, squares float64
}

func (a *average) add(v float64) {
	a.n++
	a.sum += v
	a.squares += v * v
}

func (a *average) mean() float64 { return a.sum / max(float64(a.n), 1) }

// spread is the standard error of the mean.
func (a *average) spread() float64 {
	n := max(float64(a.n), 1)
	return math.Sqrt(max(a.squares-a.sum*a.sum/n, 0) / max(n-1, 1) / n)
}

const (
	// tolerance is how much less speed is taken for the same, and how much more a step must bring to pay.
	tolerance = 0.05

	// certainty is how many standard errors two speeds must lie apart to be two.
	certainty = 2

	// busyShare is the share of the processors above which doing the same with less of it is worth larger chunks.
	busyShare = 0.25

	// otherSpeed and otherShare are how much a setting's speed and share of the processors must change by themselves
	// for what was learnt to be of the past. The share is the width of the marks' dead band.
	otherSpeed = 0.30
	otherShare = defaultHigh - defaultLow
)

// pays reports whether m is faster than before, and not by chance.
func (m *measure) pays(before *measure) bool {
	chance := certainty * math.Hypot(m.spread, before.spread)
	return m.speed > before.speed+max(tolerance*before.speed, chance)
}

// spares reports whether m is as fast as before with less processor time per byte. Where others take a part of the
// processors, now more and now less, this is seen when the speed tells nothing.
func (m *measure) spares(before *measure) bool {
	slack := max(tolerance*before.speed, certainty*math.Hypot(m.spread, before.spread)/2)
	chance := certainty * math.Hypot(m.doubt, before.doubt)
	return before.share > busyShare && m.speed >= before.speed-slack &&
		m.yield > before.yield+max(tolerance*before.yield, chance)
}

// isOther reports whether m is of another load, or another machine, than before, the setting being the same.
func (m *measure) isOther(before *measure) bool {
	chance := 2 * certainty * math.Hypot(m.spread, before.spread)
	return math.Abs(m.speed-before.speed) > max(otherSpeed*before.speed, chance) ||
		math.Abs(m.share-before.share) > otherShare ||
		m.pressed != before.pressed
}
