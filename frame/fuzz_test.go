package frame_test

import (
	"math/rand/v2"
	"testing"
)

// FuzzDecoder compares with the reference, with random portions, errors in between, and all calls
// in random order.
func FuzzDecoder(f *testing.F) {
	for i, s := range seedStreams {
		f.Add([]byte(s), uint64(i), uint32(100))
	}
	f.Add([]byte(randomStream(rand.New(rand.NewPCG(1, 6)), 5)), uint64(20), uint32(1<<20))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, most uint32) {
		l := limits{most: int(most % (1 << 20)), kind: seedLimits.kind}
		checkRandomly(t, string(in), rand.New(rand.NewPCG(seed, 0)), l)
	})
}

// FuzzSealed may damage a sealed stream: the frames before the error are the original ones.
func FuzzSealed(f *testing.F) {
	f.Add(uint64(1), uint16(0), byte(0))
	f.Add(uint64(2), uint16(20), byte(1))
	f.Add(uint64(3), uint16(700), byte(255))
	f.Fuzz(checkSealed)
}
