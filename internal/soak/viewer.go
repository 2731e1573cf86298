package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// losses is what the viewers of one server have lost in one cycle. It cannot be more than the server says.
type losses struct {
	skipped atomic.Int64 // tags that they were moved past
	cut     atomic.Int64 // viewers of plain bytes and of MP4 that were disconnected
}

// A habit is what a viewer does beside watching.
type habit int

const (
	stays  habit = iota // to the end
	stalls              // stops reading for a while, and goes on
	leaves              // after a while
)

// habitOf deals out the habits: of four viewers one stalls and one leaves.
func habitOf(number int) habit {
	switch number % 4 {
	case 1:
		return stalls
	case 3:
		return leaves
	}
	return stays
}

// A way is how a viewer gets a stream.
type way struct {
	mp4   bool // unless the stream is plain bytes
	http2 bool
}

// wayOf deals out the ways: of four viewers each has another, and of sixteen each habit is there in each way.
func wayOf(number int) way {
	n := number%4 ^ number/4%4
	return way{mp4: n&1 != 0, http2: n&2 != 0}
}

var errLeft = errors.New("the viewer has left")

// A gaze is a response's body as a viewer with a habit reads it.
type gaze struct {
	io.Reader
	habit habit
	when  time.Time // it stalls or leaves
	pause time.Duration
	wake  context.Context // no stall lasts longer
	tally *tally
}

// Read implements io.Reader.
func (g *gaze) Read(p []byte) (int, error) {
	if g.habit != stays && !time.Now().Before(g.when) {
		if g.habit == leaves {
			return 0, errLeft
		}
		g.habit = stays
		g.tally.Stalls.Add(1)
		pause(g.wake, g.pause)
	}
	n, err := g.Reader.Read(p)
	g.tally.Checked.Add(int64(n))
	return n, err
}

// watch follows a stream, and comes again when it ends.
func (s *shift) watch(st *stream, number int, l *losses) {
	r := s.random(kindViewer, st.number*maxViewers+number)
	seat := st.number*s.cfg.Viewers + number // so that the streams' viewers come in different ways
	h, w := habitOf(number), wayOf(seat)
	what, path := st.name, "/live/"+st.name
	if w.mp4 = w.mp4 && !st.plain; w.mp4 {
		what, path = st.name+" as MP4", path+".mp4"
	}
	if w.http2 {
		what += " over HTTP/2"
	}
	s.work("watching "+what, func(url string) error { return s.look(st, h, w, r, url+path, l) })
}

// look is one request of a viewer.
func (s *shift) look(st *stream, h habit, w way, r *rand.Rand, url string, l *losses) error {
	ctx, cancel := context.WithCancel(s.hard)
	defer cancel()
	waiting := context.AfterFunc(s.working, cancel) // nobody waits for a stream when the cycle is over
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := s.client(h, w).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !waiting() {
		return context.Canceled
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		return &statusError{"the answer to a viewer", res.StatusCode, string(text)}
	}
	s.count(w)
	g := &gaze{Reader: res.Body, habit: h, when: time.Now().Add(some(r, s.length/3)),
		pause: s.length/3 + some(r, s.length/2), wake: s.working, tally: s.tally}
	err = s.verify(st, w, g, l)
	if err == errLeft {
		return nil
	}
	return err
}

// count notes a viewer that is being served.
func (s *shift) count(w way) {
	s.tally.Viewers.Add(1)
	if w.mp4 {
		s.tally.Movies.Add(1)
	}
	if w.http2 {
		s.tally.HTTP2.Add(1)
	}
}

// isCut says whether a response ended without a proper end.
func isCut(err error) bool {
	var reset streamError
	return errors.Is(err, errCut) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, &reset) && reset.Code == internalError
}

// A streamError is how net/http tells that a stream of HTTP/2 was reset: its own error has these fields, and lets errors.As
// copy them.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error implements error.
func (e streamError) Error() string {
	return fmt.Sprintf("stream %d was reset with code %d", e.StreamID, e.Code)
}

// internalError is the code with which a server's handler cuts its response: RFC 9113, section 7.
const internalError = 2

func isWrong(err error) bool {
	var bad *wrongError
	return errors.As(err, &bad)
}

// verify compares a stream to its end, and sees whether that is where it should be.
func (s *shift) verify(st *stream, w way, body io.Reader, l *losses) error {
	var id, gaps uint64
	var at int64
	var err error
	name := st.name
	switch {
	case st.plain:
		v := &tapeVerifier{name: name, tapes: st.tapes}
		err = v.verify(body)
		id, at = v.tape.id, v.off
	case w.mp4:
		name += ".mp4"
		v := &movieVerifier{name: name, lookup: st.film}
		err = v.verify(body)
		id, at, gaps = v.id, int64(v.last), v.gaps
	default:
		v := &filmVerifier{name: name, lookup: st.film}
		err = v.verify(body)
		id, at, gaps = v.id, int64(v.last), v.gaps
	}
	l.skipped.Add(int64(gaps))
	if (st.plain || w.mp4) && isCut(err) {
		l.cut.Add(1)
		return nil
	}
	if err != nil || at == 0 {
		return err
	}
	last, whole := st.endOf(id)
	if whole && at != last { // which a server that shuts down may do, and no other
		return fmt.Errorf("%s: the stream ended properly after %d, and was sent to %d", name, at, last)
	}
	if whole {
		s.tally.Followed.Add(1)
	}
	return nil
}
