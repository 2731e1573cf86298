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
	// If memory is short, frames older than lateAfter are dropped, except for the newest GOP.
	// Healthy viewers do not need them: their frames wait only for the configured latency and for
	// the writes to other viewers.
	lateAfter = time.Second
	// evictAfter is how long the write of a batch may take before the viewer may be disconnected. A
	// new viewer with a slow connection takes about this long for its first frames.
	evictAfter = 2 * time.Second
	// blockedAfter replaces evictAfter in cutLargest, which runs if the other steps do not suffice.
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

// endIdle stops making HLS for streams whose last HLS request was longer ago than the length of the
// playlist.
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

// evictGroups shortens HLS windows to the minimum that the standard requires, and drops old GOPs.
func (d shedder) evictGroups(n int64) (freed int64) {
	for _, s := range d.hub.holders() {
		if s.window != nil {
			freed += s.window.Shorten(d.hub.cfg.HLS.MaxBytes)
		}
		for _, r := range s.made() {
			freed += r.Evict(lateAfter, false)
		}
		if freed >= n {
			break
		}
	}
	return freed
}

// dropLaggards disconnects viewers whose current write has taken longer than timeout: only those of
// s, if s is not nil. It starts with the largest streams, and there with the longest writes.
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
		case v.node != "" || s != nil && v.stream != s: // other nodes have many viewers
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

// cutLargest frees memory of the largest streams, one after the other. For each stream, it
// disconnects blocked viewers, then drops what the stream keeps, and last ends the publisher and
// the HLS.
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
		for _, r := range s.made() {
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
