package live

import (
	"context"
	"maps"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
)

// A liveHLS makes the HLS playlists and segments of a stream. It begins with the first request, and
// ends when there has been no request for a while. After the stream has ended, the liveHLS
// continues for a time, so that players can still fetch the last segments.
type liveHLS struct {
	*hlslive.Window
	stream *stream
	stop   context.CancelFunc // ends Window.Run
	idle   *time.Timer        // calls HLS.checkIdle
	// The previous liveHLS of the stream, which ended because the tracks changed. It is nil if the
	// tracks have not changed. Guarded by Hub.mu.
	before *liveHLS
}

// An hlsSet holds a liveHLS for each stream that has HLS. It is guarded by Hub.mu.
type hlsSet struct {
	shared  hlslive.Shared
	byName  map[string]*liveHLS
	numbers map[string]hlslive.SequenceStart // by stream name; see keepNumbers
}

func (set *hlsSet) init(cfg *Config, limiter *limit.Limiter) {
	set.shared.Config, set.shared.Store, set.shared.Waiting = &cfg.HLS, cfg.HLSStore, limiter
	set.byName, set.numbers = make(map[string]*liveHLS), make(map[string]hlslive.SequenceStart)
}

func (set *hlsSet) get(s *stream) *liveHLS {
	if w := set.byName[s.name]; w != nil && w.stream == s {
		return w
	}
	return nil
}

// findEnded finds a liveHLS of s that has ended and that made the named playlist file. If there is
// none, findEnded returns nil.
//
// When the tracks of s change, the liveHLS of s ends and a new one begins. Players of the old
// playlist must still receive the end of that playlist.
func (set *hlsSet) findEnded(s *stream, file string) *liveHLS {
	w := set.get(s)
	if w == nil {
		return nil
	}
	if media, ended := w.Media(); media == file && !ended {
		return nil
	}
	for ; w != nil; w = w.before { // at most two iterations
		media, ended := w.Media()
		if ended && (media == file || media != "" && file == hlslive.MediaName) {
			return w
		}
	}
	return nil
}

// addHLS adds a new liveHLS for s. The caller must call its Run method. An earlier liveHLS with the
// same stream name must have ended.
func (set *hlsSet) addHLS(s *stream) *liveHLS {
	first := s.hls.After(set.numbers[s.name])
	delete(set.numbers, s.name)
	w := &liveHLS{stream: s}
	if old := set.byName[s.name]; old != nil {
		first = old.NextStart()
		if old.stream == s { // the tracks changed; the players of old must receive its end
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

func (set *hlsSet) forget(w *liveHLS) {
	if s := w.stream; set.byName[s.name] == w {
		delete(set.byName, s.name)
		s.hls = w.NextStart()
		set.keepNumbers(s.name, s.hls)
	}
}

func (set *hlsSet) end(w *liveHLS) {
	set.forget(w)
	w.stop()
}

const maxHLSNumbers = 1 << 10

// keepNumbers stores the smallest sequence numbers that the next window of the named stream may
// use. The parameter next holds these numbers. The numbers stay stored after the stream has ended.
//
// Usually nothing needs to be stored, because [hlslive.Config.FirstMSN] grows with time, and is
// already greater than all used media sequence numbers. FirstMSN is less than next.MSN only if the
// stream was sent faster than real time. Stored numbers are deleted when FirstMSN has caught up
// with them.
func (set *hlsSet) keepNumbers(name string, next hlslive.SequenceStart) {
	first := set.shared.Config.FirstMSN()
	maps.DeleteFunc(set.numbers, func(_ string, old hlslive.SequenceStart) bool {
		return old.MSN <= first
	})
	if next.MSN > first && len(set.numbers) < maxHLSNumbers {
		set.numbers[name] = next
	}
}

func (set *hlsSet) stats() hlslive.Stats {
	st := set.shared.Counters.Stats()
	for _, w := range set.byName {
		st.Add(w.Stats())
	}
	return st
}
