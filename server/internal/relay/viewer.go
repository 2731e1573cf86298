package relay

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/relay/flvstream"
)

// A viewer is one response that a rendition is written to.
//
// At any moment one goroutine has it, and uses cursor, pending and the connection: its fanout's while the viewer is
// healthy, and its own otherwise. Every goroutine may call end.
type viewer struct {
	rendition *rendition
	fanout    *fanout
	cursor    *broadcast.Cursor
	remote    string
	account   *address.Account // of its address
	since     int64            // when it came; see now
	id        uint64           // its number among all viewers, set by Hub.serve

	// Of another node: its address, and the ownership without which it gets nothing. Otherwise nil.
	node  string
	lease Lease

	terms  Terms
	timeUp *time.Timer // nil without a limit

	conn   viewerConn
	news   *broadcast.Watcher // when there is something to take; nil with pathWritev
	nudged chan struct{}      // has a signal when there is something to send beside the stream, or v has ended; the same
	hear   func(v *viewer)    // reads from the connection until the viewer hangs up

	// pending was taken from the ring, and the connection has not taken it yet. Its references last until then.
	pending  millrace.Chain
	chunks   chunkWriter    // what goes in front of it
	ending   millrace.Chain // what tells the client of the stream's end, beside the end of chunks
	more     bool           // there is more to take
	headSent bool           // of the response
	began    bool           // something was taken
	finished bool
	sent     atomic.Int64 // of the stream
	written  tally        // by its own goroutine, in the write that is under way
	missed   broadcast.Missed
	lag      lagMeter

	reason atomic.Int32 // a disconnectReason
	paused atomic.Bool  // it wants nothing of the stream at present
	held   bool         // it was paused when it would have taken something

	mu      lock.Mutex     // also held while cursor and lag.start change, and by other goroutines that read these
	replies millrace.Chain // leave in front of the next batch
}

// begin sets where v starts. It takes ownership of c.
func (v *viewer) begin(c *broadcast.Cursor) {
	v.cursor, v.lag.start = c, c.Lag()
}

// beginAtKey sets v to start at the newest key frame. stream.mu is held.
func (v *viewer) beginAtKey() {
	v.begin(v.rendition.cursor())
	v.lag.showsAt(v.rendition.stream.keyAge())
}

func (v *viewer) hasEnded() bool { return disconnectReason(v.reason.Load()) != connected }

// sentAll reports whether nothing that was taken is left.
func (v *viewer) sentAll() bool { return v.pending.Len() == 0 && len(v.chunks.line) == 0 }

// end disconnects v, unless it has ended before. The goroutine that has v notices, because its call on the connection
// fails, and calls finish.
func (v *viewer) end(why disconnectReason) {
	if !v.reason.CompareAndSwap(int32(connected), int32(why)) {
		return
	}
	if why.complete() {
		v.conn.finish()
	} else {
		v.conn.abort(why.byServer())
	}
	v.signal()
}

// signal wakes v's own goroutine if it waits for what is new.
func (v *viewer) signal() {
	select {
	case v.nudged <- struct{}{}:
	default:
	}
}

// finish ends v if nothing else has, and gives back what it holds. The goroutine that has v calls it last.
func (v *viewer) finish() {
	if v.finished {
		return
	}
	v.finished = true
	v.end(failed)
	v.takeReplies()
	v.pending.Release()
	v.ending.Release()
	v.cursor.Close()
	if v.news != nil {
		v.news.Stop()
	}
	v.fanout.viewers.Add(-1)
	s, why := v.rendition.stream, disconnectReason(v.reason.Load())
	s.hub.counters.watching[v.conn.path()].Add(-1)
	if why.byServer() {
		s.hub.counters.dropped[why].Add(1)
	}
	attrs := append(v.attrs(), "reason", why.String(), "bytes", v.sent.Load(),
		"time", time.Duration(now()-v.since).Round(time.Millisecond))
	if v.missed.Why != broadcast.NotMissed {
		attrs = append(attrs, "missed", v.missed.String())
	}
	s.log.Info("viewer ended", attrs...)
	s.exit(v)
	if v.timeUp != nil {
		v.timeUp.Stop()
	}
	v.terms.End(why.String(), v.sent.Load())
	s.hub.leave(v)
}

