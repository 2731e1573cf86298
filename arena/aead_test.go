package arena_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math/rand/v2"
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

// The nonce and the additional data may stand in front of what is sealed, and go where the frame goes.
func TestSealWithWhatStandsInFront(t *testing.T) {
	const more = 6 // bytes of the header behind the nonce
	for _, a := range aeads {
		for _, set := range settings {
			t.Run(a.name+"/"+set.name, func(t *testing.T) {
				overhead := a.aead.Overhead()
				nonce, more, plain := randomBytes(a.aead.NonceSize()), randomBytes(more), randomBytes(40)
				start := len(nonce) + len(more)
				b, held := set.make(start+len(plain), max(overhead, min(16*overhead, 16)))
				b.Write(nonce)
				b.Write(more)
				b.SetStart(start)
				b.Write(plain)
				set.makeRoom(held)
				if err := b.Seal(a.aead, b.Data(len(nonce)), b.Data(start)[len(nonce):]); err != nil {
					t.Fatal(err)
				}
				frame := b.Data(b.Len())
				if got := append(bytes.Clone(nonce), more...); !bytes.Equal(frame[:start], got) {
					t.Errorf("the header became %x, want %x", frame[:start], got)
				}
				if got, err := a.aead.Open(nil, nonce, frame[start:], more); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("the AEAD opens %x, %v, want %x", got, err, plain)
				}
				if err := b.Open(a.aead, b.Data(len(nonce)), b.Data(start)[len(nonce):]); err != nil {
					t.Error(err)
				}
				frame = b.Data(b.Len())
				if !bytes.Equal(frame[start:], plain) {
					t.Errorf("opened %x, want %x", frame[start:], plain)
				}
			})
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
	if err := b.Seal(aead, nonce, header); err != nil {
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
	if err := b.Open(aead, nonce, header); err != nil {
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
				t.Fatalf("byte %d was changed, and nobody noticed", i)
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

// Where there is no room for the tag, the frame stays as it is, and can be sealed when there is.
func TestSealWithoutRoom(t *testing.T) {
	gcm := aeads[0].aead
	pool := arena.NewPool(100, arena.HeapFallback(false))
	held := take(pool, 50)
	pool.Write(make([]byte, 40))
	pool.SetStart(4)
	nonce := make([]byte, gcm.NonceSize())
	if err := pool.Seal(gcm, nonce, nil); err != arena.ErrFull {
		t.Fatalf("Seal: %v, want ErrFull", err)
	}
	if !bytes.Equal(pool.Data(100), make([]byte, 40)) {
		t.Errorf("the frame is %x", pool.Data(100))
	}
	held[0].Release()
	if err := pool.Seal(gcm, nonce, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := gcm.Open(nil, nonce, pool.Data(100)[4:], nil); err != nil || !bytes.Equal(got, make([]byte, 36)) {
		t.Errorf("sealed: %x, %v", got, err)
	}
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

// A message of Stratum V2 as its noise-encrypted framing has it: a sealed header of 6 bytes, and a payload in chunks of
// at most 65,519 bytes, each with its tag. Each is read behind what has been opened, over the tag of the one before, so
// that the whole is contiguous in the end.
func TestChunksAreOpenedIntoOneFrame(t *testing.T) {
	const most = 65519
	gcm := aeads[0].aead
	for _, size := range []int{1, most - 1, most, most + 1, 3*most + 12345} {
		plain := randomBytes(6 + size)
		wire := sealChunks(gcm, plain[:6], 6)
		wire = append(wire, sealChunks(gcm, plain[6:], most)...)
		for _, b := range []arena.Buffer{arena.NewPool(1 << 20), arena.NewPool(100_000), arena.NewPool(0), new(arena.Heap)} {
			from, number := wire, 0
			open := func(n int) {
				b.SetStart(b.Len())
				copy(b.Writable(n+gcm.Overhead()), from)
				from = from[n+gcm.Overhead():]
				if err := b.Open(gcm, chunkNonce(gcm, number), nil); err != nil {
					t.Fatalf("chunk of %d: %v", n, err)
				}
				number++
			}
			open(6)
			number = 0
			for left := size; left > 0; left -= most {
				open(min(left, most))
			}
			s := b.Take()
			if !bytes.Equal(s.Bytes(), plain) {
				t.Errorf("%d bytes of payload became %d that are not the same", size, s.Len()-6)
			}
			s.Release()

			// And back: chunk by chunk behind what has been sealed.
			for at, number := 6, 0; at < len(plain); number++ {
				b.SetStart(b.Len())
				n, _ := b.Write(plain[at:min(at+most, len(plain))])
				if err := b.Seal(gcm, chunkNonce(gcm, number), nil); err != nil {
					t.Fatal(err)
				}
				at += n
			}
			if !bytes.Equal(b.Data(b.Len()), wire[6+gcm.Overhead():]) {
				t.Errorf("%d bytes of payload are not sealed as they were", size)
			}
		}
	}
}

func chunkNonce(aead cipher.AEAD, number int) []byte {
	nonce := make([]byte, aead.NonceSize())
	nonce[len(nonce)-1] = byte(number)
	return nonce
}

func sealChunks(aead cipher.AEAD, plain []byte, most int) (wire []byte) {
	for number := 0; len(plain) > 0; number++ {
		n := min(most, len(plain))
		wire = aead.Seal(wire, chunkNonce(aead, number), plain[:n], nil)
		plain = plain[n:]
	}
	return wire
}
