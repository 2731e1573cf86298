package observe

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeRuntime counts a collection each millisecond of the bubble's time.
type fakeRuntime struct{ last time.Time }

func (f *fakeRuntime) read(s *RuntimeSample) {
	now := time.Now()
	s.GCs = now.Sub(f.last).Milliseconds()
	f.last = now
}

// A fakeKernel counts a fault each reading, and when it was closed.
type fakeKernel struct {
	reads, closes int
	closeErr      error
}

func (f *fakeKernel) read(s *KernelSample) { f.reads++; s.PageFaults = int64(f.reads) }
func (f *fakeKernel) report() KernelReport {
	return KernelReport{PageFaults: Metric{Source: SourceRusage, Why: "a test"}}
}
func (f *fakeKernel) notes() []string { return []string{"a note"} }
func (f *fakeKernel) close() error    { f.closes++; return f.closeErr }

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernel := &fakeKernel{}
		var calls int64
		load := func() Load {
			calls++
			return Load{Operations: calls, Bytes: 1000, Errors: 2, P50: 1, P95: 2, P99: 3}
		}
		began := time.Now()
		r := start(Options{Interval: 100 * time.Millisecond, Load: load}, &fakeRuntime{}, kernel, profiles{})
		time.Sleep(350 * time.Millisecond)
		tl, err := r.Stop()
		if err != nil {
			t.Fatal(err)
		}
		if !tl.Began.Equal(began) || tl.Interval != 100*time.Millisecond || kernel.closes != 1 {
			t.Errorf("began %v, interval %v, closed %d times", tl.Began, tl.Interval, kernel.closes)
		}
		if tl.Kernel != kernel.report() || !reflect.DeepEqual(tl.Notes, kernel.notes()) || tl.Cost.Readings != 4 {
			t.Errorf("%+v", tl)
		}
		// The first call of each source was the one before the load.
		want := []Sample{
			{At: 100, Length: 100, Load: LoadSample{Operations: 2, Rate: 20, ByteRate: 10000}},
			{At: 200, Length: 100, Load: LoadSample{Operations: 3, Rate: 30, ByteRate: 10000}},
			{At: 300, Length: 100, Load: LoadSample{Operations: 4, Rate: 40, ByteRate: 10000}},
			{At: 350, Length: 50, Load: LoadSample{Operations: 5, Rate: 100, ByteRate: 20000}},
		}
		for i := range want {
			w := &want[i]
			w.Runtime.GCs = int64(w.Length)
			w.Kernel.PageFaults = int64(i + 2)
			w.At *= time.Millisecond
			w.Length *= time.Millisecond
			w.Load.Bytes, w.Load.Errors, w.Load.P50, w.Load.P95, w.Load.P99 = 1000, 2, 1, 2, 3
		}
		if !reflect.DeepEqual(tl.Samples, want) {
			t.Errorf("got  %+v\nwant %+v", tl.Samples, want)
		}
	})
}

// The rest of an interval that was cut short is in the sample before it.
func TestStopAddsAShortRestToTheLastSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := func() Load { return Load{Operations: 110} }
		r := start(Options{Interval: time.Second, Load: load}, &fakeRuntime{}, &fakeKernel{}, profiles{})
		time.Sleep(2100 * time.Millisecond)
		tl, _ := r.Stop()
		if len(tl.Samples) != 2 {
			t.Fatalf("%d samples", len(tl.Samples))
		}
		last := tl.Samples[1]
		if last.At != 2100*time.Millisecond || last.Length != 1100*time.Millisecond || last.Load.Operations != 220 ||
			math.Round(last.Load.Rate) != 200 || last.Runtime.GCs != 1100 {
			t.Errorf("%+v", last)
		}
	})
}

func TestStopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := func() Load { return Load{Operations: 1} }
		tl, err := start(Options{Interval: time.Second, Load: load}, &fakeRuntime{}, &fakeKernel{}, profiles{}).Stop()
		if err != nil || len(tl.Samples) != 1 {
			t.Fatalf("%v, %+v", err, tl)
		}
		if l := tl.Samples[0].Load; l.Operations != 1 || l.Rate != 0 {
			t.Errorf("in no time: %+v", l)
		}
	})
}

