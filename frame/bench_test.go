package frame_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
)

// BenchmarkDecode reads frames of one size, by reference and into an arena.
func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 256 << 10} {
		for _, w := range []struct {
			name string
			next func(d *frame.Decoder, pool *arena.Pool) error
		}{{"Next", benchNext}, {"NextInto", benchNextInto}} {
			b.Run(fmt.Sprintf("%s/%d", w.name, size), func(b *testing.B) {
				r := millrace.NewReader(&sourcetest.Loop{Bytes: rawFrame(1,
					strings.Repeat("x", size))})
				defer r.Release()
				d, pool := frame.NewDecoder(r, record{}), arena.NewPool(1<<20)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := w.next(d, pool); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func benchNext(d *frame.Decoder, _ *arena.Pool) error {
	var c millrace.Chain
	_, err := d.Next(&c)
	c.Release()
	return err
}

func benchNextInto(d *frame.Decoder, pool *arena.Pool) error {
	s, _, err := d.NextInto(pool)
	s.Release()
	return err
}
