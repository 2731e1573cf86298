package arena

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
)

// ErrFull is returned by [Pool.Write] and [Pool.Seal] if the Pool has the option [NoHeap] and its
// memory has no room for the frame.
var ErrFull = errors.New("arena: no room for the frame, and the Pool has NoHeap")

// A Buffer assembles one contiguous frame at a time and returns it as a Slice. Only one goroutine
// at a time may use a Buffer. The Slices that it returns may be used on any goroutine.
//
// The byte slices from Writable and Data are the frame's memory, which moves when the frame grows.
// They are valid until the next call to Writable, Write, Seal, Truncate or Take.
type Buffer interface {
	// Writable makes the frame n bytes longer and returns those bytes. Their content is undefined.
	// If there is no room, Writable returns nil and does not change the frame. Writable(0) returns
	// an empty slice that is not nil.
	Writable(n int) []byte
	// Take returns the frame that has been written, as a Slice that the caller owns and releases.
	// The next write begins a new frame. If nothing was written, the Slice is empty.
	Take() Slice
	// Data returns the first n bytes of the frame, or the whole frame if it is shorter.
	Data(n int) []byte
	// Len returns the length of the frame in bytes.
	Len() int
	// Truncate shortens the frame to n bytes. It panics if the frame is shorter than n bytes.
	Truncate(n int)
	// SetStart makes Seal and Open begin at byte i of the frame, so that the first i bytes, such as
	// a header, are not encrypted. In a new frame, Seal and Open begin at byte 0. SetStart panics
	// if the frame is shorter than i bytes.
	SetStart(i int)
	// Seal encrypts the frame in place, from the position that SetStart sets, and appends the
	// AEAD's tag. It borrows nonce and additionalData, which may lie in the frame before that
	// position.
	//
	// Seal needs room for a tag of at least 16 bytes, even if the AEAD's tag is shorter. If there
	// is no room, Seal returns ErrFull and does not change the frame.
	Seal(aead cipher.AEAD, nonce, additionalData []byte) error
	// Open decrypts the frame in place, from the position that SetStart sets, and removes the
	// AEAD's tag. It borrows nonce and additionalData, which may lie in the frame before that
	// position. If the AEAD returns an error, Open returns the error and truncates the frame to
	// that position.
	Open(aead cipher.AEAD, nonce, additionalData []byte) error
	// Droppable reports whether all Slices in the Buffer's memory have been released.
	Droppable() bool
	// Write appends a copy of p to the frame. It borrows p, which may lie in the frame. If there is
	// no room, Write appends nothing and returns ErrFull.
	io.Writer
}

var (
	_ Buffer = (*Pool)(nil)
	_ Buffer = (*Heap)(nil)
)

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

// Data returns the first n bytes of the frame, or the whole frame if it is shorter. The bytes are
// valid until the next call to Writable, Write, Seal, Truncate or Take.
func (f *frame) Data(n int) []byte {
	end := f.begin + min(n, f.Len())
	return f.mem[f.begin:end:end]
}

// Truncate shortens the frame to n bytes. It panics if the frame is shorter than n bytes.
func (f *frame) Truncate(n int) {
	if n < 0 || n > f.Len() {
		panic(fmt.Sprintf("arena: Truncate(%d) of a frame of %d bytes", n, f.Len()))
	}
	f.end = f.begin + n
	f.start = min(f.start, n)
}

// SetStart makes Seal and Open begin at byte i of the frame, so that the first i bytes, such as a
// header, are not encrypted. In a new frame, Seal and Open begin at byte 0. SetStart panics if the
// frame is shorter than i bytes.
func (f *frame) SetStart(i int) {
	if i < 0 || i > f.Len() {
		panic(fmt.Sprintf("arena: SetStart(%d) in a frame of %d bytes", i, f.Len()))
	}
	f.start = i
}

// body returns the part of the frame that Seal and Open process. Its capacity extends to f.limit.
func (f *frame) body() []byte { return f.mem[f.begin+f.start : f.end : f.limit] }

// Open decrypts the frame in place, from the position that SetStart sets, and removes the AEAD's
// tag. It borrows nonce and additionalData, which may lie in the frame before that position. If the
// AEAD returns an error, Open returns the error and truncates the frame to that position.
func (f *frame) Open(aead cipher.AEAD, nonce, additionalData []byte) error {
	body := f.body()
	plain, err := aead.Open(body[:0], nonce, body, additionalData)
	f.end = f.begin + f.start + len(plain)
	return err
}

// seal implements Seal. The caller must first append sealRoom(aead) bytes to the frame, as room for
// the tag. If the AEAD panics, the frame no longer has these bytes.
func (f *frame) seal(aead cipher.AEAD, nonce, additionalData []byte) {
	f.end -= sealRoom(aead)
	plain := f.body()
	f.end = f.begin + f.start + len(aead.Seal(plain[:0], nonce, plain, additionalData))
}

// minTagRoom is the minimum room for a tag, in bytes. AES-GCM may write 16 bytes, even if its tag
// is shorter (golang/go#80288).
const minTagRoom = 16

func sealRoom(aead cipher.AEAD) int {
	if n := aead.Overhead(); n > 0 {
		return max(n, minTagRoom)
	}
	return 0
}
