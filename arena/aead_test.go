package arena_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math/rand/v2"
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

// aeads have every way in which a frame can become longer: by a tag, by a nonce in front and a tag behind, not at all,
// and by less than they say.
var aeads = []struct {
	name string
	aead cipher.AEAD
}{
	{"AES-GCM", must(cipher.NewGCM(block))},
	{"AES-GCM with a random nonce", must(cipher.NewGCMWithRandomNonce(block))},
	{"AES-GCM with a tag of 12 bytes", shortTag(12)},
	{"toy, 33 bytes", toy{overhead: 33}},
	{"toy, 1 byte", toy{overhead: 1}},
	{"toy, nothing", toy{}},
	{"toy, 4 of 9 bytes", toy{overhead: 9, unused: 5}},
}

// A setting is a Buffer whose next frame, of a length that is known, goes to a certain place.
type setting struct {
	name string
	mode arena.Mode // when it has been written
	then arena.Mode // when it has grown by the overhead
	make func(n, overhead int) (b arena.Buffer, held []arena.Slice)
}

// makeRoom releases what a frame that is to be moved can be moved to.
func (s setting) makeRoom(held []arena.Slice) {
	if s.name == "moved" || s.name == "moved onto itself" {
		held[len(held)-1].Release()
	}
}

// take takes frames of these lengths.
func take(pool *arena.Pool, lengths ...int) (held []arena.Slice) {
	for _, n := range lengths {
		pool.Writable(n)
		held = append(held, pool.Take())
	}
	return held
}

var settings = []setting{
	{"back", arena.Back, arena.Back, func(n, overhead int) (arena.Buffer, []arena.Slice) {
		pool := arena.NewPool(1 + n + overhead)
		return pool, take(pool, 1)
	}},
	{"front", arena.Front, arena.Front, func(n, overhead int) (arena.Buffer, []arena.Slice) {
		pool := arena.NewPool(n + overhead + 1)
		held := take(pool, n+overhead, 1)
		held[0].Release()
		return pool, held[1:]
	}},
	{"alloc", arena.Alloc, arena.Alloc, func(n, overhead int) (arena.Buffer, []arena.Slice) {
		return arena.NewPool(n - 1), nil
	}},
	{"moved", arena.Front, arena.Back, func(n, overhead int) (arena.Buffer, []arena.Slice) {
		pool := arena.NewPool(n + 1 + n + overhead)
		held := take(pool, n, 1, n+overhead)
		held[0].Release()
		return pool, held[1:]
	}},
	{"moved onto itself", arena.Back, arena.Back, func(n, overhead int) (arena.Buffer, []arena.Slice) {
		pool := arena.NewPool(16 + n + max(overhead-1, 0))
		return pool, take(pool, 16)
	}},
	{"moved to the heap", arena.Back, arena.Alloc, func(n, _ int) (arena.Buffer, []arena.Slice) {
		return arena.NewPool(n), nil
	}},
	{"Heap", arena.Alloc, arena.Alloc, func(int, int) (arena.Buffer, []arena.Slice) { return new(arena.Heap), nil }},
}

func modeOf(b arena.Buffer) arena.Mode {
	if pool, ok := b.(*arena.Pool); ok {
		return pool.Mode()
	}
	return arena.Alloc
}

// A frame is sealed and opened where it is, behind a header that is left alone.
func TestSealAndOpenInPlace(t *testing.T) {
	for _, a := range aeads {
		for _, set := range settings {
			for _, size := range [][2]int{{0, 100}, {6, 1000}, {1, 15}, {10, 0}, {0, 1}} {
				t.Run(fmt.Sprintf("%s/%s/%d+%d", a.name, set.name, size[0], size[1]), func(t *testing.T) {
					header, plain := randomBytes(size[0]), randomBytes(size[1])
					sealAndOpen(t, a.aead, set, header, plain)
				})
			}
		}
	}
}

// A frame that an AEAD does not take is as long as it was.
func TestSealWithABadNonce(t *testing.T) {
	for _, b := range []arena.Buffer{arena.NewPool(100), arena.NewPool(0), new(arena.Heap)} {
		b.Write([]byte("abc"))
		if panicText(func() { b.Seal(aeads[0].aead, []byte("short"), nil) }) == "" {
			t.Errorf("%T: no panic", b)
		}
		if got := string(b.Data(100)); got != "abc" {
			t.Errorf("%T: the frame is %q, want abc", b, got)
		}
	}
}

func randomBytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rand.Uint32())
	}
	return p
}

