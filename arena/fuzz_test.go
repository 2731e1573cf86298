package arena_test

import (
	"math/rand/v2"
	"testing"
)

// FuzzPoolSmall lets the fuzzer write a program for a Pool of a few bytes, which is full or moves a
// frame at nearly each step. It compares with the model after each step. The seeds contain each
// call after each other call.
func FuzzPoolSmall(f *testing.F) {
	rng := rand.New(rand.NewPCG(31, 31))
	for first := range modelOps {
		program := randomProgram(rng, 5)
		for second := range modelOps {
			for _, op := range []int{first, second} {
				program = append(program, byte(op), byte(rng.Uint32()), byte(rng.Uint32()),
					byte(rng.Uint32()))
			}
		}
		f.Add([]byte(program))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 1<<8 {
			return
		}
		runModel(t, input, 64)
	})
}

// FuzzPoolLarge chooses any capacity up to 16 MiB and any frames. The frames are passed to other
// goroutines, and their contents must not change while they are held.
func FuzzPoolLarge(f *testing.F) {
	rng := rand.New(rand.NewPCG(32, 32))
	for _, capacity := range []uint32{0, 1, 100, 5000, 1 << 16, 1 << 20, 1 << 24} {
		for _, slots := range []byte{8, 64, 0} {
			f.Add(capacity, slots, slots%3 > 0, []byte(randomProgram(rng, 100)))
		}
	}
	f.Fuzz(func(t *testing.T, capacity uint32, slots byte, fallback bool, input []byte) {
		if len(input) > 1<<9 {
			return
		}
		size := int(capacity % (1<<24 + 1))
		number := []int{8, 64, 512}[slots%3]
		p := program(input)
		d := newDepot(t, size, number, fallback, 4)
		for i := 0; len(p) > 0 && !t.Failed(); i++ {
			most := size // bytes that the Pool must have room for
			if fallback {
				most = min(2*size+100, 1<<17)
			}
			var lengths []int
			for range 1 + p.choose()%4 {
				n := p.upTo(min(most, 1<<15))
				lengths = append(lengths, n)
				most -= n
			}
			d.send(i, lengths...)
		}
		d.close()
	})
}