// attrs returns what the log says of v. Another node is told from viewers.
func (v *viewer) attrs() []any {
	attrs := []any{"viewer", v.remote}
	if v.node != "" {
		attrs = append(attrs, "node", v.node)
	}
	return append(attrs, "form", v.rendition.format.String())
}

// abandon is finish after a panic. What v has not sent is left to the garbage collector, because its state is unknown.
func (v *viewer) abandon() {
	defer func() {
		if cause := recover(); cause != nil { // so that other viewers of a failed fanout are abandoned as well
			v.rendition.stream.log.Error("abandoning a viewer failed", "viewer", v.remote, "cause", fmt.Sprint(cause))
		}
	}()
	v.pending = millrace.Chain{}
	v.finish()
}

// take moves the next batch from the ring to pending, which is empty, behind what is to be sent beside the stream. At the
// end of the ring that is what tells the client of the end, if there is such a thing, and then take returns io.EOF.
func (v *viewer) take() error {
	v.takeReplies()
	if v.holds() || v.lease != nil && !v.lease.Current() && disconnectReason(v.rendition.reason.Load()) == connected {
		v.more = false
		return nil
	}
	first := v.pending.Len()
	b, err := v.cursor.Take(&v.pending)
	if v.rendition.format == formatFLV && (b.Preamble > 0 || b.Bytes > 0 && !v.began) {
		v.began = true
		v.stateTracks(&v.pending, first)
	}
	v.more = b.More
	v.lag.take(b.Frames, b.Bytes-b.Preamble)
	if err == io.EOF && v.hasProperEnd() && (v.chunks.end() || v.ending.Len() > 0) {
		v.pending.Merge(&v.ending)
		v.more = true
		return nil
	}
	if v.pending.Len() > 0 {
		v.chunks.begin(v.pending.Len())
	}
	if b.Missed.Why != broadcast.NotMissed {
		v.miss(b.Missed)
	}
	return err
}

// hasProperEnd reports whether the end of the ring is one for v, too. To another node it is not when the server shuts
// down: the stream goes on elsewhere.
func (v *viewer) hasProperEnd() bool {
	r := v.rendition
	return disconnectReason(r.reason.Load()).complete() && (v.lease == nil || r.stream.hub.ends.Err() == nil)
}

// miss notes a loss: v was moved forward, which the policy may not allow.
func (v *viewer) miss(m broadcast.Missed) {
	s := v.rendition.stream
	if v.rendition.policy() == Drop {
		v.end(lagReason(m.Why))
		return
	}
	s.noteLost(m)
	s.mu.Lock()
	v.lag.showsAt(s.keyAge())
	s.mu.Unlock()
	v.fallBehind(lagReason(m.Why))
	if v.missed.Why == broadcast.NotMissed {
		v.missed.Why = m.Why
		// In another goroutine: the log may block, and fanout.mu may be held.
		go s.log.Warn("viewer skips to the newest key frame", "viewer", v.remote,
			"frames", m.Frames, "bytes", m.Bytes, "reason", m.Why.String())
	}
	v.missed.Frames += m.Frames
	v.missed.Bytes += m.Bytes
}

// fallBehind notes that v is over its allowance. It returns false if that was known.
func (v *viewer) fallBehind(why disconnectReason) bool {
	if !v.lag.fallBehind() {
		return false
	}
	v.rendition.stream.hub.counters.seen[why].Add(1)
	return true
}

