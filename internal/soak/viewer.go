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
	cut     atomic.Int64 // viewers of plain bytes that were disconnected
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
	h := habitOf(number)
	s.work("watching "+st.name, func(url string) error { return s.look(st, h, r, url, l) })
}

// look is one request of a viewer.
func (s *shift) look(st *stream, h habit, r *rand.Rand, url string, l *losses) error {
	ctx, cancel := context.WithCancel(s.hard)
	defer cancel()
	waiting := context.AfterFunc(s.working, cancel) // nobody waits for a stream when the cycle is over
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/live/"+st.name, nil)
	if err != nil {
		return err
	}
	client := s.fast
	if h == stalls {
		client = s.slow
	}
	res, err := client.Do(req)
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
	s.tally.Viewers.Add(1)
	g := &gaze{Reader: res.Body, habit: h, when: time.Now().Add(some(r, s.length/3)),
		pause: s.length/3 + some(r, s.length/2), wake: s.working, tally: s.tally}
	err = s.verify(st, g, l)
	if err == errLeft {
		return nil
	}
	return err
}

// isCut says whether a response ended without a proper end.
func isCut(err error) bool {
	return errors.Is(err, errCut) || errors.Is(err, syscall.ECONNRESET)
}

func isWrong(err error) bool {
	var bad *wrongError
	return errors.As(err, &bad)
}

// verify compares a stream to its end, and sees whether that is where it should be.
func (s *shift) verify(st *stream, body io.Reader, l *losses) error {
	var id uint64
	var at int64
	var err error
	if st.plain {
		v := &tapeVerifier{name: st.name, tapes: st.tapes}
		err = v.verify(body)
		id, at = v.tape.id, v.off
		if isCut(err) {
			l.cut.Add(1)
			return nil
		}
	} else {
		v := &filmVerifier{name: st.name, lookup: st.film}
		err = v.verify(body)
		l.skipped.Add(int64(v.gaps))
		id, at = v.id, int64(v.last)
	}
	if err != nil || at == 0 {
		return err
	}
	last, whole := st.endOf(id)
	if whole && at != last { // which a server that shuts down may do, and no other
		return fmt.Errorf("%s: the stream ended properly after %d, and was sent to %d", st.name, at, last)
	}
	if whole {
		s.tally.Followed.Add(1)
	}
	return nil
}
