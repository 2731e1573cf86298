package idle

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// BenchmarkIdle reports what 1000 waiting connections take, and takes no time
// into account.
func BenchmarkIdle(b *testing.B) {
	const conns = 1000
	for _, w := range Waiters {
		b.Run(w.Name, func(b *testing.B) {
			var u Usage
			for b.Loop() {
				var err error
				if u, err = Measure(w, conns); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(u.Heap)/conns, "heapB/conn")
			b.ReportMetric(float64(u.Stack)/conns, "stackB/conn")
		})
	}
}

func TestIdleReaderHoldsNoBlock(t *testing.T) {
	const conns = 300
	bare, err := Measure(Waiters[0], conns)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Measure(Waiters[1], conns)
	if err != nil {
		t.Fatal(err)
	}
	if each := (ours.Heap - bare.Heap) / conns; each >= 512 {
		t.Errorf("%d bytes of heap a Reader that waits, want fewer than 512", each)
	}
}
