package observe

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// slowSpread is the oracle: all durations, sorted.
func slowSpread(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(all))
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	n := len(sorted)
	at := func(q float64) time.Duration { return sorted[max(int(math.Ceil(q*float64(n))), 1)-1] }
	return Spread{Count: int64(n), Mean: sum / time.Duration(n), P50: at(0.50), P99: at(0.99), Max: sorted[n-1]}
}

// about reports whether a figure of the histogram's is the oracle's, as far as buckets can tell.
func about(got, want time.Duration) bool {
	return math.Abs(float64(got-want)) <= 2+float64(want)/bucketSub
}

func checkSpread(t *testing.T, got, want Spread) {
	t.Helper()
	if got.Count != want.Count || !about(got.Mean, want.Mean) || !about(got.P50, want.P50) ||
		!about(got.P99, want.P99) || !about(got.Max, want.Max) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	if got.P50 > got.P99 || got.P99 > got.Max {
		t.Fatalf("not in order: %+v", got)
	}
}

// durations returns n of them, of any order of magnitude that buckets have.
func durations(rng *rand.Rand, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = time.Duration(rng.Uint64() >> (24 + rng.IntN(40)))
	}
	return all
}

func TestSpreadOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		all := durations(rng, rng.IntN(300))
		counts := make([]uint64, bucketCount)
		for _, d := range all {
			counts[bucketOf(uint64(d))]++
		}
		checkSpread(t, spreadOf(counts, bucketMiddle), slowSpread(all))
	}
}

// Each look at a growing histogram is of what came since the look before.
func TestGrowing(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	g := newGrowing(bucketMiddle)
	counts := make([]uint64, bucketCount)
	for range 200 {
		all := durations(rng, rng.IntN(100))
		for _, d := range all {
			counts[bucketOf(uint64(d))]++
		}
		checkSpread(t, g.spread(counts), slowSpread(all))
	}
}

func TestSince(t *testing.T) {
	var last uint64
	for _, test := range []struct {
		now  uint64
		want int64
	}{{5, 5}, {5, 0}, {12, 7}} {
		if got := since(&last, test.now); got != test.want {
			t.Errorf("since(%d) = %d, want %d", test.now, got, test.want)
		}
	}
}
