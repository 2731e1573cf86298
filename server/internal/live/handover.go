package live

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A registrar decides which publisher has each stream of a Hub. A stream has one publisher at a
// time.
type registrar struct{ *Hub }

// claim requests the named stream for the publisher c. In a cluster, it first makes this node the
// owner of the stream. If claim returns nil, the caller must call awaitGrant to wait for the
// stream.
func (h registrar) claim(c *claim, name string) (err error) {
	if h.cfg.Cluster == nil {
		return h.claimHere(c, name)
	}
	if err = h.checkRoom(name); err != nil { // before Claim takes the stream from another node
		return err
	}
	for err = errNotHeld; err == errNotHeld; { // the lease can end before claimHere uses it
		if c.lease, err = h.cfg.Cluster.Claim(c.ctx, name); err != nil {
			return cmp.Or(context.Cause(c.ctx), err)
		}
		err = h.claimHere(c, name)
	}
	return err
}

// errNotHeld reports that a new lease was lost or released before claimHere could use it.
var errNotHeld = errors.New("the lease is not held any more")

// claimHere gives the named stream to c. If the stream already has a publisher, claimHere makes
// that publisher end, and c gets the stream after the end.
//
// If c cannot get the stream, claimHere returns an error. It then also releases c.lease, unless
// another publisher of the stream uses the same lease.
func (h registrar) claimHere(c *claim, name string) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		if err != nil {
			h.release(name, c.lease)
		}
	}()
	if err := h.checkRefused(name); err != nil { // may have changed during Cluster.Claim
		return err
	}
	s := h.streams[name]
	switch {
	case h.ends.Err() != nil:
		return refuse.ErrShutdown
	case c.lease != nil && !c.lease.Held():
		return errNotHeld
	case s != nil && s.ended:
		return errOperator
	case s == nil && len(h.streams) >= h.cfg.MaxStreams:
		return h.cfg.tooManyStreams()
	case s == nil:
		if err := h.cfg.Memory.Admit(); err != nil {
			return err
		}
		h.grant(h.newStream(name), c)
	case s.pause != nil:
		h.grant(s, c)
	default:
		if err := h.checkTakeover(s); err != nil {
			return err
		}
		switch {
		case s.successor != nil: // another publisher already waits to take over
			s.successor.cancel(errTakenOver)
		case s.publisher.isPull():
			s.publisher.cancel(errTakenOver)
		default:
			s.publisher.replace()
		}
		s.successor = c
	}
	h.publishers.Add(1)
	return nil
}

