package observe

import (
	"sync"
	"sync/atomic"
	"time"
)

// Latencies is what the goroutines of a load record into, and what [Options.Load] is made from. It takes 10 KB however
// much is recorded. The zero value is ready; it must not be copied.
//
// Record and Fail may be called from any number of goroutines. What they record while Load runs is in this interval or in
// the next, never in both and never in none.
type Latencies struct {
	open   [bucketCount]atomic.Uint64 // of the interval that is not over
	bytes  atomic.Int64
	errors atomic.Int64

	mu     sync.Mutex
	closed [bucketCount]uint64 // of the interval that Load returned last
}

// Record counts an operation that took d and moved n bytes.
func (l *Latencies) Record(d time.Duration, n int64) {
	l.open[bucketOf(uint64(max(d, 0)))].Add(1)
	l.bytes.Add(n)
}

// Fail counts an operation that failed. It has no latency.
func (l *Latencies) Fail() { l.errors.Add(1) }

// Load returns what was recorded since the last call, and starts over.
func (l *Latencies) Load() Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.open {
		var n uint64
		if l.open[i].Load() > 0 { // most are empty, and a Swap costs far more than a look
			n = l.open[i].Swap(0)
		}
		l.closed[i] = n
	}
	return loadOf(l.closed[:], l.bytes.Swap(0), l.errors.Swap(0))
}

func loadOf(counts []uint64, bytes, errors int64) Load {
	var total uint64
	for _, n := range counts {
		total += n
	}
	return Load{
		Operations: int64(total), Bytes: bytes, Errors: errors,
		P50: quantile(counts, bucketMiddle, total, 0.50),
		P95: quantile(counts, bucketMiddle, total, 0.95),
		P99: quantile(counts, bucketMiddle, total, 0.99),
	}
}
