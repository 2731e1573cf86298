package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/memory"
)

const (
	// A viewer counts as late if its lag is longer than lateAfter. A healthy viewer lags less: its
	// frames wait only for the configured latency and for the writes to other viewers.
	//
	// If memory is short, frames older than lateAfter are dropped, except for the newest GOP. Only
	// late viewers still need the dropped frames.
	lateAfter = time.Second
	// evictAfter is how long a write to a viewer may take before the viewer may be disconnected. A
	// new viewer with a slow connection takes about this long to receive its first frames.
	evictAfter = 2 * time.Second
	// blockedAfter is the limit that cutLargest uses instead of evictAfter. It is shorter, because
	// cutLargest runs only if the other steps have not freed enough memory.
	blockedAfter = 250 * time.Millisecond
)

type shedder struct{ hub *Hub }

// MemorySteps returns the steps that free memory of h when memory is short, in order. Each step
// stops when it has freed enough. The first step, "idle", stops making HLS for streams without HLS
// players. Each later step starts with the largest streams, so that smaller streams are spared.
func MemorySteps(h *Hub) []memory.Step {
	s := shedder{h}
	return []memory.Step{
		{Name: "idle", Above: 8, Free: NewHLS(h).endIdle},
		{Name: "groups", Above: 10, Free: s.evictGroups},
		{Name: "laggards", Above: 12, Free: func(n int64) int64 {
			return s.dropLaggards(n, nil, evictAfter)
		}},
		{Name: "streams", Above: 14, Free: s.cutLargest},
	}
}

// endIdle tries to free n bytes, and returns the number of bytes freed. It stops making HLS for
// streams without HLS players. A stream counts as having no HLS players if the time since its last
// HLS request is longer than its playlist.
func (l HLS) endIdle(n int64) (freed int64) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	for _, w := range l.hub.hls.byName {
		if w.IdleIn(1) <= 0 {
			freed += w.Stats().Bytes
			l.hub.hls.end(w)
		}
		if freed >= n {
			break
		}
	}
	return freed
}

// evictGroups tries to free n bytes, and returns the number of bytes freed. It shortens HLS windows
// to the minimum length that the standard requires, and drops old GOPs.
func (d shedder) evictGroups(n int64) (freed int64) {
	for _, s := range d.hub.holders() {
		if s.window != nil {
			freed += s.window.Shorten(d.hub.cfg.HLS.MaxBytes)
		}
		for _, r := range s.renditions() {
			freed += r.Evict(lateAfter, false)
		}
		if freed >= n {
			break
		}
	}
	return freed
}

// dropLaggards disconnects viewers whose current write exceeds timeout, until it has freed n bytes.
// If s is not nil, it disconnects only viewers of s. It starts with the largest streams, and within
// a stream with the longest write. It returns the number of bytes freed.
func (d shedder) dropLaggards(n int64, s *stream, timeout time.Duration) (freed int64) {
	type slowViewer struct {
		*Viewer
		bytes int64
		since time.Duration
	}
	var list []slowViewer
	d.hub.mu.Lock()
	for v := range d.hub.served {
		since, writes := v.transport.WritingFor()
		switch {
		case v.node != "" || s != nil && v.stream != s: // another node may serve many viewers
		case v.transport.Reason() != fanout.Connected:
			freed += v.transport.Batch() // freed soon
		case writes && since > timeout:
			list = append(list, slowViewer{v, v.stream.memory.Stats().InUse, since})
		}
	}
	d.hub.mu.Unlock()
	slices.SortFunc(list, func(a, b slowViewer) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.stream.name, b.stream.name),
			cmp.Compare(b.since, a.since))
	})
	for _, l := range list {
		if freed >= n {
			break
		}
		freed += l.transport.Batch()
		l.transport.End(fanout.Crowded)
	}
	return freed
}

var errLargest = memory.Short("memory is short, and this stream holds the most")

// cutLargest tries to free n bytes, and returns the number of bytes freed. From the largest stream
// on, it takes these steps until it has freed enough:
//   - It disconnects viewers whose current write exceeds blockedAfter.
//   - It shortens the HLS playlist, and drops all frames that the stream keeps for viewers.
//   - It disconnects the publisher, and stops making HLS.
//
// It spares streams that hold less than a quarter of their fair share of the budget, because they
// are not the cause of the shortage.
func (d shedder) cutLargest(n int64) (freed int64) {
	list := d.hub.holders()
	for _, s := range list {
		if freed >= n || s.bytes < d.hub.cfg.Memory.Limit()/int64(4*len(list)) {
			break
		}
		if freed += d.dropLaggards(n-freed, s.stream, blockedAfter); freed >= n {
			break
		}
		if s.window != nil {
			s.window.Shorten(d.hub.cfg.HLS.MaxBytes / 4)
		}
		for _, r := range s.renditions() {
			r.Evict(0, true)
		}
		left := s.memory.Stats().InUse
		if freed += s.bytes - left; freed >= n {
			break
		}
		freed += left // freed soon
		d.hub.mu.Lock()
		if s.pause == nil {
			s.publisher.cancel(errLargest)
		}
		if s.window != nil {
			s.window.stop()
		}
		d.hub.mu.Unlock()
	}
	return freed
}
