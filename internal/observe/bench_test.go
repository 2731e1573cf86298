package observe

import (
	"testing"
	"time"
)

// BenchmarkReading is what a sample costs, by the source of its kernel layer.
func BenchmarkReading(b *testing.B) {
	for _, bench := range []struct {
		name string
		from KernelSource
	}{{"none", KernelNone}, {"tracepoints", KernelTracepoints}, {"proc", KernelProc}} {
		b.Run(bench.name, func(b *testing.B) {
			k, err := openKernel(thisSystem, Options{Kernel: bench.from})
			if err != nil {
				b.Skip(err)
			}
			defer k.close()
			r := newGoRuntime(runtimeMetrics)
			var s Sample
			b.ReportAllocs()
			for b.Loop() {
				k.read(&s.Kernel)
				r.read(&s.Runtime)
			}
		})
	}
}

func BenchmarkLatenciesRecord(b *testing.B) {
	var l Latencies
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for d := time.Microsecond; pb.Next(); d += 37 {
			l.Record(d, 1)
		}
	})
}

func BenchmarkLatenciesLoad(b *testing.B) {
	var l Latencies
	b.ReportAllocs()
	for b.Loop() {
		l.Record(time.Millisecond, 1)
		l.Load()
	}
}
