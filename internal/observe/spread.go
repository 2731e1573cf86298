package observe

import (
	"math"
	"time"
)

// spreadOf sums up counts, of which counts[i] lie about middle[i]. middle ascends.
func spreadOf(counts []uint64, middle []time.Duration) Spread {
	var s Spread
	var total uint64
	var sum float64 // a counter of nanoseconds would run over where the runtime's last bucket is full
	for i, n := range counts {
		if n == 0 {
			continue
		}
		total += n
		sum += float64(n) * float64(middle[i])
		s.Max = middle[i]
	}
	if total == 0 {
		return s
	}
	s.Count = int64(total)
	s.Mean = time.Duration(sum / float64(total))
	s.P50 = quantile(counts, middle, total, 0.50)
	s.P99 = quantile(counts, middle, total, 0.99)
	return s
}

// quantile returns the middle of the bucket that has the smallest value with at least the share q of total at or below it; 0
// if total is.
func quantile(counts []uint64, middle []time.Duration, total uint64, q float64) time.Duration {
	rank := max(uint64(math.Ceil(q*float64(total))), 1)
	for i, n := range counts {
		if rank <= n {
			return middle[i]
		}
		rank -= n
	}
	return 0
}

// A growing histogram only ever counts up. It sums up what came since it was looked at last.
//
// len(last) == len(since) == len(middle).
type growing struct {
	middle []time.Duration
	last   []uint64
	since  []uint64 // the scratch for differences, so that a sample allocates nothing
}

func newGrowing(middle []time.Duration) growing {
	return growing{middle: middle, last: make([]uint64, len(middle)), since: make([]uint64, len(middle))}
}

// spread borrows the histogram's counts of now.
func (g *growing) spread(counts []uint64) Spread {
	for i, n := range counts {
		g.since[i] = n - g.last[i]
		g.last[i] = n
	}
	return spreadOf(g.since, g.middle)
}

// since returns how far a counter that only grows went from *last, and moves *last.
func since[N int64 | uint64](last *N, now N) int64 {
	d := int64(now - *last)
	*last = now
	return d
}
