package sv2_test

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"math/big"
	"math/bits"
	"slices"
)

// chacha is ChaCha20-Poly1305 as RFC 8439 describes it: slow and readable. The vectors show that it
// is correct. It must not be used as a cipher, because its time depends on the key.
type chacha struct {
	key [8]uint32
}

var _ cipher.AEAD = chacha{}

var errTag = errors.New("message authentication failed")

func newChacha(key []byte) (c chacha) {
	for i := range c.key {
		c.key[i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	return c
}

func (chacha) NonceSize() int { return 12 }
func (chacha) Overhead() int  { return 16 }

func (c chacha) Seal(dst, nonce, plain, additional []byte) []byte {
	text := c.xor(nonce, plain)
	return append(append(dst, text...), c.tag(nonce, text, additional)...)
}

func (c chacha) Open(dst, nonce, sealed, additional []byte) ([]byte, error) {
	if len(sealed) < 16 {
		return nil, errTag
	}
	text, tag := sealed[:len(sealed)-16], sealed[len(sealed)-16:]
	if subtle.ConstantTimeCompare(tag, c.tag(nonce, text, additional)) == 0 {
		return nil, errTag
	}
	return append(dst, c.xor(nonce, text)...), nil
}

// block is the ChaCha20 block function, section 2.3.
func (c chacha) block(nonce []byte, counter uint32) []byte {
	initial := []uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
	initial = append(append(initial, c.key[:]...), counter)
	for i := range 3 {
		initial = append(initial, binary.LittleEndian.Uint32(nonce[4*i:]))
	}
	s := slices.Clone(initial)
	quarter := func(a, b, c, d int) {
		for _, by := range [][2]int{{16, 12}, {8, 7}} {
			s[a] += s[b]
			s[d] = bits.RotateLeft32(s[d]^s[a], by[0])
			s[c] += s[d]
			s[b] = bits.RotateLeft32(s[b]^s[c], by[1])
		}
	}
	for range 10 {
		for i := range 4 {
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	var out []byte
	for i := range s {
		out = binary.LittleEndian.AppendUint32(out, s[i]+initial[i])
	}
	return out
}

// xor encrypts or decrypts, section 2.4, starting with block 1.
func (c chacha) xor(nonce, p []byte) []byte {
	out := make([]byte, len(p))
	for i := 0; i < len(p); i += 64 {
		subtle.XORBytes(out[i:], p[i:], c.block(nonce, uint32(1+i/64)))
	}
	return out
}

// tag is the Poly1305 tag, section 2.5, of the data of section 2.8, with the key of section 2.6.
func (c chacha) tag(nonce, text, additional []byte) []byte {
	var data []byte
	for _, part := range [][]byte{additional, text} {
		data = append(data, part...)
		data = append(data, make([]byte, (16-len(part)%16)%16)...)
	}
	data = binary.LittleEndian.AppendUint64(data, uint64(len(additional)))
	data = binary.LittleEndian.AppendUint64(data, uint64(len(text)))

	key := c.block(nonce, 0)
	for _, i := range []int{3, 7, 11, 15} {
		key[i] &= 15
	}
	for _, i := range []int{4, 8, 12} {
		key[i] &= 252
	}
	r, s := littleEndian(key[:16]), littleEndian(key[16:32])
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 130), big.NewInt(5))
	sum := new(big.Int)
	for i := 0; i < len(data); i += 16 {
		sum.Add(sum, littleEndian(append(slices.Clone(data[i:i+16]), 1)))
		sum.Mod(sum.Mul(sum, r), prime)
	}
	out := sum.Add(sum, s).FillBytes(make([]byte, 17))[1:]
	slices.Reverse(out)
	return out
}

func littleEndian(p []byte) *big.Int {
	p = slices.Clone(p)
	slices.Reverse(p)
	return new(big.Int).SetBytes(p)
}
