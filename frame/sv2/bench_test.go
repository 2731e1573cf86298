package sv2_test

import (
	"crypto/cipher"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame/sv2"
)

// sameNonce uses one nonce for everything, so that the same bytes can be opened again and again.
type sameNonce struct{ cipher.AEAD }

var zeroNonce [12]byte

func (a sameNonce) Seal(dst, _, plain, additional []byte) []byte {
	return a.AEAD.Seal(dst, zeroNonce[:], plain, additional)
}

func (a sameNonce) Open(dst, _, sealed, additional []byte) ([]byte, error) {
	return a.AEAD.Open(dst, zeroNonce[:], sealed, additional)
}

// loop is a stream that never ends: the same frames again and again.
type loop struct {
	frames string
	at     int
}

func (l *loop) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], l.frames[l.at:])
		l.at = (l.at + m) % len(l.frames)
		n += m
	}
	return n, nil
}

// BenchmarkNoise seals and opens frames of one size, both in place.
func BenchmarkNoise(b *testing.B) {
	aead := sameNonce{newAEAD(b)}
	for _, size := range []int{100, 1 << 10, 16 << 10, 256 << 10} {
		payload := strings.Repeat("x", size)
		write := writing(payload)
		sealer, pool := sv2.NewSealer(aead), arena.NewPool(1<<20)
		b.Run(fmt.Sprintf("Seal/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				s, err := sealer.Seal(pool, sv2.Header{MessageType: 1}, write)
				if err != nil {
					b.Fatal(err)
				}
				s.Release()
			}
		})
		wire, _ := slowSeal(aead, 0, slowMessage{sv2.Header{Length: size}, payload})
		r := millrace.NewReader(&loop{frames: wire})
		defer r.Release()
		o := sv2.NewOpener(r, aead)
		b.Run(fmt.Sprintf("NextInto/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				s, _, err := o.NextInto(pool)
				if err != nil {
					b.Fatal(err)
				}
				s.Release()
			}
		})
	}
}
