package sv2

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	// tagSize is the number of bytes that encryption adds to a header or chunk.
	tagSize = 16

	encryptedHeaderSize = HeaderSize + tagSize

	// chunkSize is the size of each encrypted chunk of a payload, except the last. It is the
	// largest message that the Noise Protocol Framework allows.
	chunkSize      = 65535
	plainChunkSize = chunkSize - tagSize

	// Act1Size is the size in bytes of the initiator's message in the handshake: the initiator's
	// ephemeral key in the ElligatorSwift encoding.
	Act1Size = keySize

	// Act2Size is the size in bytes of the responder's message: its ephemeral key (64), encrypted
	// static key (64 + 16) and encrypted certificate (74 + 16).
	Act2Size = keySize + (keySize + tagSize) + (certificateSize + tagSize)

	keySize         = 64
	certificateSize = 74 // version (2), valid from (4), not valid after (4), signature (64)
)

// EncryptedLen returns the encrypted size of a payload of n bytes: 16 bytes more for each chunk of
// up to 65,519 bytes. An empty payload has no chunk.
func EncryptedLen(n int) int { return n + chunks(n)*tagSize }

func chunks(n int) int { return (n + plainChunkSize - 1) / plainChunkSize }

// ErrNonces reports that a key has been used as often as Noise allows, 2⁶⁴-1 times. The connection
// needs a new handshake.
var ErrNonces = errors.New("sv2: the key has been used 2⁶⁴-1 times")

// A cipherState is a key and the number of times that the key has been used. It is the CipherState
// of the Noise Protocol Framework (section 5.1), without associated data. The nonce is four zero
// bytes and the number of uses as eight bytes, little-endian (section 12, for ChaChaPoly).
type cipherState struct {
	aead  cipher.AEAD
	n     uint64 // number of uses so far; MaxUint64 is reserved
	bytes [12]byte
}

func newCipherState(aead cipher.AEAD) cipherState {
	if aead.NonceSize() != len(cipherState{}.bytes) || aead.Overhead() != tagSize {
		panic(fmt.Sprintf(
			"sv2: AEAD with nonces of %d bytes and %d bytes of overhead, want %d and %d",
			aead.NonceSize(), aead.Overhead(), len(cipherState{}.bytes), tagSize))
	}
	return cipherState{aead: aead}
}

// hasLeft reports whether the key may be used n more times.
func (c *cipherState) hasLeft(n int) bool { return uint64(n) <= math.MaxUint64-c.n }

// nextNonce returns the nonce for the next use of the key, and counts that use. The returned slice
// is valid until the next call.
func (c *cipherState) nextNonce() []byte {
	binary.LittleEndian.PutUint64(c.bytes[4:], c.n)
	c.n++
	return c.bytes[:]
}
