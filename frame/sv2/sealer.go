package sv2

import (
	"crypto/cipher"
	"fmt"

	"github.com/millrace-io/millrace/arena"
)

// A Sealer encrypts the frames of one direction of a connection. It must be the only user of its
// key for this direction. A Sealer belongs to one goroutine at a time.
type Sealer struct {
	state cipherState
}

// NewSealer returns a Sealer. The key of aead must not have been used before. NewSealer panics
// unless aead has nonces of 12 bytes and an overhead of 16.
func NewSealer(aead cipher.AEAD) *Sealer { return &Sealer{newCipherState(aead)} }

// Seal builds an encrypted frame in buf and returns it as a Slice, which the caller owns and
// releases. If buf already has bytes, they come before the frame in the Slice, unchanged.
//
// Seal reserves room for the header and calls writePayload, which adds the payload to buf with
// Write or Writable. Then Seal sets h.Length, and encrypts the header and the payload in place.
// writePayload borrows buf and must not call Take.
//
// A payload of up to 65,519 bytes stays where it was written. A longer payload is encrypted in
// several chunks, and Seal moves it once, to make room for the AEAD's tag after each chunk.
//
// If writePayload or [Header.Append] returns an error, Seal returns that error. If buf has no room
// for the encrypted frame, the error is arena.ErrFull. If the key has been used too often, the
// error is ErrNonces. After an error, buf is unchanged and the key has not been used.
//
// To send several frames in one write, copy them to a millrace.Writer. See the example Batch.
func (s *Sealer) Seal(
	buf arena.Buffer, h Header, writePayload func(buf arena.Buffer) error,
) (arena.Slice, error) {
	base := buf.Len()
	if buf.Writable(encryptedHeaderSize) == nil {
		return arena.Slice{}, arena.ErrFull
	}
	err := writePayload(buf)
	h.Length = buf.Len() - base - encryptedHeaderSize
	if h.Length < 0 {
		panic(fmt.Sprintf(
			"sv2: Seal: %d bytes of the header are left after the payload was written",
			encryptedHeaderSize+h.Length))
	}
	if err == nil {
		err = s.seal(buf, base, h)
	}
	if err != nil {
		if buf.Truncate(base); base == 0 {
			_ = buf.Take() // buf is empty: Take frees the memory of the frame
		}
		return arena.Slice{}, err
	}
	return buf.Take(), nil
}

// seal writes the header and encrypts the frame, which starts at offset base in buf.
func (s *Sealer) seal(buf arena.Buffer, base int, h Header) error {
	count := chunks(h.Length)
	if !s.state.hasLeft(1 + count) {
		return ErrNonces
	}
	if count > 0 && buf.Writable(count*tagSize) == nil {
		return arena.ErrFull
	}
	sealed := buf.Data(buf.Len())[base:]
	if _, err := h.Append(sealed[:0]); err != nil {
		return err
	}
	s.encrypt(sealed[:HeaderSize])
	payload := sealed[encryptedHeaderSize:]
	// Move the last chunk first, so that no chunk overwrites another.
	for i := count - 1; i > 0; i-- {
		copy(payload[i*chunkSize:], payload[i*plainChunkSize:min((i+1)*plainChunkSize, h.Length)])
	}
	for left := h.Length; left > 0; left -= plainChunkSize {
		n := min(left, plainChunkSize)
		s.encrypt(payload[:n])
		payload = payload[n+tagSize:]
	}
	return nil
}

func (s *Sealer) encrypt(p []byte) { s.state.aead.Seal(p[:0], s.state.nextNonce(), p, nil) }