// A day is no longer than MaxSamples, and its interval says how coarse it is.
func TestRecorderOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		load := func() Load { return Load{Operations: 1} }
		r := start(Options{Interval: time.Second, Load: load}, &fakeRuntime{}, &fakeKernel{}, profiles{})
		time.Sleep(day)
		tl, _ := r.Stop()
		n := len(tl.Samples)
		if n > MaxSamples || n < MaxSamples/2 || tl.Interval != 32*time.Second {
			t.Errorf("%d samples of %v", n, tl.Interval)
		}
		var sum time.Duration
		var gcs int64
		for _, s := range tl.Samples {
			sum += s.Length
			gcs += s.Runtime.GCs
		}
		if sum != day || gcs != day.Milliseconds() || tl.Samples[n-1].At != day {
			t.Errorf("the samples are of %v with %d collections", sum, gcs)
		}
	})
}

// A load that takes its time gets longer samples, not two at once.
func TestRecorderWithASlowLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := func() Load { time.Sleep(250 * time.Millisecond); return Load{Operations: 1} }
		r := start(Options{Interval: 100 * time.Millisecond, Load: load}, &fakeRuntime{}, &fakeKernel{}, profiles{})
		time.Sleep(2 * time.Second)
		tl, _ := r.Stop()
		var end time.Duration
		for i, s := range tl.Samples {
			if s.At-s.Length != end || s.Length <= 0 {
				t.Errorf("sample %d: (%v, %v] after %v", i, s.At-s.Length, s.At, end)
			}
			end = s.At
		}
		if tl.Cost.Max != 250*time.Millisecond || tl.Cost.Total != time.Duration(tl.Cost.Readings)*tl.Cost.Max {
			t.Errorf("cost %+v", tl.Cost)
		}
	})
}

func TestStopTwiceAndFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("can't detach")
		kernel := &fakeKernel{closeErr: failure}
		r := start(Options{Interval: time.Second}, &fakeRuntime{}, kernel, profiles{})
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				tl, err := r.Stop()
				if len(tl.Samples) != 1 || !errors.Is(err, failure) {
					t.Errorf("%v, %+v", err, tl)
				}
			})
		}
		wg.Wait()
		if kernel.closes != 1 {
			t.Errorf("closed %d times", kernel.closes)
		}
	})
}

func TestStartRefuses(t *testing.T) {
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{Interval: -1}, "interval"},
		{Options{Interval: MinInterval - 1}, "interval"},
		{Options{Kernel: -1}, "kernel source"},
		{Options{Kernel: KernelNone + 1}, "kernel source"},
		{Options{Ports: make([]uint16, MaxPorts+1)}, "ports"},
	} {
		r, err := Start(test.o)
		if err == nil {
			r.Stop()
			t.Errorf("%+v was taken", test.o)
		} else if !strings.HasPrefix(err.Error(), "observe: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.o, err)
		}
	}
}

// What one version writes, another program reads: the names in JSON stay.
func TestTimelineJSON(t *testing.T) {
	tl := Timeline{
		Began: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Interval: time.Second,
		Kernel:  KernelReport{RTT: Metric{Source: SourceTCPInfo, Scope: "some", Why: "because"}},
		Samples: []Sample{{At: 7, Kernel: KernelSample{RTT: Spread{P99: 9}}}},
		Notes:   []string{"n"},
	}
	text, err := json.Marshal(tl)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"began":"2030-01-02T03:04:05Z","interval_ns":1000000000`,
		`"rtt":{"source":"TCP_INFO","scope":"some","why":"because"}`,
		`"samples":[{"at_ns":7,"length_ns":0,"load":{"operations":0,`,
		`"operations_per_second":0,"bytes_per_second":0,"p50_ns":0,"p95_ns":0,"p99_ns":0}`,
		`"gcs":0,"gc_pauses":{"count":0,"mean_ns":0,"p50_ns":0,"p99_ns":0,"max_ns":0}`,
		`"retransmits":0,"rtt":{"count":0,"mean_ns":0,"p50_ns":0,"p99_ns":9,"max_ns":0}`,
		`"notes":["n"]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("JSON lacks %s:\n%s", want, text)
		}
	}
	var back Timeline
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, tl) {
		t.Errorf("read back (%v): %+v", err, back)
	}
}
