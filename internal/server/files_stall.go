package server

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// stallLooks is how often a response is looked at during the time that its client may take nothing: the time is kept to
// within an eighth.
const stallLooks = 8

// A stallWatch cuts a response whose client takes nothing for a while, though something is there for it. As a whole the
// response may take for ever. A response that waits for the server's own disk is not cut.
//
// A response that is over soon costs a timer. Its last bytes, which net/http sends after the handler, have the same
// time: until the first look, and again after end, the limit is a deadline.
type stallWatch struct {
	w       http.ResponseWriter // what the handler is to write to
	limit   time.Duration
	control *http.ResponseController
	taking  taking

	mu    sync.Mutex
	timer *time.Timer
	taken uint64    // at the last look
	since time.Time // nothing was taken since, or nothing was there
	moved bool      // the deadline is not net/http's any more
	over  bool
	cut   bool
}

// taking tells how far the client is.
type taking interface {
	// progress returns a number that grows with what the client has taken, and whether there is more for it.
	progress() (taken uint64, owed bool)
	// abandon is called before the connection is cut.
	abandon()
}

// newStallWatch watches a response. The call that ends its life is end.
func newStallWatch(w http.ResponseWriter, r *http.Request, limit time.Duration) *stallWatch {
	s := &stallWatch{w: w, limit: limit, control: http.NewResponseController(w), since: time.Now()}
	if s.taking = acknowledged(r); s.taking == nil {
		c := &countedResponse{w: w}
		s.w, s.taking = c, c
	}
	s.mu.Lock() // the timer may be quick
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(limit/stallLooks, s.look)
	return s
}

func (s *stallWatch) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if !s.moved {
		s.moved = true
		_ = s.control.SetWriteDeadline(time.Time{})
	}
	taken, owed := s.taking.progress()
	if !owed || taken != s.taken {
		s.taken, s.since = taken, time.Now()
	} else if time.Since(s.since) >= s.limit {
		s.cut = true
		s.taking.abandon()
		_ = s.control.SetWriteDeadline(pastDeadline)
		return
	}
	s.timer.Reset(s.limit / stallLooks)
}

// end ends the watch when the handler is about to return, and says whether it has cut the response.
func (s *stallWatch) end() (cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.timer.Stop()
	if s.moved && !s.cut {
		_ = s.control.SetWriteDeadline(time.Now().Add(s.limit))
	}
	return s.cut
}

// endWatch ends the watch of a download, when its handler is about to return. It logs the download that was cut, and
// counts it.
func (s *Server) endWatch(watch *stallWatch, r *http.Request, stalled *atomic.Int64) {
	if watch.end() {
		stalled.Add(1)
		s.log.Info("download ended", "client", r.RemoteAddr, "path", r.URL.Path,
			"reason", "the client took nothing for --stall-timeout")
	}
}

// A countedResponse shows how far its client is by the writes that have returned. It hides everything else that the
// ResponseWriter can, so that all bytes go through Write.
type countedResponse struct {
	w http.ResponseWriter

	mu      sync.Mutex
	taken   uint64
	writing bool
}

func (c *countedResponse) Header() http.Header    { return c.w.Header() }
func (c *countedResponse) WriteHeader(status int) { c.w.WriteHeader(status) }

// countedWrite is how much is written at a time: what a client must take within the limit.
const countedWrite = 16 << 10

// Write implements io.Writer.
func (c *countedResponse) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+countedWrite)]
		c.note(0, true)
		m, err := c.w.Write(part)
		c.note(m, false)
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

func (c *countedResponse) note(n int, writing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken += uint64(n)
	c.writing = writing
}

func (c *countedResponse) progress() (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken, c.writing
}

func (c *countedResponse) abandon() {}
