package load

import (
	"sync"
	"time"
)

// Meter tells what viewers have got since it was asked last. Whoever asks sets
// the clock: what else is looked at in the same moment belongs to the same
// interval. It is handed to a load in Config.Meter, and told of that load until
// it is handed to another one. It holds 8 KB, however long the load is. The
// zero value is ready; it must not be copied. Any goroutine may ask it, before
// the load, during it and after it.
type Meter struct {
	mu        sync.Mutex
	run       *run       // nil before the load
	told      totals     // of run, when it was asked last
	latencies histCounts // of run, when it was asked last
}

// Interval is what came of a load between two questions. What comes during one
// is in this interval or in the next, never in both and never in none.
type Interval struct {
	Tags, Bytes int64 // that viewers got, the stalled ones too; bytes of payload
	Lost        int64 // tags that viewers which always read missed
	Ended       int64 // connections that ended early

	// Timed is how many tags that say how old they are came to viewers which
	// always read. The quantiles are those of their latencies, at most 3
	// percent off, and 0 if there are none.
	Timed         int64
	P50, P95, P99 time.Duration
}

// Interval returns what came since it was called last, or since the load began.
// It allocates nothing.
func (m *Meter) Interval() Interval {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return Interval{}
	}
	now, told := m.run.totals(), m.told
	m.told = now
	since := m.sinceLast()
	timed := since.total()
	return Interval{
		Tags: now.tags - told.tags, Bytes: now.bytes - told.bytes,
		Lost: now.lost - told.lost, Ended: now.ended - told.ended,
		Timed: timed,
		P50:   since.quantile(timed, 0.50), P95: since.quantile(timed, 0.95), P99: since.quantile(timed, 0.99),
	}
}

// sinceLast needs m.mu.
func (m *Meter) sinceLast() (since histCounts) {
	var now histCounts
	now.add(&m.run.healthy.unmeasured)
	now.add(&m.run.healthy.latency)
	for i := range now {
		since[i] = now[i] - m.latencies[i]
	}
	m.latencies = now
	return since
}

// attach has m tell of r from its beginning.
func (m *Meter) attach(r *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run, m.told, m.latencies = r, totals{}, histCounts{}
}
