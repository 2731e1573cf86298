package stackbuf

import "bytes"

const (
	// inlineSize is the number of bytes that fit into the Buffer value. It makes a Buffer 112 bytes
	// long. This is a size class of the allocator, so new(Buffer) wastes no memory.
	inlineSize = 64

	// MinRead is the minimum length of the slice that ReadFrom passes to a source's Read.
	MinRead = bytes.MinRead
)

const maxInt = int(^uint(0) >> 1)

// ErrTooLarge is passed to panic if memory runs out. It is [bytes.ErrTooLarge].
var ErrTooLarge = bytes.ErrTooLarge

// A Buffer is a variable-sized buffer of bytes. It has all of [bytes.Buffer]'s methods with the
// same meaning, results, errors and panics, except for two differences. Cap and Available return
// different numbers, because the first 64 bytes lie in the Buffer itself. Slices of an empty Buffer
// are not nil. The zero value is an empty buffer ready to use.
//
// If a Buffer needs more than the 64 bytes in its value, its contents move to the heap, and stay
// there even when they become shorter. Shrink moves contents of up to 64 bytes back into the value.
// The contents of a Buffer from NewBuffer begin outside the value, too, in the slice that was
// passed to NewBuffer.
//
// If the contents lie in the Buffer value, a copy of the Buffer is independent of the original. If
// the contents are on the heap, the copies share the memory, like copies of a bytes.Buffer. Only
// one of the copies may then be changed, and after the change the contents of the other copies are
// undefined.
//
// A Buffer is for one goroutine at a time. The slices that it returns are the Buffer's memory and
// valid until the next call that changes the Buffer. A caller that needs the bytes for longer must
// copy them.
type Buffer struct {
	// The contents are in the slice spill. If spill is nil, they are in the array inline. r is the
	// index of the first byte of the contents, and w is the index after the last byte.
	//
	// Invariants:
	//
	//	0 ≤ r ≤ w
	//	spill == nil: w ≤ len(inline), and the contents are inline[r:w]
	//	spill != nil: w ≤ len(spill) = cap(spill), and the contents are spill[r:w]
	//	no field ever points into inline
	spill    []byte
	r, w     int
	lastRead lastRead
	inline   [inlineSize]byte
}

// lastRead says what the last operation has read, for UnreadByte and UnreadRune. A positive value
// is the length of a rune that ReadRune has returned.
type lastRead int8

const (
	nothing  lastRead = 0  // no byte, so UnreadByte and UnreadRune return an error
	lastByte lastRead = -1 // at least one byte, but not with ReadRune
)

// NewBuffer returns a Buffer with the contents buf, and takes ownership of buf. Writes that fit
// into the capacity of buf do not allocate.
func NewBuffer(buf []byte) *Buffer { return &Buffer{spill: buf[:cap(buf)], w: len(buf)} }

// NewBufferString returns a Buffer whose contents are a copy of s.
func NewBufferString(s string) *Buffer {
	b := new(Buffer)
	if len(s) <= inlineSize {
		b.w = copy(b.inline[:], s)
	} else {
		b.setMemory([]byte(s))
	}
	return b
}

// Bytes returns the contents without a copy: a change of the slice changes the contents. The slice
// is valid until the next call that changes b. Its capacity is Len plus Available.
func (b *Buffer) Bytes() []byte {
	if b.spill == nil {
		return b.inline[b.r:b.w]
	}
	return b.spill[b.r:b.w]
}

// AvailableBuffer returns an empty slice with a capacity of Available bytes. The caller may append
// to the slice and pass the result to the next Write, which then copies nothing. The slice is valid
// until that Write.
func (b *Buffer) AvailableBuffer() []byte {
	if b.spill == nil {
		return b.inline[b.w:b.w]
	}
	return b.spill[b.w:b.w]
}

// String returns a copy of the contents. For a nil *Buffer it returns "<nil>".
func (b *Buffer) String() string {
	if b == nil {
		return "<nil>"
	}
	if b.r == b.w {
		return "" // this comparison is cheaper than the conversion
	}
	if b.spill == nil {
		return string(b.inline[b.r:b.w])
	}
	return string(b.spill[b.r:b.w])
}

// Len returns the number of bytes that can be read.
func (b *Buffer) Len() int { return b.w - b.r }

// Cap returns the size in bytes of the memory that holds the contents. For contents in the Buffer
// value, Cap returns 64.
func (b *Buffer) Cap() int {
	if b.spill == nil {
		return inlineSize
	}
	return len(b.spill)
}

