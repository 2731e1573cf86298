package relay

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/limit"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A wait is the time in which a stream has no publisher.
type wait struct {
	since int64 // see now
	timer *time.Timer
}

// A succession is who publishes a stream, one after the other.
type succession struct {
	publisher *Publisher // the current one, or while the stream waits the last one
	next      *Publisher // takes over from it; nil while the stream waits
	wait      *wait      // nil while there is a publisher
	ended     bool       // by the operator: the stream goes when its publisher has gone
	until     int64      // when a wait ends; see left
}

// own is claim, after the cluster, if there is one, has made this node the owner of the stream.
func (h *Hub) own(p *Publisher, name string) (err error) {
	if h.cfg.Cluster == nil {
		return h.claim(p, name)
	}
	if err = h.checkRoom(name); err != nil { // before another node loses its publisher for nothing
		return err
	}
	for err = errNotHeld; err == errNotHeld; { // a lease can end at the same moment
		if p.lease, err = h.cfg.Cluster.Claim(p.ctx, name); err != nil {
			return cmp.Or(context.Cause(p.ctx), err)
		}
		err = h.claim(p, name)
	}
	return err
}

// errNotHeld says that a lease was lost, or given up as the one of a stream that ended, before the stream was claimed.
var errNotHeld = errors.New("the lease is not held any more")

// claim makes p the publisher of the stream of that name, or the next one. The publisher that is there is then told to
// end.
func (h *Hub) claim(p *Publisher, name string) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		if err != nil {
			h.release(name, p.lease)
		}
	}()
	if err := h.checkRefused(name); err != nil { // since the cluster was asked, perhaps
		return err
	}
	s := h.streams[name]
	switch {
	case h.ends.Err() != nil:
		return refuse.ErrShutdown
	case p.lease != nil && !p.lease.Held():
		return errNotHeld
	case s != nil && s.ended:
		return errOperator
	case s == nil && len(h.streams) >= h.cfg.MaxStreams:
		return h.cfg.tooManyStreams()
	case s == nil:
		if err := h.cfg.Memory.Admit(); err != nil {
			return err
		}
		h.newStream(name).grant(p)
	case s.wait != nil:
		s.grant(p)
	default:
		if err := s.yields(); err != nil {
			return err
		}
		switch {
		case s.next != nil: // which is to replace the same publisher
			s.next.cancel(errTakenOver)
		case s.publisher.isPull():
			s.publisher.cancel(errTakenOver)
		default:
			s.publisher.replace()
		}
		s.next = p
	}
	h.publishers.Add(1)
	return nil
}

// checkRoom returns an error if the operator has refused the name, or the stream is not here and there is no room for
// one more.
func (h *Hub) checkRoom(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.checkRefused(name); err != nil {
		return err
	}
	if h.streams[name] == nil && len(h.streams) >= h.cfg.MaxStreams {
		return h.cfg.tooManyStreams()
	}
	return nil
}

// yields returns an error if the publisher of s is to stay. A pull never is. Hub.mu is held.
func (s *stream) yields() error {
	if s.publisher.isPull() && s.next == nil {
		return nil
	}
	switch s.hub.cfg.Takeover {
	case TakeoverNever:
		return refuse.New(http.StatusConflict, "this name has a publisher already (--takeover never)")
	case TakeoverStalled:
		if s.next != nil || now()-s.publisher.heard.Load() < int64(StalledAfter) {
			return refuse.New(http.StatusConflict,
				"this name has a publisher already, which sent something in the last %v (--takeover stalled)", StalledAfter)
		}
	}
	return nil
}

