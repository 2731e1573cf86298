package arena_test

import (
	"bytes"
	"crypto/cipher"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// shortTag returns an AES-GCM with a tag of so many bytes, less than 16.
func shortTag(size int) cipher.AEAD { return roomyGCM{must(cipher.NewGCMWithTagSize(block, size))} }

// roomyGCM is an AES-GCM that writes as if its tag had 16 bytes, as that of Go 1.26 does (golang.org/issue/80288). Where
// that would be somebody else's memory, it panics instead.
type roomyGCM struct{ cipher.AEAD }

func (a roomyGCM) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	most := len(plaintext) + 16
	if len(plaintext) > 0 && cap(dst)-len(dst) < most {
		if cap(dst) > len(dst) && &dst[:cap(dst)][len(dst)] == &plaintext[0] {
			panic(fmt.Sprintf("%d bytes are sealed in place with room for %d, want 16", len(plaintext), cap(dst)-len(plaintext)))
		}
		dst = slices.Grow(dst, most)
	}
	return a.AEAD.Seal(dst, nonce, plaintext, additionalData)
}

// Whatever memory there is for the frame, Seal has room for 16 bytes behind it: 52 bytes and a tag of 12, say, are just
// what the allocator gives.
func TestSealWithAShortTagHasRoom(t *testing.T) {
	for size := 12; size < 16; size++ {
		aead := shortTag(size)
		nonce := make([]byte, aead.NonceSize())
		for n := 1; n <= 200; n++ {
			for _, b := range []arena.Buffer{new(arena.Heap), arena.NewPool(0), arena.NewPool(n + size), arena.NewPool(n + 16)} {
				b.Writable(n)
				b.SetStart(min(3, n))
				if err := b.Seal(aead, nonce, nil); err != nil || b.Len() != n+size {
					t.Fatalf("%T: %d bytes and a tag of %d: sealed to %d, %v", b, n, size, b.Len(), err)
				}
				if err := b.Open(aead, nonce, nil); err != nil || !bytes.Equal(b.Data(n), make([]byte, n)) {
					t.Fatalf("%T: %d bytes and a tag of %d: opened to %x, %v", b, n, size, b.Data(n), err)
				}
			}
		}
	}
}

// Open needs no such room: it writes nothing behind the frame, whether the tag is right or not.
func TestOpenOfAShortTagWritesNothingBehind(t *testing.T) {
	behind := bytes.Repeat([]byte{0xff}, 16)
	for size := 12; size < 16; size++ {
		aead := shortTag(size)
		nonce := make([]byte, aead.NonceSize())
		for n := 1; n <= 200; n++ {
			sealed := aead.Seal(nil, nonce, make([]byte, n), nil)
			pool := arena.NewPool(len(sealed) + len(behind))
			held := take(pool, len(sealed), len(behind))
			copy(held[1].Bytes(), behind)
			held[0].Release()
			pool.Write(sealed)
			if pool.Mode() != arena.Front {
				t.Fatal("nothing is behind the frame")
			}
			if err := pool.Open(aead, nonce, nil); err != nil {
				t.Fatal(err)
			}
			pool.Truncate(0)
			sealed[n] ^= 1
			pool.Write(sealed)
			if err := pool.Open(aead, nonce, nil); err == nil {
				t.Fatal("opened with a wrong tag")
			}
			if !bytes.Equal(held[1].Bytes(), behind) {
				t.Fatalf("%d bytes and a tag of %d: what is behind became %x", n, size, held[1].Bytes())
			}
		}
	}
}