// inspect looks at a viewer that another goroutine has, and ends it if it is stalled, or if it is too far behind and
// the policy says so. at is the present. fanout.mu is held.
func (v *viewer) inspect(at int64) lagReport {
	if !v.lag.writing.Load() {
		return lagReport{} // it waits for frames
	}
	s := v.rendition.stream
	v.mu.Lock()
	lag := v.behindBy(at)
	why := v.lag.exceeds(&s.hub.cfg, lag)
	v.mu.Unlock()
	if why != connected {
		if v.fallBehind(why) && !v.lag.warned {
			v.lag.warned = true
			go s.log.Warn("viewer is too far behind", "viewer", v.remote, "reason", why.String(),
				"bytes", lag.Bytes, "frames", lag.Frames, "time", lag.Time.Round(time.Millisecond))
		}
		if v.rendition.policy() == Drop {
			v.end(why)
		}
	}
	if v.lag.stalledFor(at) > s.hub.cfg.StallTimeout {
		v.end(stalled)
	}
	v.lag.stand(lag.Time)
	report := lagReport{most: lag.Time}
	if v.lag.behind.Load() {
		report.behind = 1
	}
	return report
}

// behindBy returns how far v is behind: by what it has taken and not sent, and by what it has not taken. v.mu is held.
func (v *viewer) behindBy(at int64) broadcast.Lag { return v.lag.add(v.cursor.Lag(), at) }

// setPaused stops the stream for v, or lets it go on at the newest key frame.
func (v *viewer) setPaused(paused bool) {
	v.paused.Store(paused)
	v.fanout.nudge(v)
}

// holds reports whether v is paused. After a pause it gives v a new place in the ring. The goroutine that has v calls it.
func (v *viewer) holds() bool {
	r := v.rendition
	if v.paused.Load() && disconnectReason(r.reason.Load()) == connected { // the end of the stream comes all the same
		v.held = true
		return true
	}
	if v.held {
		v.held = false
		r.stream.mu.Lock()
		defer r.stream.mu.Unlock()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.cursor.Close()
		v.lag.arrived.Store(false)
		v.beginAtKey()
	}
	return false
}

// reply sends p beside the stream. It borrows p, and returns false if too much waits already.
func (v *viewer) reply(p []byte) bool {
	v.mu.Lock()
	room := v.replies.Len()+len(p) <= maxReplies
	if room && !v.hasEnded() {
		v.replies.AppendCopy(p)
	}
	v.mu.Unlock()
	if room {
		v.fanout.nudge(v)
	}
	return room
}

// takeReplies moves what is to be sent beside the stream to pending. The goroutine that has v calls it.
func (v *viewer) takeReplies() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pending.Merge(&v.replies)
}

// listen reads what the viewer sends until it hangs up, which is the only way to notice that when there is nothing to
// write. The goroutine's stack is all that it costs.
func (v *viewer) listen() {
	v.hear(v)
	v.end(hungUp)
	v.conn.abort(false) // if v has ended before, and waited for the client
	v.fanout.remove(v)
}

// hearHTTP reads what a viewer sends after its request: it is not answered.
func (v *viewer) hearHTTP(conn net.Conn) {
	var p [64]byte
	for heard := 0; ; {
		n, err := conn.Read(p[:])
		if err != nil {
			return
		}
		if heard += n; heard >= maxChatter {
			v.end(failed)
			return
		}
	}
}

// maxChatter is how much a viewer may send after its request. A second request on the same connection is not answered,
// and no reason to read for ever.
const maxChatter = 64 << 10

// stateTracks corrects the metadata of what a viewer of FLV begins with, as its header is corrected.
// batch has whole tags from the given offset on.
func (v *viewer) stateTracks(batch *millrace.Chain, from int) {
	s := v.rendition.stream
	tracks := s.facts.Tracks.Load()
	if tracks == 0 || v.node != "" { // another node does so for its own viewers
		return
	}
	flvstream.StateAll(s.memory, batch, from, tracks)
}