// await waits until the stream is p's: the publisher before it must not write any more.
func (h *Hub) await(p *Publisher, name string) error {
	grace := time.NewTimer(limit.Grace)
	defer grace.Stop()
	select {
	case <-p.granted:
		return nil
	case <-p.ctx.Done():
	case <-grace.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.s != nil { // granted at the same moment
		return nil
	}
	if s := h.streams[name]; s != nil && s.next == p {
		s.next = nil
	}
	h.release(name, p.lease)
	h.publishers.Done()
	if err := context.Cause(p.ctx); err != nil {
		return err
	}
	return refuse.New(http.StatusConflict, "this name has a publisher already, which has not ended within %v", limit.Grace)
}

// grant makes p the publisher of s, which has none. Hub.mu is held.
func (s *stream) grant(p *Publisher) {
	if s.lease != nil && s.lease != p.lease { // it was lost, which is not known here yet
		s.lose()
	}
	returns := s.wait != nil
	s.stopWaiting()
	s.publisher, p.s = p, s
	p.since = now()
	p.heard.Store(p.since)
	close(p.granted)
	s.epoch = max(s.epoch, p.epoch)
	if s.lease != p.lease {
		s.lease = p.lease
		if s.forms != nil {
			s.forms.ForgetStart()
		}
	}
	if p.lease != nil && !p.lease.Held() { // it was lost while p waited
		s.lose()
	}
	if returns {
		s.tell()
	}
}

// replace ends p, which has a stream, as soon as it has had it for LeastStay. Hub.mu is held.
func (p *Publisher) replace() {
	end := func() { p.cancel(errTakenOver) }
	if left := LeastStay - time.Duration(now()-p.since); left > 0 {
		time.AfterFunc(left, end)
		return
	}
	end()
}

// stopWaiting ends the wait of s if there is one. Hub.mu is held.
func (s *stream) stopWaiting() {
	if s.wait == nil {
		return
	}
	s.wait.timer.Stop()
	s.hub.counters.waited.Add(now() - s.wait.since)
	s.wait = nil
}

// handOver gives s, whose publisher p has ended with err, to the next publisher, has it wait for one, or ends it. It
// returns how long s waits.
func (s *stream) handOver(p *Publisher, err error) time.Duration {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	next := s.next
	s.next = nil
	left := s.left(p, err)
	stays := s.feed != nil && err != errPanic && h.ends.Err() == nil && !s.ended
	if !stays || left <= 0 && next == nil {
		if next != nil && next.lease == s.lease {
			s.lease = nil // next has it
		}
		s.end()
	}
	switch {
	case h.ends.Err() != nil, s.ended: // next learns that from its context
	case next != nil:
		if !stays {
			s = h.newStream(s.name)
		}
		if !p.isPull() {
			next.replaced = true
			s.takeovers.Add(1)
			h.counters.takeovers.Add(1)
		}
		s.grant(next)
	case stays && left > 0:
		w := &wait{since: now()}
		w.timer = time.AfterFunc(left, func() { s.expire(w) })
		s.wait = w
		s.tell()
		return left
	}
	return 0
}

// left returns how long s may wait for a publisher after p has ended with err. A publisher that sent no frame does not
// prolong the wait that it came to. Hub.mu is held.
func (s *stream) left(p *Publisher, err error) time.Duration {
	if err == errUnwatched && s.unwatched() > 0 {
		return 0
	}
	if at := now(); p.frames > 0 || s.until == 0 {
		wait := s.hub.cfg.PublisherReturn
		if err == nil || err == errOwnerEnded {
			wait = min(wait, s.hub.cleanEndWait)
		}
		s.until = at + int64(wait)
	}
	return time.Duration(s.until - now())
}

// expire ends s if it still waits in w.
func (s *stream) expire(w *wait) {
	s.hub.mu.Lock()
	over := s.wait == w
	if over {
		s.end()
	}
	s.hub.mu.Unlock()
	if over {
		s.log.Info("stream ended", "reason", "its publisher has not come back")
	}
}

// resumed notes that p goes on with s, after a pause without frames.
func (s *stream) resumed(p *Publisher, pause time.Duration) {
	if !p.replaced && !p.isPull() {
		s.returns.Add(1)
		s.hub.counters.returns.Add(1)
	}
	s.log.Info("publisher goes on with the stream", "publisher", p.address, "after", pause.Round(time.Millisecond),
		"takeover", p.replaced)
}

// checkRefused refuses a publisher whose name the operator has refused. Hub.mu is held.
func (h *Hub) checkRefused(name string) error {
	until, ok := h.refused[name]
	if !ok {
		return nil
	}
	left := time.Until(until)
	if left <= 0 {
		return nil
	}
	return refuse.New(http.StatusForbidden, "the operator has ended this stream: it may be published again in %v",
		left.Round(time.Second)).For(refuse.Operator).After(left)
}
