package arena

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
)

// ErrFull is the error of a write if a [Pool] with [NoHeap] has no room for the frame.
var ErrFull = errors.New("arena: no room for the frame, and the Pool has NoHeap")

// A Buffer assembles one frame at a time and hands it over as a Slice. A frame is contiguous, even
// if it is written in several steps. *[Pool] and *[Heap] are Buffers. A Buffer belongs to one
// goroutine at a time. The Slices that it returns may be used on any goroutine.
//
// The byte slices that Writable and Data return are the frame's memory. They are valid until the
// next call of Writable, Write, Seal, Truncate or Take, because a frame that outgrows its place is
// moved.
type Buffer interface {
	// Writable makes the frame n bytes longer and returns those bytes. Their content is undefined.
	// If there is no room, it returns nil and does not change the frame. Writable(0) returns an
	// empty slice that is not nil.
	Writable(n int) []byte
	// Take ends the frame and returns it. The caller owns the Slice and releases it. For an empty
	// frame, the Slice is empty.
	Take() Slice
	// Data returns the first n bytes of the frame, or all of it if there are fewer.
	Data(n int) []byte
	// Len returns the length of the frame in bytes.
	Len() int
	// Truncate shortens the frame to n bytes. It panics if the frame is shorter.
	Truncate(n int)
	// SetStart sets the start for Seal and Open, which leave the first i bytes, such as a header,
	// unchanged. The start is 0 for every new frame. SetStart panics if the frame is shorter than
	// i.
	SetStart(i int)
	// Seal encrypts the frame from its start on, in place, and appends the AEAD's tag. It borrows
	// nonce and additionalData, which may be bytes of the frame before its start. Seal needs room
	// for the tag, and for 16 bytes if the tag is shorter. If there is no such room, it returns
	// ErrFull and leaves the frame unchanged.
	Seal(aead cipher.AEAD, nonce, additionalData []byte) error
	// Open decrypts the frame from its start on, in place, and removes the AEAD's tag. It borrows
	// nonce and additionalData as Seal does. If it returns the AEAD's error, the frame ends at its
	// start.
	Open(aead cipher.AEAD, nonce, additionalData []byte) error
	// Droppable reports whether every Slice of the Buffer's own memory has been released.
	Droppable() bool
	// Write appends a copy of p to the frame. It borrows p, which may be bytes of the frame. It
	// returns ErrFull with nothing written, or nil.
	io.Writer
}

var (
	_ Buffer = (*Pool)(nil)
	_ Buffer = (*Heap)(nil)
)

// A frame is the frame that is currently written.
type frame struct {
	mem        []byte
	begin, end int // the frame is mem[begin:end]
	limit      int // the frame can grow to mem[begin:limit] without being moved
	start      int // Seal and Open begin at mem[begin+start]

	// Invariants:
	//
	//	0 ≤ begin ≤ begin+start ≤ end ≤ limit ≤ len(mem)
	//	between frames: begin = end = limit
}

// Len returns the length of the frame in bytes.
func (f *frame) Len() int { return f.end - f.begin }

// Data returns the first n bytes of the frame, or all of it if there are fewer. They are valid
// until the next call of Writable, Write, Seal, Truncate or Take.
func (f *frame) Data(n int) []byte {
	end := f.begin + min(n, f.Len())
	return f.mem[f.begin:end:end]
}

// Truncate shortens the frame to n bytes. It panics if the frame is shorter.
func (f *frame) Truncate(n int) {
	if n < 0 || n > f.Len() {
		panic(fmt.Sprintf("arena: Truncate(%d) of a frame of %d bytes", n, f.Len()))
	}
	f.end = f.begin + n
	f.start = min(f.start, n)
}

// SetStart sets the start for Seal and Open, which leave the first i bytes unchanged. The start is
// 0 for every new frame. SetStart panics if the frame is shorter than i.
func (f *frame) SetStart(i int) {
	if i < 0 || i > f.Len() {
		panic(fmt.Sprintf("arena: SetStart(%d) in a frame of %d bytes", i, f.Len()))
	}
	f.start = i
}

// body returns the part of the frame that Seal and Open process.
func (f *frame) body() []byte { return f.mem[f.begin+f.start : f.end : f.limit] }

// Open decrypts the frame from its start on, in place, and removes the AEAD's tag. It borrows nonce
// and additionalData, which may be bytes of the frame before its start. If it returns the AEAD's
// error, the frame ends at its start.
func (f *frame) Open(aead cipher.AEAD, nonce, additionalData []byte) error {
	body := f.body()
	plain, err := aead.Open(body[:0], nonce, body, additionalData)
	f.end = f.begin + f.start + len(plain)
	return err
}

// seal encrypts the body. The last sealRoom(aead) bytes of the body are room for the tag, and the
// AEAD may use fewer of them. If the AEAD panics because the nonce is too short, seal removes that
// room from the frame.
func (f *frame) seal(aead cipher.AEAD, nonce, additionalData []byte) {
	f.end -= sealRoom(aead)
	plain := f.body()
	f.end = f.begin + f.start + len(aead.Seal(plain[:0], nonce, plain, additionalData))
}

// minTagRoom is the minimum room, in bytes, after a sealed frame. It is needed because AES-GCM
// writes past a tag of less than 16 bytes when it seals (golang/go#80288). In a Pool, it would
// write into another owner's frame.
const minTagRoom = 16

// sealRoom returns the number of bytes that Seal needs after the frame.
func sealRoom(aead cipher.AEAD) int {
	if n := aead.Overhead(); n > 0 {
		return max(n, minTagRoom)
	}
	return 0
}
