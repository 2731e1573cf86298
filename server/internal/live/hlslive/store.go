package hlslive

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/media/hls"
)

const (
	// loadTimeout limits the time to load the stored state of a playlist. It is short because
	// players must wait until the state is loaded.
	loadTimeout = time.Second
	// lastStateWait is how long a new owner of the stream waits for the previous owner to store the
	// final state of the playlist. The previous owner stores this state when it learns that it is
	// no longer the owner.
	lastStateWait  = 500 * time.Millisecond
	lastStateEvery = 100 * time.Millisecond
)

// A playlistState is the state of a playlist from which another owner of the stream continues. It
// is stored as JSON, which nodes of other versions may read.
type playlistState struct {
	Target, Part time.Duration
	Segments     []hls.Listed
	Next         hls.Listed // the next segment, with the total duration of its parts so far
	Open         bool       // Next was not complete
	Ended        bool
	Master       string // the multivariant playlist
	Media        string // name of the media playlist; "" if an older version stored the state
}

// maxStateSegments limits the number of segments in a playlistState. The limit is needed because
// the entire playlistState is saved with each part.
const maxStateSegments = 100

// A saver saves the state and the segments of one window to a SegmentStore.
type saver struct {
	store  SegmentStore // nil: nothing is saved
	stream string

	msn   uint64 // the store has all segments with smaller numbers
	parts int    // number of parts of segment msn in the stored state
	inits uint64 // the store has all init segments with smaller numbers
}

func (s *saver) hasNews(window *hls.Window) bool {
	msn, parts := window.Next()
	return msn != s.msn || parts != s.parts
}

// save stores the complete segments of the window that are not stored yet, and the state of its
// playlist. epoch is the number in the names of this window's segments. Segments of earlier windows
// have other epochs. ownership is the epoch of this node's ownership of the stream.
func (s *saver) save(window *hls.Window, epoch, ownership uint64, state *playlistState) {
	for _, segment := range state.Segments {
		if segment.Epoch != epoch || segment.MSN < s.msn {
			continue
		}
		if segment.Init >= s.inits {
			s.saveObject(window, hls.Object{Kind: hls.KindInit, Epoch: epoch, MSN: segment.Init})
			s.inits = segment.Init + 1
		}
		s.saveObject(window, hls.Object{Kind: hls.KindSegment, Epoch: epoch, MSN: segment.MSN})
	}
	s.msn, s.parts = window.Next()
	if text, err := json.Marshal(state); err == nil {
		s.store.SaveState(s.stream, ownership, text)
	}
}

func (s *saver) saveObject(window *hls.Window, o hls.Object) {
	var c millrace.Chain
	if window.Append(&c, o) {
		s.store.Save(s.stream, o, &c)
	}
}

// load returns the latest stored state of the playlist, or nil if there is none.
func (s *saver) load(ctx context.Context) (*playlistState, error) {
	if s.store == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	for wait := lastStateWait; ; wait -= lastStateEvery {
		text, err := s.store.LoadState(ctx, s.stream)
		if err != nil || text == nil {
			return nil, err
		}
		state, err := parseState(text)
		if err != nil || !state.Open || wait <= 0 {
			return state, err
		}
		if !sleep.For(ctx, lastStateEvery) {
			return state, nil
		}
	}
}

func parseState(text []byte) (*playlistState, error) {
	s := &playlistState{}
	return s, json.Unmarshal(text, s)
}

// continueIn changes cfg so that a new window continues the stored playlist s. minMSN is the
// smallest media sequence number that the window may use. Its first fragment began at localDate by
// the clock of this machine. continueIn returns the date of this fragment in the playlist:
// localDate, or the end of s if that is later.
//
// Players cannot continue s if it is empty or has ended, if it ends too far from localDate, or if
// segments between s and minMSN are missing. continueIn then returns localDate, and raises the
// numbers in cfg above those of s. If only segments are missing, players may still follow s, so cfg
// also gets the durations of s.
func (s *playlistState) continueIn(cfg *hls.Config, minMSN uint64,
	localDate time.Time) (date time.Time) {
	cfg.Epoch = max(cfg.Epoch, s.Next.Epoch+1)
	length := 3 * s.Target
	var end time.Time
	for _, segment := range s.Segments {
		if !segment.Gap {
			end = segment.Time
		}
		end = end.Add(segment.Duration)
		length += segment.Duration
	}
	followed := !s.Ended && len(s.Segments) > 0 && localDate.Sub(end).Abs() <= length
	if followed {
		cfg.Target, cfg.Part, cfg.Segment = s.Target, s.Part, min(cfg.Segment, s.Target)
	}
	if !followed || minMSN > s.Next.MSN+1 {
		cfg.FirstMSN = max(cfg.FirstMSN, s.Next.MSN+1)
		cfg.FirstDiscontinuity = max(cfg.FirstDiscontinuity, s.Next.Number+1)
		return localDate
	}
	cfg.FirstMSN, cfg.Past = s.Next.MSN, s.Segments
	if s.Open {
		gap := s.Next
		// The gap covers the parts that players already have. A shorter gap would leave a hole.
		gap.Gap, gap.Duration = true, max(gap.Duration, s.Part)
		cfg.Past = append(cfg.Past, gap)
		cfg.FirstMSN++
		if gap.Time.After(end) {
			end = gap.Time
		}
		end = end.Add(gap.Duration)
	}
	if localDate.Before(end) { // end is from the clock of another machine
		localDate = end
	}
	return localDate
}

// Stored returns the playlists of a stream that no node owns. The playlists list only complete
// segments, without parts. state is the result of SegmentStore.LoadState.
func Stored(state []byte) (master, media *Playlist, err error) {
	s, err := parseState(state)
	if err != nil {
		return nil, nil, err
	}
	w, err := hls.NewWindow(hls.Config{FirstMSN: s.Next.MSN, Past: s.Segments, Target: s.Target,
		Part:    s.Part,
		Segment: s.Target, Segments: max(1, len(s.Segments)), MaxBytes: 64 << 20})
	if err != nil {
		return nil, nil, err
	}
	defer w.Release()
	if s.Ended {
		w.End()
	}
	if len(s.Segments) == 0 || s.Master == "" {
		return nil, nil, errors.New("the store has no playlist")
	}
	return newPlaylist([]byte(s.Master), s.Target),
		newPlaylist(w.AppendPlaylist(nil, false), s.Target), nil
}
