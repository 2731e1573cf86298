package stackbuf_test

import (
	"math/rand/v2"
	"testing"
)

// FuzzBuffer lets the fuzzer write the program. It starts from every call behind every other.
func FuzzBuffer(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 12))
	for first := range rigOps {
		var program []byte
		for second := range rigOps {
			for _, op := range []int{first, second} {
				program = append(program, byte(op), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()))
			}
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 1<<10 {
			return
		}
		runRig(t, program)
	})
}
