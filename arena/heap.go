package arena

import (
	"crypto/cipher"
	"fmt"
	"slices"
)

// Heap is a Buffer that allocates each frame on the heap. The zero value is ready to use.
type Heap struct {
	frame
}

// Writable makes the frame n bytes longer and returns those bytes as a slice that is never nil. The
// slice is valid until the next call to Writable, Write, Seal, Truncate or Take.
func (h *Heap) Writable(n int) []byte {
	if uint(n) > uint(h.limit-h.end) {
		h.grow(n)
	}
	if h.mem == nil {
		return []byte{}
	}
	from := h.end
	h.end += n
	return h.mem[from:h.end:h.end]
}

// grow moves the frame to the heap. The new memory has room for n more bytes, and for at least
// twice the frame's length.
func (f *frame) grow(n int) {
	if n < 0 {
		panic(fmt.Sprintf("arena: Writable(%d)", n))
	}
	mem := slices.Grow(f.mem[f.begin:f.end:f.end], max(n, f.Len()))
	mem = mem[:cap(mem)]
	f.mem, f.begin, f.end, f.limit = mem, 0, f.Len(), len(mem)
}

// Write appends a copy of p to the frame, and returns len(p) and nil. It borrows p, which may be a
// part of the frame.
func (h *Heap) Write(p []byte) (int, error) { return copy(h.Writable(len(p)), p), nil }

// Seal encrypts the frame in place, from the position that SetStart sets, and appends the AEAD's
// tag. It borrows nonce and additionalData, which may lie in the frame before that position. It
// always returns nil.
func (h *Heap) Seal(aead cipher.AEAD, nonce, additionalData []byte) error {
	h.Writable(sealRoom(aead))
	h.seal(aead, nonce, additionalData)
	return nil
}

// Take returns the frame that has been written, as a Slice that the caller owns and releases. The
// next write begins a new frame. If nothing was written, the Slice is empty.
func (h *Heap) Take() Slice {
	s := onHeap(h.mem[h.begin:h.end:h.end])
	h.frame = frame{}
	return s
}

// Droppable always returns true, because each Slice has its own memory.
func (h *Heap) Droppable() bool { return true }
