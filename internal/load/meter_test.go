package load

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// arrivals is a subscription to tags that came as late as it says, and its end.
type arrivals struct {
	next    uint64
	late    []time.Duration
	payload [HeadLen]byte
}

// metered is a load of one viewer that has been let in, and its meter.
func metered() (*Meter, *viewer) {
	m := new(Meter)
	r := newRun(Config{Streams: 1, URL: "http://127.0.0.1", Viewers: 1}.withDefaults())
	m.attach(r)
	v := r.healthy.viewers[0]
	v.joined = time.Now()
	return m, v
}

// Next returns key frames: any of them may be the first.
func (s *arrivals) Next(a *Arrival) error {
	if len(s.late) == 0 {
		return io.EOF
	}
	s.next++
	sent := time.Now().Add(time.Minute) // after the viewer joined
	s.payload[0] = 0x17
	marker{seq: s.next, sent: sent.UnixNano()}.put(s.payload[videoMarkerAt:])
	*a = Arrival{Kind: Video, Size: len(s.payload), Waited: true, At: sent.Add(s.late[0]), Head: s.payload[:]}
	s.late = s.late[1:]
	return nil
}

func (s *arrivals) Close() error { return nil }

// to is latencies of 1 ms, 2 ms, and so on.
func to(n int) []time.Duration {
	late := make([]time.Duration, n)
	for i := range late {
		late[i] = time.Duration(i+1) * time.Millisecond
	}
	return late
}

// Every interval has the latencies of its own tags, within the measurement and
// outside of it; the report has those within it.
func TestMeterTellsOfEachInterval(t *testing.T) {
	m, v := metered()
	near := func(got, want time.Duration) bool { return (got - want).Abs() <= want/25 }
	var sub arrivals
	for _, step := range []struct {
		measuring     bool
		late          []time.Duration
		p50, p95, p99 time.Duration
	}{
		{false, to(100), 51 * time.Millisecond, 96 * time.Millisecond, 100 * time.Millisecond},
		{true, to(1000), 501 * time.Millisecond, 951 * time.Millisecond, 991 * time.Millisecond},
		{true, nil, 0, 0, 0},
		{true, []time.Duration{-time.Second}, 0, 0, 0},
		{false, []time.Duration{time.Hour}, time.Hour, time.Hour, time.Hour},
		{false, to(1), time.Millisecond, time.Millisecond, time.Millisecond},
	} {
		v.load.measuring.Store(step.measuring)
		sub.late = step.late
		if err := v.watch(&sub); err != io.EOF {
			t.Fatal(err)
		}
		n := int64(len(step.late))
		got := m.Interval()
		if got.Tags != n || got.Timed != n || got.Bytes != n*HeadLen || got.Lost != 0 || got.Ended != 0 ||
			!near(got.P50, step.p50) || !near(got.P95, step.p95) || !near(got.P99, step.p99) {
			t.Errorf("%+v, want %d tags with %v, %v, %v", got, n, step.p50, step.p95, step.p99)
		}
	}
	if l := v.group.latency.spread(); l.Count != 1001 || l.Max != time.Second {
		t.Errorf("the report's latency %+v", l)
	}
}

// A tag that was there already came when the one before it did, also if that
// was before the measurement.
func TestLatencyOfTagsThatCameTogether(t *testing.T) {
	m, v := metered()
	var a Arrival
	sub := arrivals{late: []time.Duration{time.Second}}
	if err := sub.Next(&a); err != nil {
		t.Fatal(err)
	}
	v.arrive(a.At)
	v.load.measuring.Store(true)
	found, ok := findMarker(a.Kind, a.Head)
	if !ok {
		t.Fatal("no marker")
	}
	v.number(found, &Arrival{Kind: a.Kind, Head: a.Head})
	if got := m.Interval(); got.Timed != 1 || (got.P50-time.Second).Abs() > time.Second/25 {
		t.Errorf("%+v", got)
	}
	v.closeGap()
	if gap := v.group.gap.spread(); gap != (Spread{}) {
		t.Errorf("a gap that began before the measurement counts: %+v", gap)
	}
}

// What a Meter tells from question to question is what the report says in the end.
func TestMeterAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Meter)
		if got := m.Interval(); got != (Interval{}) {
			t.Errorf("before the load: %+v", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		asked := make(chan Interval)
		go func() {
			var sum Interval
			for sleep(ctx, 70*time.Millisecond) {
				sum = sum.and(m.Interval())
			}
			asked <- sum.and(m.Interval())
		}()
		rep := loadOn(t, newRelay(t, 100), Config{
			Streams: 1, Viewers: 4, Stalled: 1, StallFor: 4 * time.Second, Meter: m,
		})
		stop()
		sum := <-asked
		v, s := rep.Viewers, rep.Stalled
		if sum.Tags != v.Tags+s.Tags || sum.Bytes != v.Bytes+s.Bytes || sum.Lost != v.Lost || sum.Ended != 0 {
			t.Errorf("%+v, and the report has %+v and %+v", sum, v, s)
		}
		if sum.Timed <= v.Latency.Count || sum.Timed > v.Tags {
			t.Errorf("%d tags had a latency, %d of %d during the measurement", sum.Timed, v.Latency.Count, v.Tags)
		}
		if got := m.Interval(); got != (Interval{}) {
			t.Errorf("after the load: %+v", got)
		}
	})
}

// and is both intervals, without their quantiles.
func (i Interval) and(next Interval) Interval {
	return Interval{
		Tags: i.Tags + next.Tags, Bytes: i.Bytes + next.Bytes, Lost: i.Lost + next.Lost, Ended: i.Ended + next.Ended,
		Timed: i.Timed + next.Timed,
	}
}

// A Meter that is handed on tells of the new load alone.
func TestMeterOfAnotherLoad(t *testing.T) {
	m, v := metered()
	if err := v.watch(&arrivals{late: to(10)}); err != io.EOF {
		t.Fatal(err)
	}
	m.Interval()
	m.attach(newRun(v.load.cfg))
	if got := m.Interval(); got != (Interval{}) {
		t.Errorf("%+v", got)
	}
}
