//go:build !race && !invariants

package sv2_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
)

func TestNoAllocationPerFrame(t *testing.T) {
	aead := sameNonce{newAEAD(t)}
	for _, size := range []int{0, 100, 10_000, 150_000} {
		payload := []byte(strings.Repeat("x", size))
		pool := arena.NewPool(1 << 20)
		sealer := sv2.NewSealer(aead)
		seal := func() {
			s, err := sealer.Seal(pool, sv2.Header{MessageType: 1}, func(buf arena.Buffer) error {
				_, err := buf.Write(payload)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			s.Release()
		}
		wire, _ := slowSeal(aead, 0, slowMessage{sv2.Header{Length: size}, string(payload)})
		r := millrace.NewReader(&loop{frames: wire})
		defer r.Release()
		o := sv2.NewOpener(r, aead)
		open := func() {
			s, _, err := o.NextInto(pool)
			if err != nil {
				t.Fatal(err)
			}
			s.Release()
		}
		for name, f := range map[string]func(){"Seal": seal, "NextInto": open} {
			for range 50 {
				f()
			}
			if n := alloctest.Count(0, func() {
				for range 100 {
					f()
				}
			}); n != 0 {
				t.Errorf("%s of %d bytes: %v allocations in 100 frames", name, size, n)
			}
		}
	}
}
