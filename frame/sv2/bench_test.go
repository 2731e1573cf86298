package sv2_test

import (
	"crypto/cipher"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
)

// sameNonce always uses the same nonce, so that the same bytes can be opened repeatedly.
type sameNonce struct{ cipher.AEAD }

var zeroNonce [12]byte

func (a sameNonce) Seal(dst, _, plain, additional []byte) []byte {
	return a.AEAD.Seal(dst, zeroNonce[:], plain, additional)
}

func (a sameNonce) Open(dst, _, sealed, additional []byte) ([]byte, error) {
	return a.AEAD.Open(dst, zeroNonce[:], sealed, additional)
}

// inPlace returns functions that seal and open a message of size bytes in the memory of a Pool.
func inPlace(tb testing.TB, size int) map[string]func() {
	aead, pool := sameNonce{newAEAD(tb)}, arena.NewPool(1<<20)
	payload := strings.Repeat("x", size)
	sealer, write := sv2.NewSealer(aead), writing(payload)
	wire, _ := slowSeal(aead, 0, slowMessage{sv2.Header{Length: size}, payload})
	r := millrace.NewReader(&sourcetest.Loop{Bytes: wire})
	tb.Cleanup(r.Release)
	opener := sv2.NewOpener(r, aead)
	release := func(s arena.Slice, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		s.Release()
	}
	return map[string]func(){
		"Seal": func() { release(sealer.Seal(pool, sv2.Header{MessageType: 1}, write)) },
		"NextInto": func() {
			s, _, err := opener.NextInto(pool)
			release(s, err)
		},
	}
}

// BenchmarkNoise seals and opens frames of one size, both in place.
func BenchmarkNoise(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 256 << 10} {
		for name, f := range inPlace(b, size) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}
