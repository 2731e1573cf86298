package observe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestBucketOf(t *testing.T) {
	for _, test := range []struct {
		ns   uint64
		want int
	}{
		{0, 0}, {1, 1}, {31, 31}, // one each
		{32, 32}, {33, 32}, {34, 33}, {63, 47}, // two each
		{64, 48}, {67, 48}, {68, 49},
		{1<<40 - 1, bucketCount - 1}, {1 << 40, bucketCount - 1}, {math.MaxUint64, bucketCount - 1},
	} {
		if got := bucketOf(test.ns); got != test.want {
			t.Errorf("bucketOf(%d) = %d, want %d", test.ns, got, test.want)
		}
	}
}

// Buckets follow each other without a gap, and the middle of one is in it and close to all that is.
func TestBucketMiddle(t *testing.T) {
	for i, middle := range bucketMiddle {
		if got := bucketOf(uint64(middle)); got != i {
			t.Errorf("the middle %v of bucket %d is in bucket %d", middle, i, got)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		ns := rng.Uint64() >> (24 + rng.IntN(40))
		middle := float64(bucketMiddle[bucketOf(ns)])
		if off := math.Abs(middle - float64(ns)); off > 1+float64(ns)/(2*bucketSub) {
			t.Fatalf("%v counts as %v", time.Duration(ns), time.Duration(middle))
		}
	}
}
