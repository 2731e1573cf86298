package sv2_test

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
)

// FuzzHeader parses any bytes as a stream of plain messages and compares with the reference. Parsed
// messages are built again.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00"), uint64(1))
	f.Add([]byte("\x00\x80\x1f\x04\x00\x00\x01\x02\x03\x04\xff\xff\xff\x01\x00\x00x"), uint64(2))
	f.Add([]byte("\x00\x80\x1f\xff\xff\xff\x01\x02"), uint64(3))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		want, wantErr := slowParse(string(in))
		r := millrace.NewReader(&sourcetest.Unsteady{Rest: string(in),
			Rand: rand.New(rand.NewPCG(seed, 1))})
		defer r.Release()
		d := frame.NewDecoder(r, sv2.Format{}, frame.MaxPayload(sv2.MaxPayload))
		rnd := rand.New(rand.NewPCG(seed, 2))
		var got []slowMessage
		for {
			messages, err := decodePlain(rnd, d)
			got = append(got, messages...)
			if err != sourcetest.ErrUnsteady {
				check(t, "fuzz", got, err, want, wantErr)
				break
			}
		}
		if built := buildAll(got); built != string(in[:len(built)]) {
			t.Errorf("built %q from %q", built, in)
		}
	})
}

// FuzzOpener may change a sealed stream: the frames before the error are the original ones.
func FuzzOpener(f *testing.F) {
	f.Add(uint64(1), uint32(0), byte(0), uint8(3))
	f.Add(uint64(2), uint32(10), byte(1), uint8(4))
	f.Add(uint64(3), uint32(70_000), byte(128), uint8(18))
	f.Fuzz(func(t *testing.T, seed uint64, at uint32, by byte, size uint8) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		checkOpener(t, rnd, randomMessages(rnd, rnd.IntN(6), 1<<(size%18)), int(at), by)
	})
}
