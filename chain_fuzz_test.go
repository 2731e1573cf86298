package millrace_test

import (
	"math/rand/v2"
	"testing"
)

// FuzzChain lets the fuzzer write the program. It starts from every call behind every other.
func FuzzChain(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 12))
	for first := range herdOps {
		var program []byte
		for second := range herdOps {
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
		runHerd(t, program)
	})
}
