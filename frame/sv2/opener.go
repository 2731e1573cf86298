package sv2

import (
	"crypto/cipher"
	"fmt"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

// TagError reports that a header or a chunk was encrypted with another key, was changed, or is out
// of order. This error ends the stream.
type TagError struct {
	Part  frame.Part
	Nonce uint64 // number of earlier uses of the key
	Err   error  // the AEAD's error
}

func (e *TagError) Error() string {
	return fmt.Sprintf("sv2: encrypted %v with nonce %d: %v", e.Part, e.Nonce, e.Err)
}

// Unwrap returns the AEAD's error.
func (e *TagError) Unwrap() error { return e.Err }

// An Opener decrypts the frames of one direction of a connection. It must be the only user of its
// key for this direction. An Opener belongs to one goroutine at a time.
type Opener struct {
	f sealedFormat
	d *frame.Decoder
}

// NewOpener returns an Opener that reads frames from r. The key of aead must not have been used
// before. NewOpener panics unless aead has nonces of 12 bytes and an overhead of 16.
//
// The Opener borrows r until the last use of the Opener. There is nothing to close.
//
// The options frame.MaxPayload and frame.MaxKind limit the decrypted payload. To get the kind that
// frame.MaxKind expects, call [Header.Kind].
func NewOpener(r *millrace.Reader, aead cipher.AEAD, opts ...frame.Option) *Opener {
	o := &Opener{f: sealedFormat{state: newCipherState(aead)}}
	o.d = frame.NewDecoder(r, &o.f, opts...)
	return o
}

// NextInto reads the next frame into buf, decrypts it in place, and returns it as a Slice, which
// the caller owns and releases. The frame is contiguous: HeaderSize bytes of decrypted header, and
// then the decrypted payload. If buf already has bytes, they come before the frame in the Slice.
// NextInto allocates memory only as bytes arrive.
//
// The error is:
//
//   - io.EOF, if the stream ends between two frames
//   - io.ErrUnexpectedEOF, if the stream ends inside a frame
//   - arena.ErrFull, if buf has no room
//   - a *TagError, if the AEAD cannot decrypt the header or a chunk
//   - ErrNonces, if the key has been used too often
//   - any other error that frame.Decoder describes, such as a *frame.LimitError
//
// After an error, buf is unchanged.
//
// NextInto waits until a frame arrives, and needs buf during the wait. To share one Buffer among
// many connections, first call the Reader's Peek(1), which waits without a Buffer. Then call
// NextInto with the shared Buffer. See the example Idle.
func (o *Opener) NextInto(buf arena.Buffer) (arena.Slice, Header, error) {
	s, f, err := o.d.NextInto(buf)
	return s, HeaderOf(f), err
}

// sealedFormat implements frame.Sealed. It decrypts the frames that an Opener reads.
type sealedFormat struct {
	state  cipherState
	header [HeaderSize]byte
}

func (f *sealedFormat) HeaderSize() int { return encryptedHeaderSize }

func (f *sealedFormat) Parse(p []byte) (frame.Header, error) {
	plain, err := f.decrypt(f.header[:0], p, frame.InHeader)
	if err != nil {
		return frame.Header{}, err
	}
	return Format{}.Parse(plain)
}

func (f *sealedFormat) PlainHeader() []byte { return f.header[:] }

func (f *sealedFormat) ChunkSize(rest int) int { return min(rest, plainChunkSize) + tagSize }

func (f *sealedFormat) Open(chunk []byte) ([]byte, error) {
	return f.decrypt(chunk[:0], chunk, frame.InPayload)
}

func (f *sealedFormat) decrypt(dst, p []byte, part frame.Part) ([]byte, error) {
	if !f.state.hasLeft(1) {
		return nil, ErrNonces
	}
	nonce := f.state.n
	plain, err := f.state.aead.Open(dst, f.state.nextNonce(), p, nil)
	if err != nil {
		return nil, &TagError{Part: part, Nonce: nonce, Err: err}
	}
	return plain, nil
}
