package arena_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// A Heap is compared with a slice of bytes.
func TestHeapAgainstBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range rounds(500) {
		var h arena.Heap
		var frame []byte
		var start int
		var held []lent
		for range 50 {
			switch n := rng.IntN(300); rng.IntN(7) {
			case 0, 1:
				p := h.Writable(n)
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
				if len(p) != n || cap(p) != n || p == nil {
					t.Fatalf("Writable(%d) has %d bytes and room for %d", n, len(p), cap(p))
				}
				frame = append(frame, p...)
			case 2:
				p := bytes.Repeat([]byte{byte(n)}, n)
				if got, err := h.Write(p); got != n || err != nil {
					t.Fatalf("Write(%d bytes) = %d, %v", n, got, err)
				}
				frame = append(frame, p...)
			case 3:
				n = rng.IntN(len(frame) + 1)
				h.Truncate(n)
				frame, start = frame[:n], min(start, n)
			case 4:
				start = rng.IntN(len(frame) + 1)
				h.SetStart(start)
			case 5:
				aead := aeads[n%len(aeads)].aead
				nonce := make([]byte, aead.NonceSize())
				if err := h.Seal(aead, nonce, h.Data(start)); err != nil {
					t.Fatal(err)
				}
				sealed := bytes.Clone(h.Data(1 << 20))
				if p, err := aead.Open(nil, nonce, sealed[start:], frame[:start]); !bytes.Equal(p,
					frame[start:]) {
					t.Fatalf("the AEAD opens what was sealed to %x, %v, want %x", p, err,
						frame[start:])
				}
				if frame = sealed; n < 150 {
					break
				}
				plain, _ := aead.Open(nil, nonce, sealed[start:], frame[:start])
				if err := h.Open(aead, nonce, h.Data(start)); err != nil {
					t.Fatal(err)
				}
				frame = append(frame[:start:start], plain...)
			case 6:
				held = append(held, lent{slice: h.Take(), want: frame})
				frame, start = nil, 0
			}
			if err := arena.BrokenHeap(&h); err != nil {
				t.Fatal(err)
			}
			if h.Len() != len(frame) || !bytes.Equal(h.Data(len(frame)+1), frame) ||
				!h.Droppable() {
				t.Fatalf("the frame is %x, want %x; Droppable %t", h.Data(1<<20), frame,
					h.Droppable())
			}
			for i := range held {
				if p := held[i].slice.Bytes(); !bytes.Equal(p, held[i].want) || cap(p) != len(p) {
					t.Fatalf("Slice %d is %x, want %x", i, p, held[i].want)
				}
			}
		}
		for i := range held {
			held[i].slice.Release()
		}
	}
}
