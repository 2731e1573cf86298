//go:build !race && !invariants

package frame_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
)

func checkNoAllocation(t *testing.T, what string, f func()) {
	t.Helper()
	for range 200 {
		f()
	}
	if n := alloctest.Count(0, func() {
		for range 1000 {
			f()
		}
	}); n != 0 {
		t.Errorf("%s: %v allocations in 1,000 frames", what, n)
	}
}

// Frames of several sizes: buffered ones, ones that span blocks, and ones that are read in place.
var allocFrames = rawFrame(1, strings.Repeat("x", 100)) + rawFrame(2, strings.Repeat("x", 3000)) +
	rawFrame(3, strings.Repeat("x", 60_000))

func TestNoAllocationPerFrame(t *testing.T) {
	r := millrace.NewReader(&sourcetest.Loop{Bytes: allocFrames})
	defer r.Release()
	d := frame.NewDecoder(r, record{}, frame.MaxKind(1, 1000))
	pool := arena.NewPool(1 << 20)
	var c millrace.Chain
	checkNoAllocation(t, "Next", func() {
		if _, err := d.Next(&c); err != nil {
			t.Fatal(err)
		}
		c.Release()
	})
	checkNoAllocation(t, "NextInto", func() {
		s, _, err := d.NextInto(pool)
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
	})
	// The mask counts in one byte, so after 256 calls it starts again.
	sealed := new(masked).seal(slices.Repeat([]string{rawFrame(1, strings.Repeat("x", 24))}, 64)...)
	sr := millrace.NewReader(&sourcetest.Loop{Bytes: sealed})
	defer sr.Release()
	sd := frame.NewDecoder(sr, new(masked))
	checkNoAllocation(t, "NextInto, sealed", func() {
		s, _, err := sd.NextInto(pool)
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
	})
	e := frame.NewEncoder(record{})
	payload := []byte(strings.Repeat("x", 1000))
	checkNoAllocation(t, "Assemble", func() {
		s, err := e.Assemble(pool, frame.Header{Kind: 1}, func(buf arena.Buffer) error {
			_, err := buf.Write(payload)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
	})
	shared := chainOf(strings.Repeat("x", 1000))
	defer shared.Release()
	var body millrace.Chain
	checkNoAllocation(t, "Append", func() {
		shared.CloneTo(&body)
		if err := e.Append(&c, frame.Header{Kind: 1}, &body); err != nil {
			t.Fatal(err)
		}
		c.Release()
	})
}