// Available returns the number of bytes that can be written without moving or allocating anything.
func (b *Buffer) Available() int { return b.Cap() - b.w }

// Reset empties b and keeps its memory for the next use, as bytes.Buffer does. [Buffer.Shrink]
// frees that memory.
func (b *Buffer) Reset() {
	b.r, b.w = 0, 0
	b.lastRead = nothing
}

// Truncate drops all but the first n bytes of the contents and keeps the memory. It panics if n is
// negative or more than Len.
func (b *Buffer) Truncate(n int) {
	if n == 0 {
		b.Reset()
		return
	}
	b.lastRead = nothing
	if n < 0 || n > b.Len() {
		panic("stackbuf.Buffer: truncation out of range")
	}
	b.w = b.r + n
}

// Shrink frees memory that the contents do not need. Contents of up to 64 bytes move into the
// Buffer value. Longer contents move to smaller memory, if that saves at least 64 bytes and at
// least an eighth.
//
// Shrink copies the contents, so call it when a reused Buffer is empty. Slices that b returned
// earlier keep their contents, but b no longer uses their memory.
func (b *Buffer) Shrink() {
	old := b.Bytes()
	switch {
	case b.spill == nil:
	case len(old) <= inlineSize:
		b.w = copy(b.inline[:], old)
		b.spill, b.r = nil, 0
		b.lastRead = nothing
	case len(b.spill)-len(old) >= max(inlineSize, len(b.spill)/8):
		// Saving less would not pay, because size classes are up to an eighth apart.
		b.setMemory(append([]byte(nil), old...))
	}
}

// Grow makes room for n more bytes, which can then be written without allocating. It panics if n is
// negative, and panics with ErrTooLarge if there is not enough memory.
func (b *Buffer) Grow(n int) {
	if n < 0 {
		panic("stackbuf.Buffer.Grow: negative count")
	}
	b.makeRoom(n)
}

// setMemory makes mem the contents of b, and the spare capacity of mem the free memory.
func (b *Buffer) setMemory(mem []byte) {
	b.spill, b.r, b.w = mem[:cap(mem)], 0, len(mem)
	b.lastRead = nothing
}

func (b *Buffer) makeRoom(n int) {
	if b.r == b.w && b.r != 0 {
		b.Reset()
	}
	held, size := b.Len(), b.Cap()
	switch {
	case n <= size-b.w:
	case n <= inlineSize-held && size <= inlineSize:
		// The contents fit into the array. Move them to its start, or move them there from a short
		// slice that NewBuffer was given.
		b.w = copy(b.inline[:], b.Bytes())
		b.r, b.spill = 0, nil
	case b.canMoveDown(n):
		b.w = copy(b.spill, b.spill[b.r:b.w])
		b.r = 0
	default:
		b.enlarge(n)
	}
}

// canMoveDown reports whether the contents and n more bytes fill at most half of the heap memory.
// If so, makeRoom moves the contents to the start of the memory. With a higher limit, makeRoom
// would move the contents too often.
func (b *Buffer) canMoveDown(n int) bool { return b.spill != nil && n <= b.Cap()/2-b.Len() }

// enlarge moves the contents to larger memory with room for n more bytes. It panics with
// ErrTooLarge if the memory would be too large.
func (b *Buffer) enlarge(n int) {
	if n > maxInt-b.Len() {
		panic(ErrTooLarge)
	}
	b.moveTo(max(b.Len()+n, b.doubleCap()))
}

// doubleCap returns twice the capacity of the Buffer, or 0 if the Buffer is unused. It panics with
// ErrTooLarge if the result would be too large.
func (b *Buffer) doubleCap() int {
	size := b.Cap()
	if b.spill == nil && b.w == 0 {
		return 0 // the Buffer is unused: a large first write sets the size
	}
	if size > maxInt/2 {
		panic(ErrTooLarge)
	}
	return 2 * size
}

// moveTo moves the contents to new memory of at least size bytes, into which they must fit.
func (b *Buffer) moveTo(size int) {
	mem := allocate(size)
	b.w = copy(mem, b.Bytes())
	b.spill, b.r = mem, 0
}

// allocate returns a slice of at least n bytes, rounded up to the allocator's size class.
func allocate(n int) []byte {
	defer func() {
		if recover() != nil {
			panic(ErrTooLarge)
		}
	}()
	mem := append([]byte(nil), make([]byte, n)...)
	return mem[:cap(mem)]
}