func (h registrar) checkRoom(name string) error {
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

// checkTakeover returns an error if Config.Takeover does not allow a new publisher to replace the
// current publisher of s. The caller must hold h.mu.
//
// A pull, which reads the stream from another node, can always be replaced. However,
// Config.Takeover protects a publisher that already waits to replace the pull.
func (h registrar) checkTakeover(s *stream) error {
	if s.publisher.isPull() && s.successor == nil {
		return nil
	}
	switch h.cfg.Takeover {
	case TakeoverNever:
		return refuse.New(http.StatusConflict,
			"this name has a publisher already (--takeover never)")
	case TakeoverStalled:
		if s.successor != nil || nanotime()-s.publisher.lastInput.Load() < int64(StalledAfter) {
			return refuse.New(http.StatusConflict,
				"this name has a publisher already, which sent something in the last %v (--takeover stalled)", StalledAfter)
		}
	}
	return nil
}

// awaitGrant waits until c has the stream. It returns an error if c ends first, or if the earlier
// publisher does not end within limit.Grace.
func (h registrar) awaitGrant(c *claim, name string) (*stream, error) {
	grace := time.NewTimer(limit.Grace)
	defer grace.Stop()
	select {
	case s := <-c.granted:
		return s, nil
	case <-c.ctx.Done():
	case <-grace.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case s := <-c.granted: // granted at the same moment
		return s, nil
	default:
	}
	if s := h.streams[name]; s != nil && s.successor == c {
		s.successor = nil
	}
	h.release(name, c.lease)
	h.publishers.Done()
	if err := context.Cause(c.ctx); err != nil {
		return nil, err
	}
	return nil, refuse.New(http.StatusConflict,
		"this name has a publisher already, which has not ended within %v", limit.Grace)
}

// grant makes c the publisher of s, which must not have a publisher. The caller must hold h.mu.
func (h registrar) grant(s *stream, c *claim) {
	if s.lease != nil && s.lease != c.lease { // lost to another node, but not yet revoked
		h.revoke(s)
	}
	returns := s.pause != nil
	h.endPause(s)
	s.publisher = c
	c.since = nanotime()
	c.lastInput.Store(c.since)
	c.granted <- s
	s.epoch = max(s.epoch, c.epoch)
	if s.lease != c.lease {
		s.lease = c.lease
		s.unconfirmed = c.lease != nil && c.lease.Epoch() == 0
		if s.forms != nil {
			s.forms.ForgetStart()
		}
	}
	if c.lease != nil && !c.lease.Held() { // the lease was lost while c waited
		h.revoke(s)
	}
	if returns {
		s.tell()
	}
}

// endPause ends the pause of s, if s is paused. The caller must hold h.mu.
func (h registrar) endPause(s *stream) {
	if s.pause == nil {
		return
	}
	s.pause.timer.Stop()
	h.counters.waited.Add(nanotime() - s.pause.since)
	s.pause = nil
}

// handOver decides what happens to s after the publisher c has ended with the error err. It gives s
// to the waiting successor, makes s wait for a publisher, or ends s. It returns how long s waits,
// or 0 if s does not wait. frames is the number of frames that c has sent.
func (h registrar) handOver(s *stream, c *claim, frames int64, err error) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := s.successor
	s.successor = nil
	left := h.waitLeft(s, frames, err)
	stays := s.feed != nil && err != ErrPanic && h.ends.Err() == nil && !s.ended
	if !stays || left <= 0 && next == nil {
		if next != nil && next.lease == s.lease {
			s.lease = nil // next keeps the lease
		}
		h.endStream(s)
	}
	switch {
	case h.ends.Err() != nil, s.ended: // next has already been cancelled, with the reason
	case next != nil:
		if !stays {
			s = h.newStream(s.name)
		}
		if !c.isPull() {
			next.replaced = true
			s.takeovers.Add(1)
			h.counters.takeovers.Add(1)
		}
		h.grant(s, next)
	case stays && left > 0:
		p := &pause{since: nanotime()}
		p.timer = time.AfterFunc(left, func() { h.expirePause(s, p) })
		s.pause = p
		s.tell()
		return left
	}
	return 0
}

// waitLeft returns how long s may wait for its next publisher. frames is the number of frames from
// the last publisher, and err is the error with which that publisher has ended. The caller must
// hold h.mu.
//
// The wait begins when a publisher leaves after it has sent at least one frame. A later publisher
// that sends no frame does not extend the wait. If the last publisher was a pull that ended because
// the stream has no viewers, waitLeft returns 0.
func (h registrar) waitLeft(s *stream, frames int64, err error) time.Duration {
	if err == errUnwatched && h.unwatchedFor(s) > 0 {
		return 0
	}
	if now := nanotime(); frames > 0 || s.until == 0 {
		wait := h.cfg.PublisherReturn
		if err == nil || err == errOwnerEnded {
			wait = min(wait, h.cleanEndWait)
		}
		s.until = now + int64(wait)
	}
	return time.Duration(s.until - nanotime())
}

// expirePause ends s if no publisher has come during the pause p. If this pause has already ended,
// expirePause does nothing.
func (h registrar) expirePause(s *stream, p *pause) {
	h.mu.Lock()
	expired := s.pause == p
	if expired {
		h.endStream(s)
	}
	h.mu.Unlock()
	if expired {
		s.log.Info("stream ended", "reason", "its publisher has not come back")
	}
}

// endStream closes the stream s, whose publisher has left, and frees its name. Viewers still
// receive the remaining frames. The caller must hold h.mu.
func (h registrar) endStream(s *stream) {
	h.endPause(s)
	s.endPush()
	delete(h.streams, s.name)
	h.giveUp(s)
	if s.feed != nil {
		s.feed.Release()
	}
	if s.forms != nil {
		s.forms.Close()
	}
}

// checkRefused returns an error if the operator has closed the name to publishers. The caller must
// hold h.mu.
func (h registrar) checkRefused(name string) error {
	until, ok := h.refused[name]
	if !ok {
		return nil
	}
	left := time.Until(until)
	if left <= 0 {
		return nil
	}
	return refuse.New(http.StatusForbidden,
		"the operator has ended this stream: it may be published again in %v",
		left.Round(time.Second)).For(refuse.ByOperator).After(left)
}
