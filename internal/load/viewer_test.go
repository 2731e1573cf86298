package load

import (
	"io"
	"testing"
	"time"
)

// arrivals is a subscription to tags with the given latencies, and its end.
type arrivals struct {
	next    uint64
	late    []time.Duration
	payload [HeadLen]byte
}

// newWatching returns a viewer that is connected.
func newWatching() *viewer {
	r := newRun(Config{Streams: 1, URL: "http://127.0.0.1", Viewers: 1}.WithDefaults())
	v := r.viewers[0]
	v.joined = time.Now()
	return v
}

// Next returns keyframes, so that a viewer can start with any of them.
func (s *arrivals) Next(a *Arrival) error {
	if len(s.late) == 0 {
		return io.EOF
	}
	s.next++
	sent := time.Now().Add(time.Minute) // after the viewer has joined
	s.payload[0] = keyPicture
	marker{seq: s.next, sent: sent.UnixNano()}.put(s.payload[videoMarkerAt:])
	*a = Arrival{Kind: Video, Size: len(s.payload), Waited: true, At: sent.Add(s.late[0]),
		Head: s.payload[:]}
	s.late = s.late[1:]
	return nil
}

func (s *arrivals) Close() error { return nil }

// Only tags that arrive during the measurement have a latency.
func TestLatencyOfTheMeasurement(t *testing.T) {
	v := newWatching()
	var sub arrivals
	for _, measuring := range []bool{false, true, false} {
		v.load.measuring.Store(measuring)
		sub.late = []time.Duration{time.Hour}
		if measuring {
			sub.late = []time.Duration{-time.Second, time.Second}
		}
		if err := v.watch(&sub); err != io.EOF {
			t.Fatal(err)
		}
	}
	if l := v.group.latency.spread(); l.Count != 2 || l.Max != time.Second {
		t.Errorf("%+v, want two values of 1 s at most", l)
	}
	if got := v.group.report(); got.Tags != 4 || got.Lost != 0 || got.Repeated != 0 ||
		!got.Numbered {
		t.Errorf("%+v, want 4 tags, none lost and none repeated", got)
	}
}

// A server may continue the stream of an earlier load. Its tags do not count.
func TestTagsOfAnEarlierLoadAreNotCounted(t *testing.T) {
	v := newWatching()
	var sub arrivals
	sub.next, sub.late = 500, []time.Duration{0, 0}
	v.load.began = time.Now().Add(time.Hour).UnixNano() // after they were sent
	_ = v.watch(&sub)
	v.load.began = 0
	sub.next, sub.late = 0, []time.Duration{0, 0, 0}
	_ = v.watch(&sub)
	if got := v.group.report(); got.Tags != 5 || got.Lost != 0 || got.Repeated != 0 {
		t.Errorf("%+v, want 5 tags, none lost and none repeated", got)
	}
}

// If a tag was read together with the tag before it, it arrived at the same time, even if that was
// before the measurement.
func TestLatencyOfTagsThatCameTogether(t *testing.T) {
	v := newWatching()
	var a Arrival
	sub := arrivals{late: []time.Duration{time.Second}}
	if err := sub.Next(&a); err != nil {
		t.Fatal(err)
	}
	v.measureGap(a.At)
	v.load.measuring.Store(true)
	found, ok := findMarker(a.Kind, a.Head)
	if !ok {
		t.Fatal("no marker")
	}
	v.checkSeq(found, &Arrival{Kind: a.Kind, Head: a.Head})
	if l := v.group.latency.spread(); l.Count != 1 || (l.P50-time.Second).Abs() > time.Second/25 {
		t.Errorf("%+v, want one value of 1 s", l)
	}
	v.closeGap()
	if gap := v.group.gap.spread(); gap != (Spread{}) {
		t.Errorf("a gap that began before the measurement counts: %+v", gap)
	}
}
