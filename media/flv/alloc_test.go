//go:build !race && !invariants

package flv_test

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/media/flv"
)

func TestNoAllocationPerTag(t *testing.T) {
	r := millrace.NewReader(newLoop(1 << 10))
	defer r.Release()
	d := flv.NewDecoder(r)
	var enc flv.Encoder
	defer enc.Release()
	var c, again millrace.Chain
	next := func() {
		tag, err := d.Next(&c)
		if err != nil {
			t.Fatal(err)
		}
		enc.Retime(&again, &c, tag.Timestamp+1)
		again.Release()
		c.Release()
	}
	for range 1000 {
		next()
	}
	if n := alloctest.Count(0, func() {
		for range 10_000 {
			next()
		}
	}); n != 0 {
		t.Errorf("%v allocations in 10,000 tags", n)
	}
}
