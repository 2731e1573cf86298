package hlslive

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Master returns the multivariant playlist. It waits until the tracks of the stream are known.
func (w *Window) Master(ctx context.Context) (list *Playlist, err error) {
	err = w.await(ctx, func() (bool, error) {
		if w.window == nil {
			return false, nil
		}
		list = newPlaylist(w.master(), w.cfg.Target)
		return true, nil
	})
	return list, err
}

// Playlist returns the media playlist with the given file name. query is the query of the request.
// If block is set, Playlist waits until the playlist has the segment or part that the query names.
// An error is a [refuse.Refusal], the error of ctx, or ErrElsewhere, which means that this node
// does not own the stream.
func (w *Window) Playlist(ctx context.Context, object string, query hls.Reload,
	block bool) (list *Playlist, err error) {
	arrival, late := nanotime(), false
	err = w.await(ctx, func() (bool, error) {
		if w.window == nil {
			return false, nil
		}
		if object != mediaName(w.movie) && object != MediaName {
			return false, refuse.New(http.StatusNotFound,
				"stream %q has other tracks than %s now: ask for %s", w.name, object, MasterName)
		}
		switch status := w.window.Status(query); {
		case !block:
		case status == hls.Wait:
			if late = w.news.timedOut(arrival, w.cfg.Target); !late {
				return false, nil
			}
		case status == hls.TooFar:
			msn, part := w.window.Next()
			return false, refuse.New(http.StatusBadRequest,
				"segment %d is too far ahead: part %d of segment %d is next", query.MSN, part, msn)
		}
		lasts := w.cfg.Target
		if block {
			lasts = w.cfg.Part
		}
		w.players.add(nanotime(), w.cfg.Target, lasts)
		list = w.render(query.Skip)
		if late {
			list = &Playlist{Text: list.Text, Gzip: list.Gzip, Target: list.Target, Late: true}
		}
		w.shared.Counters.Playlists.Add(1)
		return true, nil
	})
	return list, err
}

// Object appends the bytes of o to dst without copying them. The caller keeps ownership of dst. If
// o is the next part to be made, Object waits for it. An error is a [refuse.Refusal], the error of
// ctx, or ErrElsewhere, which means that this node does not own the stream.
func (w *Window) Object(ctx context.Context, o hls.Object, dst *millrace.Chain) error {
	arrival := nanotime()
	return w.await(ctx, func() (bool, error) {
		switch {
		case w.window == nil:
			return false, Absent(w.name, o)
		case w.window.Append(dst, o):
			w.shared.Counters.Objects.Add(1)
			w.shared.Counters.Bytes.Add(int64(dst.Len()))
			return true, nil
		case w.ended || !w.isNext(o):
			return false, Absent(w.name, o)
		case w.news.timedOut(arrival, w.cfg.Target):
			return false, refuse.New(http.StatusServiceUnavailable,
				"%s has not come: stream %q waits for its publisher", o, w.name).After(time.Second)
		}
		return false, nil
	})
}

// Absent returns the error that answers a request for a missing HLS object, such as a segment that
// the server no longer has.
func Absent(name string, o hls.Object) error {
	return refuse.New(http.StatusNotFound, "%s is not, or no longer, in the window of stream %q", o,
		name)
}

// isNext reports whether o is the next part that will be made, or the first part of the next
// segment. The caller must hold w.mu.
func (w *Window) isNext(o hls.Object) bool {
	msn, part := w.window.Next()
	return o.Kind == hls.KindPart && o.Epoch == w.cfg.Epoch &&
		(o.MSN == msn && o.Part == part || o.MSN == msn+1 && o.Part == 0)
}

// mostStart limits the wait for the first playlist of a stream. If the publisher comes and goes,
// the stream may never have a playlist.
const mostStart = 15 * time.Second

// await waits until done returns true or an error. It holds w.mu while it calls done, and calls
// done again after each change. A waiting request counts towards Shared.Waiting.
func (w *Window) await(ctx context.Context, done func() (bool, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok, err := w.check(done)
	if ok || err != nil {
		return err
	}
	if err := w.shared.Waiting.Acquire(); err != nil {
		return err
	}
	w.news.waiting++
	defer func() {
		w.news.waiting--
		w.Touch()
		w.shared.Waiting.Release()
	}()
	var late <-chan time.Time
	if w.window == nil {
		timer := time.NewTimer(mostStart)
		defer timer.Stop()
		late = timer.C
	}
	for !ok && err == nil {
		changed := w.news.changed
		w.mu.Unlock()
		timedOut := false
		select {
		case <-changed:
		case <-late:
			timedOut = true
		case <-ctx.Done():
		}
		w.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if ok, err = w.check(done); !ok && err == nil && timedOut && w.window == nil {
			err = refuse.New(http.StatusServiceUnavailable,
				"stream %q has no playlist yet: its publisher has sent too little", w.name).After(time.Second)
		}
	}
	return err
}

// check calls done, unless all requests get an error. The caller must hold w.mu.
func (w *Window) check(done func() (bool, error)) (bool, error) {
	if w.err != nil {
		return false, w.err
	}
	if w.mayBeDisowned() {
		return false, ErrElsewhere
	}
	return done()
}

// render returns the current media playlist. If skip is set, it returns the delta update
// (EXT-X-SKIP). A playlist is made when it is first needed. The caller must hold w.mu.
func (w *Window) render(skip bool) *Playlist {
	list := &w.full
	if skip {
		list = &w.delta
	}
	if *list == nil {
		w.shared.Counters.Rendered.Add(1)
		*list = newPlaylist(w.window.AppendPlaylist(nil, skip), w.cfg.Target)
	}
	return *list
}
