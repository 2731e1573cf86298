package observe

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// slowLoad is the oracle of a Load.
func slowLoad(all []time.Duration, bytes, errors int64) Load {
	l := Load{Operations: int64(len(all)), Bytes: bytes, Errors: errors}
	if len(all) > 0 {
		sorted := slices.Sorted(slices.Values(all))
		at := func(q float64) time.Duration { return sorted[int(math.Ceil(q*float64(len(sorted))))-1] }
		l.P50, l.P95, l.P99 = at(0.50), at(0.95), at(0.99)
	}
	return l
}

func checkLoad(t *testing.T, got, want Load) {
	t.Helper()
	if got.Operations != want.Operations || got.Bytes != want.Bytes || got.Errors != want.Errors ||
		!about(got.P50, want.P50) || !about(got.P95, want.P95) || !about(got.P99, want.P99) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestLatencies(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var l Latencies
	var open []time.Duration
	var bytes, errors int64
	for range 3000 {
		switch rng.IntN(20) {
		default:
			d := durations(rng, 1)[0]
			n := rng.Int64N(1 << 20)
			l.Record(d, n)
			open, bytes = append(open, d), bytes+n
		case 0:
			l.Fail()
			errors++
		case 1:
			checkLoad(t, l.Load(), slowLoad(open, bytes, errors))
			open, bytes, errors = nil, 0, 0
		}
	}
}

// A clock that was set back must not count as a century.
func TestLatenciesTakeANegativeDurationForNone(t *testing.T) {
	var l Latencies
	l.Record(-time.Second, 1)
	checkLoad(t, l.Load(), Load{Operations: 1, Bytes: 1})
}

// Nothing is counted twice or lost while intervals end.
func TestLatenciesConcurrently(t *testing.T) {
	const goroutines, each = 8, 5000
	var l Latencies
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range each {
				l.Record(time.Duration(i)*time.Microsecond, 2)
				l.Fail()
			}
		})
	}
	recorded := make(chan struct{})
	go func() { wg.Wait(); close(recorded) }()
	var sum Load
	add := func(b Load) {
		sum.Operations += b.Operations
		sum.Bytes += b.Bytes
		sum.Errors += b.Errors
	}
	for open := true; open; {
		select {
		case <-recorded:
			open = false
		default:
			add(l.Load())
		}
	}
	add(l.Load())
	const n = goroutines * each
	if want := (Load{Operations: n, Bytes: 2 * n, Errors: n}); sum != want {
		t.Errorf("the intervals add up to %+v, want %+v", sum, want)
	}
}
