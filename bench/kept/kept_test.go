package kept

import (
	"testing"

	"github.com/millrace-io/millrace"
)

// TestContendersLetGo checks that everything that was shared comes back.
func TestContendersLetGo(t *testing.T) {
	for _, c := range Contenders {
		t.Run(c.Name, func(t *testing.T) {
			before := millrace.DefaultPool.Stats().InUseBlocks
			c.run(20 * BatchPackets)
			c.handOff(2 * BatchPackets)
			if after := millrace.DefaultPool.Stats().InUseBlocks; after != before {
				t.Errorf("%d blocks in use, %d before", after, before)
			}
		})
	}
}

func BenchmarkKept(b *testing.B) {
	for _, c := range Contenders {
		b.Run(c.Name, func(b *testing.B) { bench(b, c.run) })
		b.Run(c.Name+", hand-off alone", func(b *testing.B) { bench(b, c.handOff) })
	}
}

// bench counts one packet as one operation.
func bench(b *testing.B, run func(int)) {
	run(warmUp)
	b.ReportAllocs()
	b.ResetTimer()
	run((b.N + BatchPackets - 1) / BatchPackets * BatchPackets)
}
