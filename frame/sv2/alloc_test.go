//go:build !race && !invariants

package sv2_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
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
			if n := testing.AllocsPerRun(200, f); n != 0 {
				t.Errorf("%s of %d bytes: %v allocations", name, size, n)
			}
		}
	}
}

// A sealed header that announces 16 MiB, and three bytes behind it, cost what a small message costs.
func TestAnnouncedBytesAreNotAllocated(t *testing.T) {
	wire, _ := slowSeal(newAEAD(t), 0, slowMessage{sv2.Header{Length: sv2.MaxPayload}, "abc"})
	for _, buf := range buffers() {
		r := millrace.NewReader(strings.NewReader(wire[:22+3]))
		o := sv2.NewOpener(r, newAEAD(t), frame.MaxPayload(sv2.MaxPayload))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := o.NextInto(buf)
		runtime.ReadMemStats(&after)
		n := after.TotalAlloc - before.TotalAlloc
		t.Logf("%T: %d bytes allocated (%v)", buf, n, err)
		if n > 64<<10 {
			t.Errorf("%T: %d bytes allocated (%v)", buf, n, err)
		}
		r.Release()
	}
}
