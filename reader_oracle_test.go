package millrace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace"
)

var pairSizes = []int{16, 17, 64, 512, 4096, 65536}

// TestReaderAgainstBufio runs random programs on a Reader and on a bufio.Reader over the same source.
func TestReaderAgainstBufio(t *testing.T) {
	for _, size := range pairSizes {
		for i, k := range kinds {
			t.Run(fmt.Sprintf("%d/%s", size, k.name), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(size), uint64(i)))
				for i := range rounds(40) {
					s := setup{size: size, quick: i%2 == 1, kind: k, tape: randomTape(rng, 1<<(5+rng.IntN(13)))}
					runPair(t, s, randomProgram(rng))
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// TestFedReaderAgainstBufio is the same for a Reader that is fed with pieces.
func TestFedReaderAgainstBufio(t *testing.T) {
	for i, k := range kinds {
		if k.wrap != nil {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for range rounds(150) {
				runPair(t, setup{feed: true, kind: k, tape: randomTape(rng, 1<<(5+rng.IntN(13)))}, randomProgram(rng))
				if t.Failed() {
					return
				}
			}
		})
	}
}

// rounds returns how many rounds of a test to run, fewer where each one costs more.
func rounds(n int) int {
	if testing.Short() || raceEnabled {
		n = n/4 + 1
	}
	if millrace.Invariants { // each share leaves two stacks
		n = n/4 + 1
	}
	return n
}

// randomProgram makes a program that prefers a few calls, others each time: some bugs need one call often, others need
// many different ones.
func randomProgram(rng *rand.Rand) []byte {
	program := make([]byte, 20+rng.IntN(600))
	favourites := make([]byte, 1+rng.IntN(4))
	for i := range favourites {
		favourites[i] = byte(rng.Uint32())
	}
	for i := range program {
		if program[i] = byte(rng.Uint32()); rng.IntN(3) == 0 {
			program[i] = favourites[rng.IntN(len(favourites))]
		}
	}
	return program
}

// FuzzReader lets the fuzzer write the program and the tape.
func FuzzReader(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range kinds {
		f.Add(byte(i), byte(i), uint16(10*i), uint16(20*i), stuff(rng, 300), randomProgram(rng)[:20])
	}
	text := []byte("line\r\nline\n日本語\x80\x81\x02 and more to come")
	for i := range pairOps {
		op := byte(i)
		f.Add(17*op, op, uint16(50), uint16(100), text, []byte{op, 9, op, 3, 3, 4, op})
	}
	f.Fuzz(func(t *testing.T, size, kind byte, fault1, fault2 uint16, data, program []byte) {
		if len(data) > 1<<16 || len(program) > 1<<10 {
			return
		}
		s := setup{
			size:  pairSizes[int(size&0x3f)%len(pairSizes)],
			feed:  size&0x80 != 0,
			quick: size&0x40 != 0,
			kind:  kinds[int(kind)%len(kinds)],
		}
		if s.feed && s.kind.wrap != nil {
			s.kind = kinds[0]
		}
		s.tape.data = data
		for i, at := range []uint16{min(fault1, fault2), max(fault1, fault2)} {
			if int(at) <= len(data) {
				s.tape.faults = append(s.tape.faults, fault{int(at), faultErrors[(i+int(kind))%len(faultErrors)]})
			}
		}
		runPair(t, s, program)
	})
}
