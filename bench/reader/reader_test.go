package reader

import (
	"bytes"
	"testing"
)

// TestContendersDeliver checks that nobody wins by leaving something out.
func TestContendersDeliver(t *testing.T) {
	const packets, streams = 999, 3
	for _, c := range Contenders {
		if c.Name == "source alone" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			srcs := []*Source{NewSource(1), NewSource(2), NewSource(3)}
			var got bytes.Buffer
			first, second := &Subscriber{}, &Subscriber{}
			first.audit = func(p []byte) { got.Write(p) }
			run := c.Open(srcs, []*Subscriber{first, second})
			run.Packets(packets)
			run.Close()
			if first.Bytes != packets*PacketSize || second.Bytes != first.Bytes {
				t.Fatalf("subscribers got %d and %d bytes of %d", first.Bytes, second.Bytes, packets*PacketSize)
			}
			// Every stream is the same sequence, so that three packets in
			// a row are equal, and then come the next three.
			want := make([]byte, PacketSize)
			for i := range packets {
				at := i / streams * PacketSize
				for j := range want {
					want[j] = slab[(at+j)%period]
				}
				if !bytes.Equal(got.Next(PacketSize), want) {
					t.Fatalf("packet %d differs", i)
				}
			}
		})
	}
}

func TestSourceGivesAllSizes(t *testing.T) {
	s := NewSource(1)
	p := make([]byte, 2*maxRead)
	low, high := maxRead, 0
	for range 100_000 {
		n, _ := s.Read(p)
		low, high = min(low, n), max(high, n)
	}
	if low != minRead || high != maxRead {
		t.Errorf("reads of %d to %d bytes, want %d to %d", low, high, minRead, maxRead)
	}
}

func BenchmarkReader(b *testing.B) {
	for _, w := range Workloads {
		for _, c := range Contenders {
			b.Run(w.Name+"/"+c.Name, func(b *testing.B) {
				b.SetBytes(PacketSize)
				b.ReportAllocs()
				if w.Parallel {
					benchmarkParallel(b, w, c)
					return
				}
				run := w.Open(c, 1)
				defer run.Close()
				run.Packets(warmUp)
				b.ResetTimer()
				run.Packets(b.N)
			})
		}
	}
}

func benchmarkParallel(b *testing.B, w Workload, c Contender) {
	b.RunParallel(func(pb *testing.PB) {
		run := w.Open(c, 1)
		defer run.Close()
		for pb.Next() {
			run.Packets(1)
		}
	})
}
