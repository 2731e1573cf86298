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
	// lateAfter is the lag above which a viewer counts as late. A healthy viewer lags less, because
	// a frame waits only for the latency limit and for the writes to other viewers. Only late
	// viewers still need frames that are older than lateAfter and not in the newest GOP.
	lateAfter = time.Second
	// evictAfter is how long the write of one batch to a viewer may take before the viewer may be
	// disconnected. A new viewer with a slow connection takes about this long to receive its first
	// frames.
	evictAfter = 2 * time.Second
	// blockedAfter replaces evictAfter when the other steps have not freed enough memory. It
	// applies only to the viewers of the largest streams.
	blockedAfter = 250 * time.Millisecond
)

type shedder struct{ hub *Hub }

// MemorySteps returns the steps with which h frees memory, in order. Each step except "idle" starts
// with the largest streams, and stops when it has freed enough. Smaller streams are therefore
// spared.
func MemorySteps(h *Hub) []memory.Step {
	s := shedder{h}
	return []memory.Step{
		{Name: "idle", Above: 8, Free: NewHLS(h).endIdle},
		{Name: "groups", Above: 10, Free: s.evictGroups},
		{Name: "laggards", Above: 12, Free: func(excess int64) int64 {
			return s.dropLaggards(excess, nil, evictAfter)
		}},
		{Name: "streams", Above: 14, Free: s.cutLargest},
	}
}

// endIdle ends the HLS of streams that no player has requested during one length of the playlist,
// until it has freed excess bytes.
func (l HLS) endIdle(excess int64) (freed int64) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	for _, w := range l.hub.hls.byName {
		if w.IdleIn(1) <= 0 {
			freed += w.Stats().Bytes
			l.hub.hls.end(w)
		}
		if freed >= excess {
			break
		}
	}
	return freed
}

// evictGroups shortens HLS windows to the minimum length that the standard requires, and drops old
// GOPs.
func (d shedder) evictGroups(excess int64) (freed int64) {
	for _, s := range d.hub.holders() {
		if s.window != nil {
			freed += s.window.Shorten(d.hub.cfg.HLS.MaxBytes)
		}
		for _, r := range s.made() {
			freed += r.Evict(lateAfter, false)
		}
		if freed >= excess {
			break
		}
	}
	return freed
}

// dropLaggards disconnects viewers with a write that has taken longer than after, until it has
// freed excess bytes. It starts with the largest streams, and within a stream with the longest
// write. If of is not nil, it disconnects only viewers of that stream.
func (d shedder) dropLaggards(excess int64, of *stream, after time.Duration) (freed int64) {
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
		case v.node != "" || of != nil && v.stream != of: // other nodes have many viewers
		case v.transport.Reason() != fanout.Connected:
			freed += v.transport.Batch() // freed soon
		case writes && since > after:
			list = append(list, slowViewer{v, v.stream.memory.Stats().InUse, since})
		}
	}
	d.hub.mu.Unlock()
	slices.SortFunc(list, func(a, b slowViewer) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.stream.name, b.stream.name),
			cmp.Compare(b.since, a.since))
	})
	for _, l := range list {
		if freed >= excess {
			break
		}
		freed += l.transport.Batch()
		l.transport.End(fanout.Crowded)
	}
	return freed
}

// errLargest ends the publisher of a stream that uses too much memory.
var errLargest = memory.Short("memory is short, and this stream holds the most")

// cutLargest frees memory of the largest streams, one after the other, until enough is free. For
// each stream it first disconnects the blocked viewers. It then drops the frames that the stream
// keeps, except for some HLS. If that is not enough, it ends the stream's publisher and its HLS. A
// stream that holds less than a quarter of an equal share of the budget is spared, because it is
// not the cause.
func (d shedder) cutLargest(excess int64) (freed int64) {
	list := d.hub.holders()
	for _, s := range list {
		if freed >= excess || s.bytes < d.hub.cfg.Memory.Limit()/int64(4*len(list)) {
			break
		}
		if freed += d.dropLaggards(excess-freed, s.stream, blockedAfter); freed >= excess {
			break
		}
		if s.window != nil {
			s.window.Shorten(d.hub.cfg.HLS.MaxBytes / 4)
		}
		for _, r := range s.made() {
			r.Evict(0, true)
		}
		left := s.memory.Stats().InUse
		if freed += s.bytes - left; freed >= excess {
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
