package live

import (
	"context"
	"maps"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
)

// A liveHLS is the HLS of a stream: made from the first request until none comes for a while, or
// until players have had the time to get the end of the stream.
type liveHLS struct {
	*hlslive.Window
	stream *stream
	stop   context.CancelFunc // ends Window.Run
	idle   *time.Timer        // calls HLS.checkIdle
	// The HLS of the same stream with other tracks, which has ended, or nil. Guarded by Hub.mu.
	before *liveHLS
}

// An hlsSet has the HLS of all streams. Guarded by Hub.mu.
type hlsSet struct {
	shared  hlslive.Shared
	byName  map[string]*liveHLS
	numbers map[string]hlslive.SequenceStart // for the next window of a name; see keep
}

// init makes an empty set. A request that waits acquires waiting.
func (set *hlsSet) init(cfg *Config, waiting *limit.Limiter) {
	set.shared.Config, set.shared.Store, set.shared.Waiting = &cfg.HLS, cfg.HLSStore, waiting
	set.byName, set.numbers = make(map[string]*liveHLS), make(map[string]hlslive.SequenceStart)
}

// of returns the HLS of s, or nil.
func (set *hlsSet) of(s *stream) *liveHLS {
	if w := set.byName[s.name]; w != nil && w.stream == s {
		return w
	}
	return nil
}

// ended returns the HLS that has ended because the tracks of s changed, if the players of a
// playlist are to see that end. Otherwise it returns nil.
func (set *hlsSet) ended(s *stream, object string) *liveHLS {
	w := set.of(s)
	if w == nil {
		return nil
	}
	if media, ended := w.Media(); media == object && !ended {
		return nil
	}
	for ; w != nil; w = w.before { // at most two
		media, ended := w.Media()
		if ended && (media == object || media != "" && object == hlslive.MediaName) {
			return w
		}
	}
	return nil
}

// add adds a window of s, which the caller runs. The HLS of that name that was there has ended.
func (set *hlsSet) add(s *stream) *liveHLS {
	first := s.hls.After(set.numbers[s.name])
	delete(set.numbers, s.name)
	w := &liveHLS{stream: s}
	if old := set.byName[s.name]; old != nil {
		first = old.NextStart()
		if old.stream == s { // with other tracks: its players have not got to its end yet
			w.before, old = old, old.before
			w.before.before = nil
		}
		if old != nil {
			old.stop()
		}
	}
	w.Window = hlslive.New(&set.shared, s.name, s.log, s.forms.Fragments(), s.lease, first)
	set.byName[s.name] = w
	return w
}

// forget makes requests no longer find w.
func (set *hlsSet) forget(w *liveHLS) {
	if s := w.stream; set.byName[s.name] == w {
		delete(set.byName, s.name)
		s.hls = w.NextStart()
		set.keep(s.name, s.hls)
	}
}

// end ends w, which requests do not find any more.
func (set *hlsSet) end(w *liveHLS) {
	set.forget(w)
	w.stop()
}

// maxHLSNumbers limits the names with kept sequence numbers.
const maxHLSNumbers = 1 << 10

// keep stores the numbers for the next window of a name while they are ahead of the wall clock.
// They get ahead if a stream is sent faster than real time. The stream may have ended.
func (set *hlsSet) keep(name string, n hlslive.SequenceStart) {
	first := set.shared.Config.FirstMSN(time.Now())
	maps.DeleteFunc(set.numbers, func(_ string,
		n hlslive.SequenceStart) bool {
		return n.MSN <= first
	})
	if n.MSN > first && len(set.numbers) < maxHLSNumbers {
		set.numbers[name] = n
	}
}

// stats adds up the HLS of all streams.
func (set *hlsSet) stats() hlslive.Stats {
	st := set.shared.Counters.Stats()
	for _, w := range set.byName {
		st.Add(w.Stats())
	}
	return st
}
