package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations from 1 µs to over an hour, with an error of at most 3 percent. Any
// goroutine may add durations.
type histogram struct {
	counts [histBuckets]atomic.Int64
	max    atomic.Int64 // nanoseconds
}

const (
	histSub     = 32 // number of buckets for each power of two
	histSubBits = 5
	histBuckets = histSub * 30
)

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[histIndex(uint64(d/time.Microsecond))].Add(1)
	h.raiseMax(d)
}

// raiseMax sets h.max to d if d is greater. Unlike add, it does not count d. Use raiseMax for an
// interval that has not ended.
func (h *histogram) raiseMax(d time.Duration) {
	for {
		m := h.max.Load()
		if int64(d) <= m || h.max.CompareAndSwap(m, int64(d)) {
			return
		}
	}
}

// histIndex returns the index of the bucket for a duration in microseconds. Each duration below
// 2*histSub has its own bucket. Above that, each range from a power of two to the next is divided
// into histSub buckets of equal width.
func histIndex(micros uint64) int {
	if micros < 2*histSub {
		return int(micros)
	}
	power := bits.Len64(micros) - 1 - histSubBits
	return min(power*histSub+int(micros>>power), histBuckets-1)
}

func histValue(i int) time.Duration {
	if i < 2*histSub {
		return time.Duration(i) * time.Microsecond
	}
	power := i/histSub - 1
	low := uint64(i-power*histSub) << power
	return time.Duration(low+uint64(1)<<power/2) * time.Microsecond
}

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
