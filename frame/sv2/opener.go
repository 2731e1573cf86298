package sv2

import (
	"crypto/cipher"
	"fmt"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

// TagError reports that a header or a chunk was encrypted with another key, was changed, or is out
// of order. It ends the stream.
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

// An Opener reads encrypted frames. It belongs to one goroutine at a time, and must be the only
// user of its key in this direction.
type Opener struct {
	f sealedFormat
	d *frame.Decoder
}

// NewOpener returns an Opener of the frames in r. The key of aead must not have been used before.
// An Opener has the options of a frame.Decoder. Their kinds come from [Header.Kind], and their
// limits are sizes of plain text. The Opener borrows r while it is used; there is nothing to close.
// NewOpener panics unless aead has nonces of 12 bytes and an overhead of 16.
func NewOpener(r *millrace.Reader, aead cipher.AEAD, opts ...frame.Option) *Opener {
	o := &Opener{f: sealedFormat{state: newCipherState(aead)}}
	o.d = frame.NewDecoder(r, &o.f, opts...)
	return o
}

// NextInto reads the next frame into buf, decrypts it in place, and takes it from buf as a Slice,
// which the caller owns and releases. The Slice is contiguous: the HeaderSize bytes of the plain
// header, and then the payload. If buf is not empty, its bytes come before the frame. NextInto
// allocates memory as bytes arrive.
//
// Errors are as for frame.Decoder.NextInto, and also *TagError and ErrNonces. If NextInto returns
// an error, buf is unchanged.
func (o *Opener) NextInto(buf arena.Buffer) (arena.Slice, Header, error) {
	s, f, err := o.d.NextInto(buf)
	return s, HeaderOf(f), err
}

// sealedFormat implements frame.Sealed for one direction of a connection.
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

// decrypt decrypts p and appends the plain text to dst.
func (f *sealedFormat) decrypt(dst, p []byte, part frame.Part) ([]byte, error) {
	if !f.state.left(1) {
		return nil, ErrNonces
	}
	nonce := f.state.n
	plain, err := f.state.aead.Open(dst, f.state.nonce(), p, nil)
	if err != nil {
		return nil, &TagError{Part: part, Nonce: nonce, Err: err}
	}
	return plain, nil
}
