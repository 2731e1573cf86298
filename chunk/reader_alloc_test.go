//go:build !race && !invariants

package chunk_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// repeat gives the same bytes again and again, as many as there is room for.
type repeat struct {
	of string
	at int
}

func (r *repeat) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], r.of[r.at:])
		n += m
		r.at = (r.at + m) % len(r.of)
	}
	return n, nil
}

func TestNoAllocationPerChunk(t *testing.T) {
	const text = "{\"a\": [1, 2, \"three\"]}\n"
	file := strings.NewReader(strings.Repeat(text, 4<<20/len(text)))
	for _, test := range []struct {
		name   string
		src    io.Reader
		cutter chunk.Cutter
	}{
		{"bytes", &repeat{of: text}, chunk.Fixed(1)},
		{"lines", &repeat{of: text}, chunk.Lines()},
		{"values", &repeat{of: text}, chunk.JSON()},
		{"function", &repeat{of: text}, chunk.CutFunc(func(p []byte) int { return bytes.IndexByte(p, '\n') + 1 })},
		{"records longer than a chunk", &repeat{of: strings.Repeat("x", 3000) + "\n"}, chunk.Lines()},
		{"memory", file, chunk.Lines()},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := chunk.NewReader(test.src, chunk.At(test.cutter), chunk.Size(2048))
			defer r.Close()
			p := make([]byte, 300)
			ways := map[string]func(){
				"Next": func() {
					ref, err := r.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					ref.Release()
				},
				"Read": func() {
					if _, err := r.Read(p); err != nil {
						t.Fatal(err)
					}
				},
			}
			for way, f := range ways {
				for range 100 {
					f()
				}
				if n := testing.AllocsPerRun(500, f); n != 0 {
					t.Errorf("%s: %v allocations a chunk", way, n)
				}
			}
		})
	}
}

// Chunks and WriteTo allocate for the loop, not for what it lends.
func TestNoAllocationPerChunkInLoops(t *testing.T) {
	const chunks = 200
	in := strings.NewReader(strings.Repeat("0123456789abcde\n", chunks*64))
	r := chunk.NewReader(nil)
	loops := map[string]func(){
		"Chunks": func() {
			for _, err := range r.Chunks(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
			}
		},
		"WriteTo": func() {
			if _, err := r.WriteTo(writerFunc(func(p []byte) (int, error) { return len(p), nil })); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, loop := range loops {
		n := testing.AllocsPerRun(20, func() {
			in.Seek(0, io.SeekStart)
			r = chunk.NewReader(in, chunk.Size(1024), chunk.At(chunk.Lines()))
			loop()
			r.Close()
		})
		if n > 20 {
			t.Errorf("%s: %v allocations for %d chunks", name, n, chunks)
		}
	}
}
