package load

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

type viewer struct {
	load   *run
	group  *group
	stream string
	stalls bool // the viewer reads nothing during the first StallFor

	joined  time.Time // time at which the server accepted the viewer
	lastSeq uint64    // number of the newest tag with a marker; 0 before the first
	lastAt  time.Time
	gapFrom time.Time // start of the current gap; zero if there is none to measure
}

// run watches the stream until ctx ends or the server ends the stream. If the server disconnects
// the viewer, the viewer does not connect again, because that would hide the disconnect.
func (v *viewer) run(ctx context.Context) {
	sub, err := persist(ctx, func() (Subscription,
		error) {
		return v.load.proto.Watch(ctx, v.stream)
	})
	if err != nil {
		v.group.ends.add(ctx, err)
		return
	}
	defer sub.Close()
	v.joined = time.Now()
	v.group.connected.Add(1)
	v.group.watching.Add(1)
	defer v.group.watching.Add(-1)

	if v.stalls && !sleep.For(ctx, v.load.cfg.StallFor) {
		return
	}
	err = v.watch(sub)
	v.closeGap()
	v.group.ends.add(ctx, err)
}

func (v *viewer) watch(sub Subscription) error {
	var a Arrival
	for {
		if err := sub.Next(&a); err != nil {
			return err
		}
		v.group.bytes.Add(int64(a.Size))
		v.group.tags.Add(1)
		if a.Waited {
			v.measureGap(a.At)
		}
		if m, ok := findMarker(a.Kind, a.Head); ok {
			v.group.numbered.Store(true)
			v.checkSeq(m, &a)
		}
	}
}

// measureGap measures the gap since the last arrival. Tags that arrive together are one arrival.
func (v *viewer) measureGap(at time.Time) {
	v.lastAt = at
	if !v.load.measuring.Load() {
		return
	}
	if !v.gapFrom.IsZero() {
		v.group.gap.add(at.Sub(v.gapFrom))
	}
	v.gapFrom = at
}

// closeGap is called when the viewer will receive no more tags. If the time since the last arrival
// is longer than all earlier gaps, it becomes the maximum gap.
func (v *viewer) closeGap() {
	if !v.gapFrom.IsZero() {
		v.group.gap.raiseMax(time.Since(v.gapFrom))
	}
}

// checkSeq counts lost and repeated tags by their numbers, and measures the latency. It ignores
// these tags:
//
//   - Tags before the first keyframe. A server may send audio before that, but no video.
//   - Tags from before the load test, unless another program publishes. They may belong to an
//     earlier test.
//   - For the latency, tags from before the viewer joined, which the server replays.
func (v *viewer) checkSeq(m marker, a *Arrival) {
	if m.sent < v.load.began && !v.load.cfg.NoPublish {
		return
	}
	if v.lastSeq == 0 && (a.Kind != Video || a.Head[0]>>4 != 1) {
		return
	}
	switch {
	case v.lastSeq == 0 || m.seq == v.lastSeq+1:
		v.lastSeq = m.seq
	case m.seq > v.lastSeq:
		v.group.lost.Add(int64(m.seq - v.lastSeq - 1))
		v.group.jumps.Add(1)
		v.lastSeq = m.seq
	default:
		v.group.repeated.Add(1)
		return
	}
	if v.load.measuring.Load() && m.sent >= v.joined.UnixNano() && !v.lastAt.IsZero() {
		v.group.latency.add(time.Duration(v.lastAt.UnixNano() - m.sent))
	}
}