func sealAndOpen(t *testing.T, aead cipher.AEAD, set setting, header, plain []byte) {
	overhead := aead.Overhead()
	b, held := set.make(len(header)+len(plain), max(overhead, min(16*overhead, 16))) // there is room for 16, or for none
	nonce := randomBytes(aead.NonceSize())
	b.Write(header)
	b.SetStart(len(header))
	b.Write(plain)
	if got := modeOf(b); got != set.mode {
		t.Fatalf("the frame is in %v mode, want %v", got, set.mode)
	}
	set.makeRoom(held)
	if err := b.Seal(aead, nonce, b.Data(len(header))); err != nil { // the header goes where the frame goes
		t.Fatal(err)
	}
	if got := modeOf(b); got != set.then && overhead > 0 {
		t.Errorf("the sealed frame is in %v mode, want %v", got, set.then)
	}
	sealed := bytes.Clone(b.Data(b.Len()))
	if !bytes.Equal(sealed[:len(header)], header) {
		t.Errorf("Seal changed the header from %x to %x", header, sealed[:len(header)])
	}
	if got, err := aead.Open(nil, nonce, sealed[len(header):], header); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("the AEAD opens what was sealed to %d bytes, %v, want %d", len(got), err, len(plain))
	}
	if want := aead.Seal(header, nonce, plain, header); aead.NonceSize() > 0 && !bytes.Equal(sealed, want) {
		t.Errorf("sealed to %d bytes that are not the %d wanted", len(sealed), len(want))
	}
	if err := b.Open(aead, nonce, b.Data(len(header))); err != nil {
		t.Fatal(err)
	}
	if want := append(header, plain...); !bytes.Equal(b.Data(b.Len()), want) {
		t.Errorf("opened to %d bytes that are not the %d wanted", b.Len(), len(want))
	}
	forge(t, b, aead, nonce, header, sealed)
	for i := range held {
		if p := held[i].Bytes(); !bytes.Equal(p, make([]byte, len(p))) {
			t.Errorf("what is held beside the frame became %x", p)
		}
		held[i].Release()
	}
}

// forge has b open what was tampered with, at each place; then it goes on as if nothing had been.
func forge(t *testing.T, b arena.Buffer, aead cipher.AEAD, nonce, header, sealed []byte) {
	for i := len(header); i < len(sealed); i += 1 + len(sealed)/20 {
		b.Truncate(len(header))
		copy(b.Writable(len(sealed)-len(header)), sealed[len(header):])
		b.Data(b.Len())[i] ^= 1
		if err := b.Open(aead, nonce, header); err == nil {
			if _, err := aead.Open(nil, nonce, sealed[len(header):], header); err == nil && aead.Overhead() > 0 {
				t.Fatalf("byte %d was changed, and Open did not fail", i)
			}
			return
		}
		if !bytes.Equal(b.Data(b.Len()), header) {
			t.Fatalf("after a failed Open the frame has %d bytes, want the header, %d", b.Len(), len(header))
		}
	}
	b.Truncate(len(header))
	b.Write([]byte("too short")[:max(0, min(9, aead.Overhead()-1))])
	if err := b.Open(aead, nonce, header); err == nil && aead.Overhead() > 5 {
		t.Error("opened what is shorter than the tag")
	}
	b.Truncate(len(header))
	b.Write(sealed[len(header):])
	if err := b.Open(aead, nonce, header); err != nil {
		t.Errorf("the right frame after wrong ones: %v", err)
	}
	s := b.Take()
	if !bytes.Equal(s.Bytes()[:len(header)], header) {
		t.Errorf("the Slice begins with %x, want %x", s.Bytes()[:len(header)], header)
	}
	s.Release()
	// Start is 0 again for the next frame.
	b.Write([]byte("the next one"))
	if err := b.Seal(aead, nonce, nil); err != nil {
		t.Fatal(err)
	}
	s = b.Take()
	if got, err := aead.Open(nil, nonce, s.Bytes(), nil); err != nil || string(got) != "the next one" {
		t.Errorf("the next frame is %q, %v", got, err)
	}
	s.Release()
}

// An empty frame can be sealed, and one that is not there cannot be opened.
func TestSealOfNothing(t *testing.T) {
	gcm := aeads[0].aead
	nonce := make([]byte, gcm.NonceSize())
	for _, b := range []arena.Buffer{arena.NewPool(100), arena.NewPool(0), new(arena.Heap)} {
		if err := b.Open(gcm, nonce, nil); err == nil || b.Len() != 0 {
			t.Errorf("%T: opened nothing to %d bytes, %v", b, b.Len(), err)
		}
		if err := b.Seal(gcm, nonce, nil); err != nil {
			t.Fatal(err)
		}
		if want := gcm.Seal(nil, nonce, nil, nil); !bytes.Equal(b.Data(100), want) {
			t.Errorf("%T: %x, want %x", b, b.Data(100), want)
		}
		if err := b.Open(gcm, nonce, nil); err != nil || b.Len() != 0 {
			t.Errorf("%T: %d bytes, %v", b, b.Len(), err)
		}
	}
}

// shortTag returns an AES-GCM with a tag of so many bytes, less than 16.
func shortTag(size int) cipher.AEAD { return roomyGCM{must(cipher.NewGCMWithTagSize(block, size))} }

// roomyGCM is an AES-GCM that writes as if its tag had 16 bytes, as that of Go 1.26 does (golang.org/issue/80288).
// Where that would be another owner's memory, it panics instead.
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

// Seal has room for 16 bytes behind the frame, even if the allocator gives no more than the frame and a tag of 12 need.
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
