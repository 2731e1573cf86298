package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations, in microseconds, in buckets. Each power of two is divided into 32
// buckets. The error is at most 3 percent, from 1 µs to over an hour. Any goroutine may add to it.
type histogram struct {
	counts [histBuckets]atomic.Int64
	max    atomic.Int64 // nanoseconds
}

const (
	histSub     = 32 // buckets in each power of two
	histSubBits = 5
	histBuckets = histSub * 30
)

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[histIndex(uint64(d/time.Microsecond))].Add(1)
	h.raise(d)
}

// raise raises the maximum to d without counting d. It is for an interval that has not ended yet,
// whose final length is not known.
func (h *histogram) raise(d time.Duration) {
	for {
		m := h.max.Load()
		if int64(d) <= m || h.max.CompareAndSwap(m, int64(d)) {
			return
		}
	}
}

// histIndex returns the bucket of a duration. Each value below 2*histSub has its own bucket. For a
// higher value, the index consists of the power of two and the histSubBits bits after the leading
// one.
func histIndex(us uint64) int {
	if us < 2*histSub {
		return int(us)
	}
	power := bits.Len64(us) - 1 - histSubBits
	return min(power*histSub+int(us>>power), histBuckets-1)
}

// histValue returns the middle of a bucket.
func histValue(i int) time.Duration {
	if i < 2*histSub {
		return time.Duration(i) * time.Microsecond
	}
	power := i/histSub - 1
	low := uint64(i-power*histSub) << power
	return time.Duration(low+uint64(1)<<power/2) * time.Microsecond
}

// spread summarizes the histogram.
func (h *histogram) spread() Spread {
	var counts [histBuckets]int64
	s := Spread{Max: time.Duration(h.max.Load())}
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
		s.Count += counts[i]
	}
	quantile := func(q float64) time.Duration {
		rank := int64(q * float64(s.Count))
		for i, n := range counts {
			if rank -= n; rank < 0 {
				return min(histValue(i), s.Max)
			}
		}
		return 0
	}
	s.P50, s.P99 = quantile(0.50), quantile(0.99)
	return s
}
