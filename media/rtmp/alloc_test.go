//go:build !race && !invariants

package rtmp_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
	"github.com/millrace-io/millrace/media/rtmp"
)

func TestNoAllocationPerMessage(t *testing.T) {
	for _, tt := range []struct {
		name              string
		announced, chunk  int
		size              int
		timestamp, stream uint32
	}{
		{"whole messages", 1 << 20, 1 << 20, 20_000, 40, 1},
		{"chunks of 4096", 4096, 4096, 20_000, 40, 1},
		{"chunks of 4096 with extended timestamps", 4096, 4096, 20_000, 1 << 30, 1},
		{"chunks of 128", 128, 128, 400, 40, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			once := rawChunks(6, 9, tt.timestamp, tt.stream, strings.Repeat("x", tt.size), tt.chunk,
				true) +
				rawMessage(8, 40, strings.Repeat("y", 100))
			r := millrace.NewReader(&sourcetest.Loop{Bytes: control(1,
				uint32(tt.announced)) + once})
			defer r.Release()
			d := rtmp.NewDecoder(r, 1<<20)
			defer d.Release()
			var enc rtmp.Encoder
			defer enc.Release()
			var c, out millrace.Chain
			enc.SetChunkSize(&out, 4096)
			next := func() {
				m, err := d.Next(&c)
				if err != nil {
					t.Fatal(err)
				}
				if err := enc.Append(&out, m, &c); err != nil {
					t.Fatal(err)
				}
				out.Release()
			}
			for range 1000 {
				next()
			}
			if n := alloctest.Count(0, func() {
				for range 10_000 {
					next()
				}
			}); n != 0 {
				t.Errorf("%v allocations in 10,000 messages", n)
			}
		})
	}
}
