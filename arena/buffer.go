package arena

import (
	"crypto/cipher"
	"errors"
	"io"
)

// ErrFull is the error of a write to a [Pool] that may not fall back to the heap and has no room.
var ErrFull = errors.New("arena: no room for the frame, and HeapFallback is off")

// A Buffer assembles one frame at a time, which is contiguous whatever the steps in which it is written, and hands it
// over. *[Pool] and *[Heap] are Buffers. A Buffer belongs to one goroutine at a time; the Slices that it gives do not.
//
// Slices that Writable and Data return are the frame's memory, lent until the next call of Writable, Write, Seal, Truncate
// or Take: a frame that outgrows its place is moved.
type Buffer interface {
	// Writable makes the frame n bytes longer and returns those, to be written to. They hold what was there before. It
	// returns nil, and the frame is as it was, when the Buffer has no room and may not take any. For no bytes there is
	// always room: what Writable(0) returns is empty, and not nil.
	Writable(n int) []byte
	// Take ends the frame and returns it; the caller owns the Slice, and releases it. The Buffer is empty then. An
	// empty frame is an empty Slice.
	Take() Slice
	// Data returns the first n bytes of the frame, or all of it if there are fewer.
	Data(n int) []byte
	// Len returns the length of the frame, in bytes.
	Len() int
	// Truncate cuts the frame off behind its first n bytes. It panics when the frame has fewer.
	Truncate(n int)
	// SetStart says where Seal and Open begin: the bytes in front, such as a header, are left alone. It is 0 for every
	// new frame. It panics when the frame is not that long.
	SetStart(i int)
	// Seal encrypts the frame from its start on, in place, and makes it longer by the AEAD's overhead. It borrows nonce
	// and additionalData, which may be bytes of the frame in front of its start. It returns ErrFull, and the frame is as
	// it was, when there is no room for the overhead, or for 16 bytes if that is less.
	Seal(aead cipher.AEAD, nonce, additionalData []byte) error
	// Open decrypts the frame from its start on, in place, and makes it shorter by the AEAD's overhead. It borrows nonce
	// and additionalData as Seal does. The error is the AEAD's; after an error, what was to be decrypted is no longer
	// there.
	Open(aead cipher.AEAD, nonce, additionalData []byte) error
	// Droppable says whether every Slice that was taken out of the Buffer's own memory has been released.
	Droppable() bool
	// Write adds a copy of p to the frame. It borrows p, which may be bytes of the frame. The error is ErrFull, with
	// nothing written, or nil.
	io.Writer
}

var (
	_ Buffer = (*Pool)(nil)
	_ Buffer = (*Heap)(nil)
)
