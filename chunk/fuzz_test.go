package chunk_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

var jsonSeeds = []string{
	"{}", "{}{}[]\n", `{"a":"}\""} 1 2.5e-3 true`, "\"\\\\\"\"\\u0041\"", "[[[[]]]]",
	"1{}2[]\"3\"", "}{", "[}", "nul", "\r\n\t ",
	`{"a long key in which nothing happens": ["and a value with \\ and \" in it", {"x": {"y": []}}]}` + "\n",
}

// FuzzLines compares with the reference, for any input, sizes and reads.
func FuzzLines(f *testing.F) {
	for i, seed := range []string{"", "\n", "a", "a\nb\r\n\r\nc", "\r\r\n\n\n",
		"no end of the line"} {
		f.Add([]byte(seed), uint16(i), uint16(3*i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, in []byte, size, limit uint16, seed uint64) {
		fuzzAgainstSlow(t, &slowCutters[0], in, 1+int(size), 1+int(limit), seed)
	})
}

// FuzzJSON compares with the reference, and with encoding/json: decoding the chunks one by one
// returns the same values as decoding the whole input.
func FuzzJSON(f *testing.F) {
	for i, seed := range jsonSeeds {
		f.Add([]byte(seed), uint16(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint16, seed uint64) {
		chunks := fuzzAgainstSlow(t, &slowCutters[2], in, 1+int(size), 1<<20, seed)
		want, wantErr := decode(nil, in)
		var got []json.RawMessage
		var err error
		for _, c := range chunks {
			if got, err = decode(got, c); err != nil {
				break
			}
		}
		if len(got) != len(want) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q in chunks %q: %d values, %v; want %d, %v", in, chunks, len(got), err,
				len(want), wantErr)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%q in chunks %q: value %d is %q, want %q", in, chunks, i, got[i], want[i])
			}
		}
	})
}

// decode appends the values of in up to the first error.
func decode(values []json.RawMessage, in []byte) ([]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(in))
	for {
		var v json.RawMessage
		if err := d.Decode(&v); err == io.EOF {
			return values, nil
		} else if err != nil {
			return values, err
		}
		values = append(values, v)
	}
}

func fuzzAgainstSlow(t *testing.T, s *slowCutter, in []byte, size, limit int,
	seed uint64) [][]byte {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0))
	limit, full := max(size, limit), seed%2 == 0
	opts := []chunk.ReaderOption{chunk.At(s.cutter), chunk.Size(size), chunk.MaxRecord(limit)}
	if full {
		opts = append(opts, chunk.ReadInNext())
	}
	var src io.Reader = newRandomReader(in, rnd, io.EOF)
	if seed%3 == 0 {
		src = bytes.NewReader(in)
	}
	r := chunk.NewReader(src, opts...)
	defer r.Close()
	chunks, err := collect(t, r)
	if e := s.checkChunks(in, chunks, err, size, limit, full); e != nil {
		t.Fatalf("size %d, limit %d, full %v: %v\ninput %q\nchunks %q, error %v", size, limit, full,
			e, in, chunks, err)
	}
	return chunks
}
