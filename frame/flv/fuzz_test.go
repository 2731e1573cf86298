package flv_test

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/frame/flv"
)

// FuzzDecoder compares with the reference, in random portions. decodeAll fails on a leak.
func FuzzDecoder(f *testing.F) {
	for _, seed := range dataSeeds {
		f.Add([]byte(fileHeader+rawTag(seed.kind, 1, seed.data)+rawTag(seed.kind, 2, seed.data)), uint64(1), false)
	}
	f.Add(randomStream(rand.New(rand.NewPCG(1, 1)), 5), uint64(2), true)
	f.Add([]byte("FLV\x01\x05\x00\x00\x00\x0bxx\x00\x00\x00\x00"), uint64(3), false)
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, anyPrev bool) {
		const maxTag = 1 << 16
		opts := []flv.Option{flv.MaxTag(maxTag)}
		if anyPrev {
			opts = append(opts, flv.AnyPrevTagSize())
		}
		want, wantErr := slowParse(in, maxTag, anyPrev)
		rnd := rand.New(rand.NewPCG(seed, 0))
		got, err := decodeAll(t, &randomReader{in, rnd}, 16<<rnd.IntN(9), opts...)
		sameResult(t, got, err, want, wantErr)
		if len(in) >= 9 && len(want) > 0 && !flv.Sniff(in) {
			t.Error("has tags and is not recognised")
		}
	})
}
