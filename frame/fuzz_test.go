package frame_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame"
)

// FuzzDecoder compares with the reference, in random portions, with errors in between, by all calls mixed.
func FuzzDecoder(f *testing.F) {
	for i, s := range seedStreams {
		f.Add([]byte(s), uint64(i), uint32(100))
	}
	f.Add([]byte(randomStream(rand.New(rand.NewPCG(1, 6)), 5)), uint64(20), uint32(1<<20))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, most uint32) {
		l := limits{most: int(most % (1 << 20)), kind: seedLimits.kind}
		want, wantErr := slowParse(string(in), l)
		rnd := rand.New(rand.NewPCG(seed, 0))
		blocks := millrace.NewPool()
		r := blocks.NewReader(&weather{string(in), rnd}, 16<<rnd.IntN(9))
		got, err := play(t, rnd, frame.NewDecoder(r, record{}, l.options()...))
		sameResult(t, "fuzz", got, err, want, wantErr)
		r.Release()
		if n := blocks.Stats().InUse; n != 0 {
			t.Fatalf("%d bytes in use after Release", n)
		}
	})
}

// FuzzSealed damages a sealed stream: what comes out before the error is what went in.
func FuzzSealed(f *testing.F) {
	f.Add(uint64(1), uint16(0), byte(0))
	f.Add(uint64(2), uint16(20), byte(1))
	f.Add(uint64(3), uint16(700), byte(255))
	f.Fuzz(func(t *testing.T, seed uint64, at uint16, by byte) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var records []string
		in := ""
		for range rnd.IntN(20) {
			records = append(records, rawFrame(byte(rnd.IntN(badKind)), randomBytes(rnd, rnd.IntN(100))))
			in += records[len(records)-1]
		}
		wire := []byte(new(masked).seal(records...))
		if len(wire) > 0 {
			wire[int(at)%len(wire)] ^= by
		}
		want, wantErr := slowParse(in, limits{most: 1 << 20})
		r := millrace.NewReader(&randomReader{string(wire), rnd})
		defer r.Release()
		got, err := drain(frame.NewDecoder(r, new(masked)), sealedWays()[rnd.IntN(3)])
		if by != 0 && len(wire) > 0 {
			if !errors.Is(err, errSum) {
				t.Fatalf("%v; the damage was not seen", err)
			}
			want, wantErr = want[:min(len(got), len(want))], err
		}
		sameResult(t, "fuzz", got, err, want, wantErr)
	})
}
