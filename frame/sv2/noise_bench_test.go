package sv2_test

import (
	"bufio"
	"crypto/cipher"
	"fmt"
	"io"
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

var benchSizes = []int{100, 1 << 10, 16 << 10, 256 << 10}

func benchmark(b *testing.B, name string, size int, f func() error) {
	b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSeal compares with the cipher alone, in place, and with a frame that is made of parts.
func BenchmarkSeal(b *testing.B) {
	aead := sameNonce{newAEAD(b)}
	for _, size := range benchSizes {
		payload := []byte(strings.Repeat("x", size))
		memory := make([]byte, sv2.EncryptedHeaderSize+sv2.EncryptedLen(size))
		benchmark(b, "cipher-alone", size, func() error {
			aead.Seal(memory[:0], nil, memory[:sv2.HeaderSize], nil)
			for p := memory[sv2.EncryptedHeaderSize:]; len(p) > 0; p = p[min(len(p), sv2.ChunkSize):] {
				aead.Seal(p[:0], nil, p[:min(len(p), sv2.ChunkSize)-sv2.TagSize], nil)
			}
			return nil
		})
		sealer, pool := sv2.NewSealer(aead), arena.NewPool(1<<20)
		benchmark(b, "Seal", size, func() error {
			s, err := sealer.Seal(pool, sv2.Header{MessageType: 1}, func(buf arena.Buffer) error {
				_, err := buf.Write(payload)
				return err
			})
			s.Release()
			return err
		})
		benchmark(b, "parts", size, func() error {
			head, err := sv2.Header{MessageType: 1, Length: size}.Append(nil)
			wire := aead.Seal(nil, nil, head, nil)
			for p := payload; len(p) > 0; p = p[min(len(p), sv2.PlainChunkSize):] {
				wire = aead.Seal(wire, nil, p[:min(len(p), sv2.PlainChunkSize)], nil)
			}
			return err
		})
	}
}

// BenchmarkOpen compares with a frame that is read by hand into memory of its own, and opened there.
func BenchmarkOpen(b *testing.B) {
	aead := sameNonce{newAEAD(b)}
	for _, size := range benchSizes {
		wire, _ := slowSeal(aead, 0, slowMessage{sv2.Header{Length: size}, strings.Repeat("x", size)})
		r := millrace.NewReader(&loop{frames: wire})
		b.Cleanup(r.Release)
		o, pool := sv2.NewOpener(r, aead), arena.NewPool(1<<20)
		benchmark(b, "NextInto", size, func() error {
			s, _, err := o.NextInto(pool)
			s.Release()
			return err
		})
		br := bufio.NewReader(&loop{frames: wire})
		benchmark(b, "bufio-and-make", size, func() error { return openByHand(br, aead) })
	}
}

func openByHand(r io.Reader, aead cipher.AEAD) error {
	sealed := make([]byte, sv2.EncryptedHeaderSize)
	if _, err := io.ReadFull(r, sealed); err != nil {
		return err
	}
	plain, err := aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return err
	}
	h, err := sv2.ParseHeader(plain)
	if err != nil {
		return err
	}
	payload := make([]byte, sv2.EncryptedLen(h.Length))
	if _, err := io.ReadFull(r, payload); err != nil {
		return err
	}
	for p := payload; len(p) > 0; p = p[min(len(p), sv2.ChunkSize):] {
		if plain, err = aead.Open(plain, nil, p[:min(len(p), sv2.ChunkSize)], nil); err != nil {
			return err
		}
	}
	return nil
}
