package sv2

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	// TagSize is how many bytes encryption adds to a header or chunk.
	TagSize = 16

	// EncryptedHeaderSize is the size of a header as it is sent when it is encrypted.
	EncryptedHeaderSize = HeaderSize + TagSize

	// ChunkSize is the largest chunk of a payload as it is sent, which is the largest message that the Noise Protocol
	// Framework allows; PlainChunkSize is what it carries. All chunks but the last are as large as that.
	ChunkSize      = 65535
	PlainChunkSize = ChunkSize - TagSize

	// Act1Size is the size of the initiator's message of the handshake: its ephemeral key as ElligatorSwift encodes it.
	Act1Size = keySize

	// Act2Size is the size of the responder's message: its ephemeral key (64 bytes), its static key encrypted (64 + 16),
	// and its certificate encrypted (74 + 16).
	Act2Size = keySize + (keySize + TagSize) + (certificateSize + TagSize)

	keySize         = 64
	certificateSize = 74 // version (2), valid from (4), not valid after (4), signature (64)
)

// EncryptedLen returns the size of a payload of n bytes as it is sent when it is encrypted: n, and TagSize for each chunk.
// An empty payload has no chunk.
func EncryptedLen(n int) int { return n + chunks(n)*TagSize }

// PlainLen is the inverse of EncryptedLen. It reports false if there is no payload that is sent in n bytes.
func PlainLen(n int) (int, bool) {
	last := n % ChunkSize
	if n < 0 || 0 < last && last <= TagSize {
		return 0, false
	}
	return n - (n+ChunkSize-1)/ChunkSize*TagSize, true
}

func chunks(n int) int { return (n + PlainChunkSize - 1) / PlainChunkSize }

// ErrNonces says that a key has been used as often as Noise allows, 2⁶⁴-1 times. It is final: there must be a new handshake.
var ErrNonces = errors.New("sv2: the key has been used 2⁶⁴-1 times")

// A cipherState is a key and the number of times it has been used, the CipherState of the Noise Protocol Framework (section
// 5.1) without associated data. The nonce is that number: four bytes 0 and eight bytes little-endian (section 12, for
// ChaChaPoly).
type cipherState struct {
	aead  cipher.AEAD
	n     uint64 // calls so far; MaxUint64 is reserved
	bytes [12]byte
}

func newCipherState(aead cipher.AEAD) cipherState {
	if aead.NonceSize() != len(cipherState{}.bytes) || aead.Overhead() != TagSize {
		panic(fmt.Sprintf("sv2: AEAD with nonces of %d bytes and %d bytes of overhead, want %d and %d",
			aead.NonceSize(), aead.Overhead(), len(cipherState{}.bytes), TagSize))
	}
	return cipherState{aead: aead}
}

// left says whether the key may be used so many more times.
func (c *cipherState) left(calls int) bool { return uint64(calls) <= math.MaxUint64-c.n }

// nonce returns the nonce of the next call, valid until the one after it.
func (c *cipherState) nonce() []byte {
	binary.LittleEndian.PutUint64(c.bytes[4:], c.n)
	c.n++
	return c.bytes[:]
}
