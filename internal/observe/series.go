package observe

import "time"

// A series is a Timeline's samples: at most MaxSamples of them, however long a load runs. Neighbours are merged when it is
// full.
//
// len(samples) ≤ MaxSamples.
type series struct{ samples []Sample }

// add reports whether it had to merge: then the samples to come should be twice as long, too.
func (s *series) add(next Sample) (merged bool) {
	if len(s.samples) == MaxSamples {
		s.halve()
		merged = true
	}
	s.samples = append(s.samples, next)
	return merged
}

// extend makes next a part of the last sample.
func (s *series) extend(next Sample) {
	last := &s.samples[len(s.samples)-1]
	*last = last.merged(next)
}

func (s *series) halve() {
	half := len(s.samples) / 2
	for i := range half {
		s.samples[i] = s.samples[2*i].merged(s.samples[2*i+1])
	}
	clear(s.samples[half:])
	s.samples = s.samples[:half]
}

// merged returns the sample of both intervals, s and the one after it. What happened is added up, and what stood is as it
// stood at the end, but for the goroutines and the heap, of which the peak is to be seen. Quantiles can't be merged: the
// upper ones are the worse of the two, and a median is the mean of both by their number of events.
func (s Sample) merged(next Sample) Sample {
	a, b := s, next
	return Sample{
		At: b.At, Length: a.Length + b.Length,
		Load:    a.Load.merged(b.Load, a.Length+b.Length),
		Runtime: a.Runtime.merged(b.Runtime),
		Kernel:  a.Kernel.merged(b.Kernel),
	}
}

func (a LoadSample) merged(b LoadSample, length time.Duration) LoadSample {
	return loadSample(Load{
		Operations: a.Operations + b.Operations,
		Bytes:      a.Bytes + b.Bytes,
		Errors:     a.Errors + b.Errors,
		P50:        weighted(a.P50, a.Operations, b.P50, b.Operations),
		P95:        max(a.P95, b.P95),
		P99:        max(a.P99, b.P99),
	}, length)
}

// loadSample adds the rates to what a load did in an interval.
func loadSample(l Load, length time.Duration) LoadSample {
	s := LoadSample{
		Operations: l.Operations, Bytes: l.Bytes, Errors: l.Errors,
		P50: l.P50, P95: l.P95, P99: l.P99,
	}
	if length > 0 {
		s.Rate = float64(l.Operations) / length.Seconds()
		s.ByteRate = float64(l.Bytes) / length.Seconds()
	}
	return s
}

func (a RuntimeSample) merged(b RuntimeSample) RuntimeSample {
	return RuntimeSample{
		GCs:              a.GCs + b.GCs,
		GCPauses:         a.GCPauses.merged(b.GCPauses),
		GCCPU:            a.GCCPU + b.GCCPU,
		HeapBytes:        max(a.HeapBytes, b.HeapBytes),
		TotalBytes:       b.TotalBytes,
		Goroutines:       max(a.Goroutines, b.Goroutines),
		Scheduling:       a.Scheduling.merged(b.Scheduling),
		AllocatedBytes:   a.AllocatedBytes + b.AllocatedBytes,
		AllocatedObjects: a.AllocatedObjects + b.AllocatedObjects,
	}
}

func (a KernelSample) merged(b KernelSample) KernelSample {
	return KernelSample{
		Retransmits: a.Retransmits + b.Retransmits,
		RTT:         a.RTT.merged(b.RTT),
		RunQueue:    a.RunQueue.merged(b.RunQueue),
		PageFaults:  a.PageFaults + b.PageFaults,
		MajorFaults: a.MajorFaults + b.MajorFaults,
		UserCPU:     a.UserCPU + b.UserCPU,
		SystemCPU:   a.SystemCPU + b.SystemCPU,
	}
}

func (a Spread) merged(b Spread) Spread {
	s := Spread{
		Count: a.Count + b.Count,
		Mean:  weighted(a.Mean, a.Count, b.Mean, b.Count),
		P50:   weighted(a.P50, a.Count, b.P50, b.Count),
		P99:   max(a.P99, b.P99),
		Max:   max(a.Max, b.Max),
	}
	return s
}

// weighted is the mean of two durations that stand for n and m events. Floating point, since a product of nanoseconds and
// events does not fit 64 bits.
func weighted(a time.Duration, n int64, b time.Duration, m int64) time.Duration {
	if n+m == 0 {
		return 0
	}
	share := float64(n) / float64(n+m)
	return time.Duration(float64(a)*share + float64(b)*(1-share))
}
