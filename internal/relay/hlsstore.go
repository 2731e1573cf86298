package relay

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/hls"
)

// A SegmentStore keeps the newest segments of HLS where they outlive this node. Its methods may be called from any
// goroutine. Those that save do not wait; what they are given is saved in order, or lost.
type SegmentStore interface {
	// Save keeps an initialization segment or a segment of a stream for a while. It takes ownership of body.
	Save(stream string, o hls.Object, body *millrace.Chain)

	// SaveFacts keeps what the playlist of a stream says, in place of what an earlier or the same epoch of HLS has said.
	SaveFacts(stream string, epoch uint64, facts []byte)

	// LoadFacts returns what was kept by SaveFacts, or nil if there is nothing.
	LoadFacts(ctx context.Context, stream string) ([]byte, error)
}

const (
	// factsWait is how long a window waits for what the store knows. Players wait meanwhile.
	factsWait = time.Second
	// lastFactsWait is how long it waits, if the window before was still being made, for that one's last facts: if the owner
	// before is alive, it has just learned that it is the owner no more.
	lastFactsWait = 500 * time.Millisecond
	// lastFactsEvery is how often it looks meanwhile.
	lastFactsEvery = 100 * time.Millisecond
)

// hlsFacts are what a store keeps of a playlist: what the window of the next owner goes on with.
type hlsFacts struct {
	Target, Part time.Duration
	Segments     []hls.Listed
	Next         hls.Listed // the segment behind them, with the duration of its parts
	Open         bool       // it is being made
	Ended        bool
	Master       string // the multivariant playlist
	Media        string // the name of the playlist, which says what tracks it has; "" from a node that did not tell
}

// maxFacts is how many segments facts have at most: those of some minutes. They are kept anew with each part.
const maxFacts = 100

// facts returns what is to be kept of w. w.mu is held.
func (w *hlsWindow) facts(open bool) *hlsFacts {
	list := w.window.Listed()
	return &hlsFacts{Target: w.cfg.Target, Part: w.cfg.Part, Segments: list[max(0, len(list)-maxFacts):], Next: w.window.Opening(),
		Open: open, Ended: w.ended, Master: string(w.master()), Media: mediaName(w.movie)}
}

// save gives the store what is complete and new. last says that nothing follows. w.mu is held.
func (w *hlsWindow) save(last bool) {
	store := w.hub.cfg.HLSStore
	if store == nil {
		return
	}
	next, part := w.window.Next()
	if next == w.saved && part == w.savedParts && !last {
		return
	}
	facts := w.facts(!last)
	for _, s := range facts.Segments {
		if s.Epoch != w.cfg.Epoch || s.MSN < w.saved {
			continue
		}
		if s.Init >= w.savedInits {
			w.saveObject(hls.Object{Kind: hls.KindInit, Epoch: s.Epoch, MSN: s.Init})
			w.savedInits = s.Init + 1
		}
		w.saveObject(hls.Object{Kind: hls.KindSegment, Epoch: s.Epoch, MSN: s.MSN})
	}
	w.saved, w.savedParts = next, part
	if text, err := json.Marshal(facts); err == nil {
		store.SaveFacts(w.stream.name, w.cfg.Epoch, text)
	}
}

func (w *hlsWindow) saveObject(o hls.Object) {
	var c millrace.Chain
	if w.window.Append(&c, o) {
		w.hub.cfg.HLSStore.Save(w.stream.name, o, &c)
	}
}

// begin returns a window of cfg for the playlist media, or one that goes on with what the store knows of that playlist.
// first is when the first fragment was live; shown is when the playlist is to say that it was.
func (w *hlsWindow) begin(
	ctx context.Context, cfg hls.Config, media string, first time.Time,
) (window *hls.Window, _ hls.Config, shown time.Time, err error) {
	f, err := w.loadFacts(ctx)
	if err == nil && f != nil {
		next := cfg
		f.Ended = f.Ended || f.Media != "" && f.Media != media // players of other tracks cannot follow
		shown = f.precede(&next, w.first.msn, first)
		if window, err = hls.NewWindow(next); err == nil {
			return window, next, shown, nil
		}
	}
	if err != nil {
		w.stream.log.Warn("HLS does not go on with the playlist that players may have", "reason", err)
	}
	window, err = hls.NewWindow(cfg)
	return window, cfg, first, err
}

// loadFacts returns what the store knows, or nil.
func (w *hlsWindow) loadFacts(ctx context.Context) (*hlsFacts, error) {
	if w.hub.cfg.HLSStore == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, factsWait)
	defer cancel()
	for wait := lastFactsWait; ; wait -= lastFactsEvery {
		text, err := w.hub.cfg.HLSStore.LoadFacts(ctx, w.stream.name)
		if err != nil || text == nil {
			return nil, err
		}
		f, err := readFacts(text)
		if err != nil || !f.Open || wait <= 0 {
			return f, err
		}
		select {
		case <-time.After(lastFactsEvery):
		case <-ctx.Done():
			return f, nil
		}
	}
}

func readFacts(text []byte) (*hlsFacts, error) {
	f := &hlsFacts{}
	return f, json.Unmarshal(text, f)
}

// precede has the window of cfg go on where f ended, if that is not longer ago than the playlist is long: players that
// follow it are still there, and new ones do not begin with what is old. least is the least number that it may begin with.
func (f *hlsFacts) precede(cfg *hls.Config, least uint64, first time.Time) time.Time {
	cfg.Epoch = max(cfg.Epoch, f.Next.Epoch+1)
	length := 3 * f.Target
	var end time.Time
	for _, s := range f.Segments {
		if !s.Gap {
			end = s.Time
		}
		end = end.Add(s.Duration)
		length += s.Duration
	}
	if f.Ended || len(f.Segments) == 0 || first.Sub(end).Abs() > length || least > f.Next.MSN+1 {
		cfg.FirstMSN = max(cfg.FirstMSN, f.Next.MSN+1)
		cfg.FirstDiscontinuity = max(cfg.FirstDiscontinuity, f.Next.Number+1)
		return first
	}
	cfg.Target, cfg.Part, cfg.Segment = f.Target, f.Part, min(cfg.Segment, f.Target)
	cfg.FirstMSN, cfg.Past = f.Next.MSN, f.Segments
	if f.Open {
		gap := f.Next
		// As long as what players have of it, who otherwise have a hole to get over.
		gap.Gap, gap.Duration = true, max(gap.Duration, f.Part)
		cfg.Past = append(cfg.Past, gap)
		cfg.FirstMSN++
		end = end.Add(gap.Duration)
	}
	if first.Before(end) { // by the clock of another machine
		first = end
	}
	return first
}

// StoredHLS returns the playlists that facts, which a SegmentStore has kept, come to while the stream has no owner. They list
// whole segments.
func StoredHLS(facts []byte) (master, media *HLSPlaylist, err error) {
	f, err := readFacts(facts)
	if err != nil {
		return nil, nil, err
	}
	w, err := hls.NewWindow(hls.Config{FirstMSN: f.Next.MSN, Past: f.Segments, Target: f.Target, Part: f.Part,
		Segment: f.Target, Segments: max(1, len(f.Segments)), MaxBytes: 64 << 20})
	if err != nil {
		return nil, nil, err
	}
	defer w.Release()
	if f.Ended {
		w.End()
	}
	if len(f.Segments) == 0 || f.Master == "" {
		return nil, nil, errors.New("the store has no playlist")
	}
	return newPlaylist([]byte(f.Master), f.Target), newPlaylist(w.AppendPlaylist(nil, false), f.Target), nil
}
