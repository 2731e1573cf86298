package sim

import (
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// claimTime is how long a claim may be under way, and its reply.
const claimTime = 10 * time.Second

// A session is a connection of a publisher.
type session struct {
	id     int
	stream string
	node   string
	epoch  uint64 // the latest epoch that the node got while the session lasted; 0: none
	sent   int    // number of frames
	began  time.Time
	last   time.Time // when the last frame was sent, or the session began
	steady time.Time // when the first frame after the last long pause was sent
	ended  time.Time // zero: not yet
	// The first keyframe. A viewer of a stream that has had no keyframe begins before it.
	firstKey int
}

// newSession begins a session of a publisher. known says that the node still has the ownership that
// Redis last recorded, if it was its own.
func (c *Check) newSession(stream, node string, known bool) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := &session{id: len(c.sessions), stream: stream, node: node, began: now, last: now,
		steady: now}
	if o := c.owners(stream); known && !o.last.GivenUp && o.last.Node == addressOf(node) {
		s.epoch = o.last.Epoch
	}
	c.sessions = append(c.sessions, s)
	c.counts.Sessions++
	return s
}

func (c *Check) begin(s *session, firstKey int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.firstKey = firstKey
}

func (c *Check) sent(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.sent++
	if time.Since(s.last) > 3*frameTime {
		s.steady = time.Now()
	}
	s.last = time.Now()
	c.counts.Frames++
}

func (c *Check) sessionEnded(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ended = time.Now()
}

// dismissed checks a session that the server has ended, or has not accepted. The function disturbed
// reports whether a fault has affected the node with an address in the last time d.
//
// A publisher makes way only for another one that sends, or for the owner that Redis had when the
// session began. It is refused only because of another one that has sent something a short time
// ago. With --takeover never, the other publisher may also be silent.
//
// A publisher that leaves while it waits for live.LeastStay at another node still takes the stream:
// its connection is not read in that time.
//
// A claim may reach Redis late, up to claimTime, if its node has lost Redis, or has ended.
func (c *Check) dismissed(s *session, reason string,
	disturbed func(address string, d time.Duration) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calm {
		c.failLocked("session %d of %s ended at %s without a fault: %s", s.id, s.stream, s.node,
			reason)
		return
	}
	refused := strings.Contains(reason, "already")
	replaced := !refused && (strings.Contains(reason, "409") || strings.Contains(reason, "BadName"))
	owner := c.owners(s.stream)
	gaveUp := owner.last.GivenUp && owner.last.Node == addressOf(s.node)
	switch {
	case !refused && !replaced, disturbed(addressOf(s.node), time.Since(s.began)),
		replaced && (owner.given.Before(s.began) && !gaveUp || disturbed(owner.last.Node, claimTime)):
		return
	}
	since := s.began.Add(-500 * time.Millisecond)
	waited := func(o *session) bool {
		return o.node != s.node && addressOf(o.node) == owner.last.Node &&
			o.ended.After(s.began.Add(-live.LeastStay-500*time.Millisecond))
	}
	if refused {
		since = s.began.Add(-claimTime)
	}
	for _, o := range c.sessions {
		connected := o.ended.IsZero()
		if o != s && o.stream == s.stream && (o.last.After(since) || waited(o) ||
			connected && time.Since(o.last) < live.StalledAfter+time.Second ||
			c.silentOwners && (connected || refused && o.ended.After(since))) {
			return
		}
	}
	c.failLocked("session %d of %s ended at %s, but there is no other publisher: %s", s.id, s.stream,
		s.node, reason)
}

// publishing returns the node at which a stream has its publisher, and since when this publisher
// has sent without a pause and no other one has sent anything. If the publisher is silent at
// present, node is "".
func (c *Check) publishing(stream string) (node string, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var latest *session
	for _, s := range c.sessions {
		if s.stream == stream && s.ended.IsZero() && time.Since(s.last) < 2*frameTime &&
			(latest == nil || s.began.After(latest.began)) {
			latest = s
		}
	}
	if latest == nil {
		return "", since
	}
	since = latest.steady
	for _, s := range c.sessions {
		if s != latest && s.stream == stream && s.last.After(since) {
			since = s.last
		}
	}
	return latest.node, since
}
