package observe

import (
	"math/rand/v2"
	"testing"
	"time"
)

func randomSample(rng *rand.Rand, at, length time.Duration) Sample {
	spread := func() Spread {
		s := Spread{Count: rng.Int64N(50)}
		if s.Count > 0 {
			s.P50 = time.Duration(rng.Int64N(1e9))
			s.P99 = s.P50 + time.Duration(rng.Int64N(1e9))
			s.Max = s.P99 + time.Duration(rng.Int64N(1e9))
			s.Mean = s.P50
		}
		return s
	}
	return Sample{
		At: at, Length: length,
		Load: loadSample(Load{Operations: rng.Int64N(1000), Bytes: rng.Int64N(1e6), Errors: rng.Int64N(3)}, length),
		Runtime: RuntimeSample{
			GCs: rng.Int64N(5), GCPauses: spread(), GCCPU: 3, HeapBytes: rng.Int64N(1e9), TotalBytes: rng.Int64N(1e9),
			Goroutines: rng.Int64N(1e4), Scheduling: spread(), AllocatedBytes: rng.Int64N(1e9), AllocatedObjects: 1,
		},
		Kernel: KernelSample{
			Retransmits: rng.Int64N(9), RTT: spread(), RunQueue: spread(), PageFaults: rng.Int64N(99), MajorFaults: 1,
			UserCPU: 5, SystemCPU: 7,
		},
	}
}

// sums are what merging must not change.
type sums struct {
	length                                   time.Duration
	operations, bytes, errors                int64
	gcs, pauses, allocated, objects          int64
	retransmits, rtts, waits, faults, majors int64
	gcCPU, user, system                      time.Duration
	worstPause, worstWait, worstRTT          time.Duration
	heapPeak, goroutinePeak                  int64
}

func (s *sums) add(x Sample) {
	s.length += x.Length
	s.operations += x.Load.Operations
	s.bytes += x.Load.Bytes
	s.errors += x.Load.Errors
	s.gcs += x.Runtime.GCs
	s.pauses += x.Runtime.GCPauses.Count
	s.allocated += x.Runtime.AllocatedBytes
	s.objects += x.Runtime.AllocatedObjects
	s.retransmits += x.Kernel.Retransmits
	s.rtts += x.Kernel.RTT.Count
	s.waits += x.Kernel.RunQueue.Count
	s.faults += x.Kernel.PageFaults
	s.majors += x.Kernel.MajorFaults
	s.gcCPU += x.Runtime.GCCPU
	s.user += x.Kernel.UserCPU
	s.system += x.Kernel.SystemCPU
	s.worstPause = max(s.worstPause, x.Runtime.GCPauses.Max)
	s.worstWait = max(s.worstWait, x.Kernel.RunQueue.Max)
	s.worstRTT = max(s.worstRTT, x.Kernel.RTT.Max)
	s.heapPeak = max(s.heapPeak, x.Runtime.HeapBytes)
	s.goroutinePeak = max(s.goroutinePeak, x.Runtime.Goroutines)
}

// However long a series is, it is bounded, without a gap, and nothing of what happened is lost.
func TestSeriesIsBoundedAndLosesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var s series
	var want sums
	var at time.Duration
	interval := DefaultInterval
	for range 5 * MaxSamples {
		at += interval
		x := randomSample(rng, at, interval)
		want.add(x)
		if s.add(x) {
			interval *= 2
		}
		if len(s.samples) > MaxSamples {
			t.Fatalf("%d samples", len(s.samples))
		}
	}
	if len(s.samples) < MaxSamples/2 {
		t.Errorf("%d samples: more was merged than had to be", len(s.samples))
	}
	var got sums
	var end time.Duration
	for i, x := range s.samples {
		got.add(x)
		if x.At-x.Length != end {
			t.Fatalf("sample %d begins at %v, the one before ends at %v", i, x.At-x.Length, end)
		}
		end = x.At
		for _, spread := range []Spread{x.Runtime.GCPauses, x.Runtime.Scheduling, x.Kernel.RTT, x.Kernel.RunQueue} {
			if spread.P50 > spread.P99 || spread.P99 > spread.Max {
				t.Fatalf("sample %d: not in order: %+v", i, spread)
			}
		}
	}
	if got != want {
		t.Errorf("merged:\ngot  %+v\nwant %+v", got, want)
	}
}

func TestMerged(t *testing.T) {
	a := Sample{
		At: time.Second, Length: time.Second,
		Load:    LoadSample{Operations: 10, Bytes: 100, Rate: 10, ByteRate: 100, P50: 4, P95: 9, P99: 10},
		Runtime: RuntimeSample{HeapBytes: 9, Goroutines: 3, TotalBytes: 50},
		Kernel:  KernelSample{RTT: Spread{Count: 1, Mean: 10, P50: 10, P99: 10, Max: 10}},
	}
	b := Sample{
		At: 4 * time.Second, Length: 3 * time.Second,
		Load:    LoadSample{Operations: 30, Bytes: 60, Errors: 1, Rate: 10, ByteRate: 20, P50: 8, P95: 8, P99: 20},
		Runtime: RuntimeSample{HeapBytes: 5, Goroutines: 7, TotalBytes: 40},
		Kernel:  KernelSample{RTT: Spread{Count: 3, Mean: 2, P50: 2, P99: 4, Max: 5}},
	}
	want := Sample{
		At: 4 * time.Second, Length: 4 * time.Second,
		Load:    LoadSample{Operations: 40, Bytes: 160, Errors: 1, Rate: 10, ByteRate: 40, P50: 7, P95: 9, P99: 20},
		Runtime: RuntimeSample{HeapBytes: 9, Goroutines: 7, TotalBytes: 40},
		Kernel:  KernelSample{RTT: Spread{Count: 4, Mean: 4, P50: 4, P99: 10, Max: 10}},
	}
	if got := a.merged(b); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := (Spread{}).merged(Spread{}); got != (Spread{}) {
		t.Errorf("two empty spreads make %+v", got)
	}
}
