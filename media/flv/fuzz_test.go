package flv_test

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
)

// FuzzDecoder compares with the reference, in random portions. decodeAll fails on a leak.
func FuzzDecoder(f *testing.F) {
	for _, seed := range dataSeeds {
		f.Add([]byte(fileHeader+rawTag(seed.kind, 1, seed.data)+rawTag(seed.kind, 2, seed.data)),
			uint64(1))
	}
	f.Add(randomStream(rand.New(rand.NewPCG(1, 1)), 5), uint64(2))
	f.Add([]byte("FLV\x01\x05\x00\x00\x00\x0bxx\x00\x00\x00\x00"), uint64(3))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		const maxTag = 1 << 16
		want, wantErr := slowParse(in, maxTag)
		rnd := rand.New(rand.NewPCG(seed, 0))
		got, err := decodeAll(t, &randomReader{in, rnd}, 16<<rnd.IntN(9), flv.MaxTag(maxTag))
		sameResult(t, got, err, want, wantErr)
		if len(in) >= 9 && len(want) > 0 && !flv.Sniff(in) {
			t.Error("has tags and is not recognised")
		}
	})
}
