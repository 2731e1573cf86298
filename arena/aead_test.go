package arena_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var block = must(aes.NewCipher([]byte("sixteen byte key")))

// aeads include every way in which Seal changes the length: by a tag, by a nonce before and a tag
// after, not at all, and by less than Overhead.
var aeads = []struct {
	name string
	aead cipher.AEAD
	tag  int // length of the tag, or more
}{
	{"AES-GCM", must(cipher.NewGCM(block)), 16},
	{"AES-GCM with a random nonce", must(cipher.NewGCMWithRandomNonce(block)), 28},
	{"AES-GCM with a tag of 12 bytes", shortTag(12), 12},
	{"toy, 33 bytes", toy{overhead: 33}, 33},
	{"toy, 1 byte", toy{overhead: 1}, 1},
	{"toy, nothing", toy{}, 0},
	{"toy, 4 of 9 bytes", toy{overhead: 9, unused: 5}, 4},
}

// An empty frame can be sealed. Opening without a frame fails. If an AEAD refuses a frame because
// the nonce is too short, the frame keeps its length. The next frame starts at 0.
func TestSealOfNothing(t *testing.T) {
	gcm := aeads[0].aead
	nonce := make([]byte, gcm.NonceSize())
	for _, b := range []arena.Buffer{arena.NewPool(100), arena.NewPool(0), new(arena.Heap)} {
		if err := b.Open(gcm, nonce, nil); err == nil || b.Len() != 0 {
			t.Errorf("%T: opened nothing to %d bytes, %v", b, b.Len(), err)
		}
		for _, plain := range []string{"", "abc"} {
			b.Write([]byte(plain))
			if panicText(func() { b.Seal(gcm, []byte("short"), nil) }) == "" ||
				string(b.Data(100)) != plain {
				t.Errorf("%T: no panic, or the frame is %q, want %q", b, b.Data(100), plain)
			}
			if err := b.Seal(gcm, nonce, nil); err != nil {
				t.Fatal(err)
			}
			if want := gcm.Seal(nil, nonce, []byte(plain), nil); !bytes.Equal(b.Data(100), want) {
				t.Errorf("%T: %x, want %x", b, b.Data(100), want)
			}
			if err := b.Open(gcm, nonce, nil); err != nil || string(b.Data(100)) != plain {
				t.Errorf("%T: opened to %q, %v", b, b.Data(100), err)
			}
			b.SetStart(b.Len())
			s := b.Take()
			s.Release()
		}
	}
}

// shortTag returns an AES-GCM with a tag of size bytes, less than 16.
func shortTag(size int) cipher.AEAD { return roomyGCM{must(cipher.NewGCMWithTagSize(block, size))} }

// roomyGCM is an AES-GCM that writes as if its tag had 16 bytes, as that of Go 1.26 does
// (golang.org/issue/80288). If those bytes belonged to another owner, it panics.
type roomyGCM struct{ cipher.AEAD }

func (a roomyGCM) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	most := len(plaintext) + 16
	if len(plaintext) > 0 && cap(dst)-len(dst) < most {
		if cap(dst) > len(dst) && &dst[:cap(dst)][len(dst)] == &plaintext[0] {
			panic(fmt.Sprintf("%d bytes are sealed in place with room for %d, want 16",
				len(plaintext), cap(dst)-len(plaintext)))
		}
		dst = slices.Grow(dst, most)
	}
	return a.AEAD.Seal(dst, nonce, plaintext, additionalData)
}

// Seal has room for 16 bytes after the frame, even if the allocator returns exactly the frame and a
// tag of 12 bytes.
func TestSealWithAShortTagHasRoom(t *testing.T) {
	for size := 12; size < 16; size++ {
		aead := shortTag(size)
		nonce := make([]byte, aead.NonceSize())
		for n := 1; n <= 200; n++ {
			for _, b := range []arena.Buffer{new(arena.Heap), arena.NewPool(0),
				arena.NewPool(n + size), arena.NewPool(n + 16)} {
				b.Writable(n)
				b.SetStart(min(3, n))
				if err := b.Seal(aead, nonce, nil); err != nil || b.Len() != n+size {
					t.Fatalf("%T: %d bytes and a tag of %d: sealed to %d, %v", b, n, size, b.Len(),
						err)
				}
				if err := b.Open(aead, nonce, nil); err != nil ||
					!bytes.Equal(b.Data(n), make([]byte, n)) {
					t.Fatalf("%T: %d bytes and a tag of %d: opened to %x, %v", b, n, size,
						b.Data(n), err)
				}
			}
		}
	}
}

var errForged = errors.New("forged")

// A toy is an AEAD without secrecy. Its checksum has the given size, and it may use less.
type toy struct {
	overhead int
	unused   int
}

func (a toy) NonceSize() int { return 1 }
func (a toy) Overhead() int  { return a.overhead }

func (a toy) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	from := len(dst)
	dst = append(dst, plaintext...)
	for i := range dst[from:] {
		dst[from+i] ^= nonce[0] + byte(i)
	}
	return append(dst, a.tag(nonce, dst[from:], additionalData)...)
}

func (a toy) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	n := len(ciphertext) - (a.overhead - a.unused)
	if n < 0 || !bytes.Equal(ciphertext[n:], a.tag(nonce, ciphertext[:n], additionalData)) {
		return nil, errForged
	}
	from := len(dst)
	dst = append(dst, ciphertext[:n]...)
	for i := range dst[from:] {
		dst[from+i] ^= nonce[0] + byte(i)
	}
	return dst, nil
}

func (a toy) tag(nonce, ciphertext, additionalData []byte) []byte {
	sum := uint64(len(ciphertext))
	for _, p := range [][]byte{nonce, additionalData, ciphertext} {
		for _, b := range p {
			sum = (sum ^ uint64(b)) * 1099511628211
		}
	}
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, sum),
		1+a.overhead/8)[:a.overhead-a.unused]
}
