package observe

import (
	"math/bits"
	"time"
)

// Durations are counted in buckets that are 1/16 of a power of two wide, in nanoseconds, in Go as in the programs that run
// in the kernel: so no quantile is off by more than 6 percent. The last bucket has all above 18 minutes.
const (
	bucketBits  = 4
	bucketSub   = 1 << bucketBits // buckets in each power of two
	bucketCount = bucketSub * (40 - bucketBits + 1)
)

// bucketOf returns the bucket of a duration. Those below 2*bucketSub have one each; above, it is made of the power of two and
// of the bucketBits bits behind the leading one.
func bucketOf(ns uint64) int {
	if ns < 2*bucketSub {
		return int(ns)
	}
	power := bits.Len64(ns) - 1 - bucketBits
	return min(power*bucketSub+int(ns>>power), bucketCount-1)
}

// bucketMiddle has the middle of each bucket, which stands for all that is in it.
var bucketMiddle = func() []time.Duration {
	middle := make([]time.Duration, bucketCount)
	for i := range middle {
		if i < 2*bucketSub {
			middle[i] = time.Duration(i)
			continue
		}
		power := i/bucketSub - 1
		low := uint64(i-power*bucketSub) << power
		middle[i] = time.Duration(low + uint64(1)<<power/2)
	}
	return middle
}()
