package load

import (
	"testing"
	"time"
)

func TestHistogramIsThreePercentOff(t *testing.T) {
	for d := time.Duration(0); d < 2*time.Hour; d += d/7 + time.Microsecond {
		got := histValue(histIndex(uint64(d / time.Microsecond)))
		if diff := (got - d).Abs(); diff > d/30+time.Microsecond {
			t.Errorf("%v is counted as %v", d, got)
		}
	}
	if i := histIndex(1 << 63); i != histBuckets-1 {
		t.Errorf("a huge value goes to bucket %d of %d", i, histBuckets)
	}
}

func TestHistogramSpread(t *testing.T) {
	var h histogram
	if s := h.spread(); s != (Spread{}) {
		t.Errorf("an empty histogram has %+v, want zeros", s)
	}
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	h.raiseMax(5 * time.Second)
	s := h.spread()
	near := func(got, want time.Duration) bool { return (got - want).Abs() < want/25 }
	if s.Count != 1000 || !near(s.P50, 500*time.Millisecond) ||
		!near(s.P99, 990*time.Millisecond) || s.Max != 5*time.Second {
		t.Errorf("%+v, want 1000 values and their quantiles", s)
	}
	h.add(-time.Second)
	if got := h.counts[0].Load(); got != 1 {
		t.Errorf("a negative time is counted %d times as zero", got)
	}
}
