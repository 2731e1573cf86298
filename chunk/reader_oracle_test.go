package chunk_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// A randomReader returns any number of bytes, sometimes none, and its last error with or after the
// last bytes.
type randomReader struct {
	in  []byte
	rnd *rand.Rand
	err error
}

// newRandomReader has its own random numbers, because it is read on another goroutine.
func newRandomReader(in []byte, rnd *rand.Rand, err error) *randomReader {
	return &randomReader{in, rand.New(rand.NewPCG(rnd.Uint64(), 0)), err}
}

func (r *randomReader) Read(p []byte) (int, error) {
	n := r.rnd.IntN(1 + min(len(p), len(r.in), 1<<r.rnd.IntN(8)))
	copy(p, r.in[:n])
	if r.in = r.in[n:]; len(r.in) == 0 && (n == 0 || r.rnd.IntN(2) == 0) {
		return n, r.err
	}
	return n, nil
}

// sources return the same bytes in different ways. The final error is io.EOF.
func sources(in []byte, rnd *rand.Rand) map[string]io.Reader {
	hide := func() io.Reader { return struct{ io.Reader }{bytes.NewReader(in)} }
	return map[string]io.Reader{
		"memory":       bytes.NewReader(in),
		"string":       strings.NewReader(string(in)),
		"section":      io.NewSectionReader(bytes.NewReader(in), 0, int64(len(in))),
		"limited":      io.LimitReader(bytes.NewReader(in), int64(len(in))),
		"whole":        hide(),
		"one byte":     iotest.OneByteReader(hide()),
		"half":         iotest.HalfReader(hide()),
		"error with":   iotest.DataErrReader(hide()),
		"random":       newRandomReader(in, rnd, io.EOF),
		"end, limited": io.LimitReader(iotest.DataErrReader(bytes.NewReader(in)), int64(len(in))),
	}
}

// collect copies the chunks that Next returns, and checks Offset after each of them. A nil error
// means io.EOF.
func collect(t *testing.T, r *chunk.Reader) (chunks [][]byte, err error) {
	t.Helper()
	var offset int64
	for {
		ref, err := r.Next(t.Context())
		if err != nil {
			if ref.Len() > 0 {
				t.Errorf("a chunk together with %v", err)
			}
			if _, again := r.Next(t.Context()); again != err {
				t.Errorf("error %v, then %v", err, again)
			}
			if err == io.EOF {
				err = nil
			}
			return chunks, err
		}
		if offset += int64(ref.Len()); r.Offset() != offset {
			t.Errorf("Offset = %d after %d bytes", r.Offset(), offset)
		}
		chunks = append(chunks, slices.Clone(ref.Bytes()))
		ref.Release()
	}
}

func TestReaderAgainstOracle(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	pool := millrace.NewPool()
	for _, s := range slowCutters {
		t.Run(s.name, func(t *testing.T) {
			leaktest.Check(t, pool)
			for seed := range uint64(rounds) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				in := s.make(rnd, rnd.IntN(1<<rnd.IntN(12)))
				for name, src := range sources(in, rnd) {
					size, full := 1+rnd.IntN(1<<rnd.IntN(10)), rnd.IntN(2) == 0
					limit := max(size, 1+rnd.IntN(1<<rnd.IntN(10)))
					opts := []chunk.ReaderOption{
						chunk.At(s.cutter), chunk.Size(size), chunk.MaxRecord(limit),
						chunk.From(pool),
						chunk.Depth(1 + rnd.IntN(4)),
					}
					if full {
						opts = append(opts, chunk.ReadInNext())
					}
					r := chunk.NewReader(src, opts...)
					chunks, err := collect(t, r)
					if e := s.checkChunks(in, chunks, err, size, limit, full); e != nil {
						t.Fatalf("seed %d, %s, size %d, limit %d, full %v: %v\ninput %q\nchunks %q, error %v",
							seed, name, size, limit, full, e, in, chunks, err)
					}
					r.Close()
				}
			}
		})
	}
}

// TestReaderEverySplit splits a short input into all pairs of parts, with many sizes and limits.
func TestReaderEverySplit(t *testing.T) {
	for i, in := range []string{
		"ab\n\ncdef\r\ng",
		"01234567890123",
		"{\"a\":\"}\\\"\"} [1] \"x\"\n 123 45678\ntrue",
		"a\x00bcd\x00",
		"\x00\x01a\x00\x00\x00\x03xyz",
	} {
		s := slowCutters[i]
		for size := 1; size <= len(in)+1; size++ {
			for limit := size; limit <= len(in)+1; limit++ {
				for split := range len(in) {
					src := io.MultiReader(strings.NewReader(in[:split]),
						strings.NewReader(in[split:]))
					r := chunk.NewReader(src, chunk.At(s.cutter), chunk.Size(size),
						chunk.MaxRecord(limit), chunk.ReadInNext())
					chunks, err := collect(t, r)
					if e := s.checkChunks([]byte(in), chunks, err, size, limit, true); e != nil {
						t.Fatalf("%s: split %d, size %d, limit %d: %v\nchunks %q, error %v",
							s.name, split, size, limit, e, chunks, err)
					}
					r.Close()
				}
			}
		}
	}
}
