package relay

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
)

const (
	// lateAfter is how far behind a viewer is that is not healthy: a frame waits for the latency bound, and for the round.
	// What a stream keeps that is older is for late viewers alone, unless it is of the newest group of pictures.
	lateAfter = time.Second
	// crowdedAfter is for how long a viewer holds a batch that it does not take before it may be disconnected for it. A new
	// viewer of a slow connection takes about so long for what it begins with.
	crowdedAfter = 2 * time.Second
	// blockedAfter is the same for the largest stream, when nothing else has helped: more than a moment.
	blockedAfter = 250 * time.Millisecond
)

// MemorySteps returns what h can do when memory is short, in order. The largest streams are always the first ones: a stream
// that holds less than others is left alone.
func (h *Hub) MemorySteps() []memory.Step {
	return []memory.Step{
		{Name: "idle", Above: 8, Free: h.endIdleHLS},
		{Name: "groups", Above: 10, Free: h.evictGroups},
		{Name: "laggards", Above: 12, Free: func(excess int64) int64 { return h.dropLaggards(excess, nil, crowdedAfter) }},
		{Name: "streams", Above: 14, Free: h.cutLargest},
	}
}

// endIdleHLS ends the HLS that no player has asked for while all that a playlist has was played.
func (h *Hub) endIdleHLS(excess int64) (freed int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.hls.byName {
		if w.IdleIn(1) <= 0 {
			freed += w.Stats().Bytes
			h.hls.end(w)
		}
		if freed >= excess {
			break
		}
	}
	return freed
}

// A holder is a stream, and the memory that its publishers' bytes are in.
type holder struct {
	*stream
	bytes   int64
	visible bool     // viewers can find it
	window  *liveHLS // its HLS; nil if none is made
}

// made returns the renditions of s that are being made.
func (s *holder) made() []*rendition {
	if !s.visible {
		return nil
	}
	return s.renditions()
}

// holders returns the streams, the one that holds the most first. Viewers cannot find some of them:
// nothing that came is complete.
func (h *Hub) holders() (list []holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range maps.Values(h.streams) {
		list = append(list, holder{s, s.memory.Stats().InUse, s.live != nil, h.hls.of(s)})
	}
	slices.SortFunc(list, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	return list
}

// evictGroups has the windows of HLS hold no more than the rules ask for, and drops old groups of pictures.
func (h *Hub) evictGroups(excess int64) (freed int64) {
	for _, s := range h.holders() {
		if s.window != nil {
			freed += s.window.Shorten(h.cfg.HLS.MaxBytes)
		}
		for _, r := range s.made() {
			freed += r.ring.Evict(lateAfter, false)
		}
		if freed >= excess {
			break
		}
	}
	return freed
}

// dropLaggards disconnects viewers whose connections have not taken what they hold for so long, of a stream or, if of is nil,
// of all: those of the largest streams first, and of these the latest.
func (h *Hub) dropLaggards(excess int64, of *stream, after time.Duration) (freed int64) {
	type laggard struct {
		*viewer
		bytes int64
		since time.Duration
	}
	var list []laggard
	h.mu.Lock()
	for v := range h.served {
		since, writes := v.transport.WritingFor()
		switch {
		case v.node != "" || of != nil && v.rendition.stream != of: // a node stands for any number of viewers
		case v.transport.Reason() != fanout.Connected:
			freed += v.transport.Batch() // soon
		case writes && since > after:
			list = append(list, laggard{v, v.rendition.stream.memory.Stats().InUse, since})
		}
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b laggard) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.rendition.stream.name, b.rendition.stream.name),
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

// errLargest ends the publisher of a stream because of what the stream holds.
var errLargest = memory.Short("memory is short, and this stream holds the most")

// cutLargest disconnects the viewers of the largest streams that are blocked, drops what these streams keep, but for some HLS,
// and at last ends their publishers and their HLS. A stream that holds less than a quarter of what the budget has for each is not the
// cause, and is left alone.
func (h *Hub) cutLargest(excess int64) (freed int64) {
	list := h.holders()
	for _, s := range list {
		if freed >= excess || s.bytes < h.cfg.Memory.Limit()/int64(4*len(list)) {
			break
		}
		if freed += h.dropLaggards(excess-freed, s.stream, blockedAfter); freed >= excess {
			break
		}
		if s.window != nil {
			s.window.Shorten(h.cfg.HLS.MaxBytes / 4)
		}
		for _, r := range s.made() {
			r.ring.Evict(0, true)
		}
		left := s.memory.Stats().InUse
		if freed += s.bytes - left; freed >= excess {
			break
		}
		freed += left // soon
		h.mu.Lock()
		if s.wait == nil {
			s.publisher.cancel(errLargest)
		}
		if s.window != nil {
			s.window.stop()
		}
		h.mu.Unlock()
	}
	return freed
}
