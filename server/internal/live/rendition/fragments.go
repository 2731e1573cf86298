package rendition

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live/convert"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
)

// ErrNotMade is returned by FragmentReader.Next if the stream cannot be converted to MP4.
var ErrNotMade = errors.New("the stream has nothing, or nothing any more, that MP4 is made of")

// A FragmentReader reads a stream as MP4 fragments, also after the codecs have changed. It
// implements [hlslive.Source]. One goroutine at a time may use it. The caller must call Release.
//
// When the codecs change, the reader reads the rest of its rendition, and then the next rendition
// from the first fragment.
type FragmentReader struct {
	set *Set
	place
	next    []place // where r continues after place, in order; guarded by set.mu
	skipped bool    // a rendition after next is left out; guarded by set.mu

	init  millrace.Chain // the init segment of the next fragments
	movie *mp4.Movie     // describes init
	early bool           // the first video frame, which is a keyframe, has not come yet
	lost  bool           // fragments before the next fragment are missing
}

// A place is a position in a rendition.
type place struct {
	from   *Rendition // nil before the first rendition, and between two renditions
	cursor *broadcast.Cursor
}

// maxNext limits the number of renditions that wait for a FragmentReader. Together they also have
// at most Config.KeepBytes, not counting the last one. A FragmentReader that is further behind
// continues at the newest keyframe.
const maxNext = 16

// Next appends the next fragment to dst, which then owns it. At the end of the stream it returns
// io.EOF. If the stream cannot be converted to MP4, it returns ErrNotMade.
func (r *FragmentReader) Next(ctx context.Context, dst *millrace.Chain) (hlslive.Fragment, error) {
	for {
		if r.from == nil {
			r.begin()
		}
		var c millrace.Chain
		b, err := r.cursor.Next(ctx, &c)
		if b.Missed.Why != broadcast.NotMissed {
			r.lost, r.early = true, false
		}
		if b.Frames > 0 {
			return r.take(dst, &c, b), nil
		}
		if err == io.EOF {
			switch r.from.fanout.Reason() {
			case fanout.CodecsChanged:
				r.end()
				continue
			case fanout.ConversionFailed:
				return hlslive.Fragment{}, ErrNotMade
			}
		}
		if err != nil {
			return hlslive.Fragment{}, err
		}
	}
}

// Fragments returns a reader that starts at the newest keyframe, or at the next one if none is
// kept. The caller must call Release on the reader.
func (s *Set) Fragments() *FragmentReader {
	r := &FragmentReader{set: s}
	r.begin()
	return r
}

// begin moves r to the next rendition. If there is none, it starts the conversion if necessary, and
// moves r to the newest keyframe.
func (r *FragmentReader) begin() {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()
	r.early = !s.facts.NoVideo.Load() // with NoVideo, audio fragments are keyframes
	if len(r.next) > 0 {
		r.place, r.next = r.next[0], r.next[1:]
		return
	}
	r.place = r.enter(s.get(MP4))
	r.lost, r.skipped = r.lost || r.skipped, false
}

// follow makes r continue with the rendition from, which must be empty. The caller must hold
// r.set.mu.
func (r *FragmentReader) follow(from *Rendition) {
	if r.canFollow() {
		r.next = append(r.next, r.enter(from, broadcast.FromHead()))
	}
}

// canFollow reports whether another rendition may wait for r. If not, it sets r.skipped. The caller
// must hold r.set.mu.
func (r *FragmentReader) canFollow() bool {
	var bytes int64
	for _, p := range r.next {
		bytes += p.from.Stats().Bytes
	}
	r.skipped = r.skipped || len(r.next) == maxNext || bytes >= r.set.cfg.KeepBytes
	return !r.skipped
}

// enter makes r a reader of from. The caller must hold r.set.mu.
func (r *FragmentReader) enter(from *Rendition, opts ...broadcast.CursorOption) place {
	from.readers[r] = struct{}{}
	return place{from: from, cursor: from.sourceCursor(append(opts, broadcast.BatchFrames(1))...)}
}

// end leaves the rendition, and stops the conversion if nothing else uses it.
func (r *FragmentReader) end() {
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	r.leave(r.place)
	r.place = place{}
}

// leave makes r no longer a reader of p.from. The caller must hold r.set.mu.
func (r *FragmentReader) leave(p place) {
	if p.from == nil {
		return
	}
	p.cursor.Close()
	delete(p.from.readers, r)
	r.set.stopUnused(p.from)
}

// Release stops reading, and releases the memory that r holds.
func (r *FragmentReader) Release() {
	r.end()
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	for _, p := range r.next {
		r.leave(p)
	}
	r.next = nil
	r.init.Release()
}

// AppendInit appends a reference to the latest fragment's init segment to dst.
func (r *FragmentReader) AppendInit(dst *millrace.Chain) { r.init.CloneTo(dst) }

// KeyInterval returns the usual time between two keyframes, or 0 if it is unknown.
func (r *FragmentReader) KeyInterval() time.Duration {
	return time.Duration(r.set.facts.UsualInterval.Load()) * time.Millisecond
}

// ExpectsKey reports whether the stream has had keyframes, and still has video.
func (r *FragmentReader) ExpectsKey() bool {
	return r.set.HasStart() && !r.set.facts.NoVideo.Load()
}

// take moves the fragment of the batch b from c to dst, and returns a description of the fragment.
func (r *FragmentReader) take(dst, c *millrace.Chain, b broadcast.Batch) hlslive.Fragment {
	info := b.Info.(*convert.Fragment)
	f := hlslive.Fragment{FragmentInfo: info.FragmentInfo, Movie: info.Movie, KeyNext: info.KeyNext,
		AfterLoss: r.lost}
	if b.Preamble > 0 { // a preamble is also sent after a loss
		r.init.Release()
		c.CutTo(&r.init, b.Preamble)
		f.NewInit = info.Movie != r.movie
		r.movie = info.Movie
	}
	r.lost = false
	r.early = r.early && f.Pictures == 0
	f.Early = r.early
	dst.Merge(c)
	return f
}
