package fanout

import (
	"io"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// A writeState is the result of writeNow.
type writeState int

const (
	upToDate writeState = iota
	full                // the socket accepts no more
	ended
)

// writeNow writes the new frames without waiting.
func (v *Viewer) writeNow(out *vector) writeState {
	for !v.hasEnded() {
		if v.out.empty() {
			if v.takeBatch() != nil {
				v.End(v.src.reason())
				break
			}
		}
		if !v.out.empty() {
			before := v.out.pending.Len()
			isFull, err := v.conn.tryWrite(&v.out.chunks.line, &v.out.pending, out)
			v.noteSent(before - v.out.pending.Len())
			if err != nil {
				v.End(HungUp)
				break
			}
			if isFull {
				return full
			}
		}
		if !v.more {
			v.lag.keepUp()
			return upToDate
		}
	}
	return ended
}

// catchUp writes to v until v has received every frame, and then returns true. If v ends earlier,
// catchUp returns false. If the connection accepts nothing for longer than Config.Stall, v.loop
// ends v.
func (v *Viewer) catchUp() bool {
	for !v.hasEnded() {
		if err := v.writePending(); err != nil {
			v.End(HungUp)
			break
		}
		if v.takeBatch() != nil {
			v.End(v.src.reason())
			break
		}
		if v.out.empty() && !v.more {
			v.lag.catchUp()
			return true
		}
	}
	return false
}

// await waits until v.loop.pause has passed and there are new frames. It returns early if v is nudged. A
// viewer with a plain socket does not call await, because its loop waits.
func (v *Viewer) await() {
	if v.loop.pause > 0 {
		pause := time.NewTimer(v.loop.pause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-v.nudged:
			return
		}
	}
	select {
	case <-v.news.C:
	case <-v.nudged:
	}
}

// writePending writes all of v.out.pending. The first call always writes, because a ResponseWriter
// then sends its header, even if the stream has no frames.
func (v *Viewer) writePending() error {
	if v.out.empty() && v.out.begun {
		return nil
	}
	v.out.begun = true
	v.lag.startWrite()
	defer v.lag.writing.Store(false)
	before := v.out.pending.Len()
	defer func() { v.noteSent(before - v.out.pending.Len()) }()
	defer v.written.flush(v.src.Counters, v.conn.path())
	return v.conn.write(&v.out.chunks.line, &v.out.pending, &v.written, &v.lag.progress)
}

func (v *Viewer) noteSent(n int) {
	v.sent.Add(int64(n))
	v.session.Sent(n)
}

// takeBatch adds the queued replies and the next batch of the ring to v.out.pending, which must be
// empty.
//
// At the end of the ring, takeBatch returns io.EOF. If the response needs closing bytes, such as a
// last chunk, one call adds these bytes and returns nil. Only the next call returns io.EOF.
func (v *Viewer) takeBatch() error {
	v.takeReplies()
	if v.checkPaused() || v.peer && !v.session.Owned() && v.src.reason() == Connected {
		v.more = false
		return nil
	}
	pending := &v.out.pending
	first := pending.Len()
	b, err := v.cursor.Take(pending)
	if b.Preamble > 0 || b.Bytes > 0 && !v.began {
		v.began = true
		v.session.Begin(pending, first)
	}
	v.more = b.More
	v.lag.take(b.Frames, b.Bytes-b.Preamble)
	if err == io.EOF && v.endsProperly() && v.out.end() {
		v.more = true
		return nil
	}
	v.out.begin(first)
	if b.Missed.Why != broadcast.NotMissed {
		v.recordMissed(b.Missed)
	}
	return err
}

// endsProperly reports whether v gets a complete response. It is called when the ring is closed and
// v has taken all frames of the ring. If a conversion of the stream has failed, for example, the
// response is not complete.
func (v *Viewer) endsProperly() bool {
	return v.src.reason().Complete() && (!v.peer || v.session.Complete())
}

// checkPaused reports whether v takes no frames because of a pause. After the pause, it moves v to
// the position that Session.Restart returns.
func (v *Viewer) checkPaused() bool {
	// Even a paused viewer gets the end of the stream.
	if v.paused.Load() && v.src.reason() == Connected {
		v.wasPaused = true
		return true
	}
	if v.wasPaused {
		v.wasPaused = false
		start := v.session.Restart()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.cursor.Close()
		v.lag.arrived.Store(false)
		v.begin(start)
	}
	return false
}

// recordMissed records that v has lost frames, because the ring has moved v forward. If Config.Drop
// is set, recordMissed ends v instead.
func (v *Viewer) recordMissed(m broadcast.Missed) {
	if v.src.Drop {
		v.End(lagReason(m.Why))
		return
	}
	v.lag.setLive(v.session.Missed(m))
	v.fallBehind(lagReason(m.Why))
	if v.missed.Why == broadcast.NotMissed {
		v.missed.Why = m.Why
		// Another goroutine logs this, because the log may block, and loop.mu may be held.
		go v.src.Log.Warn("viewer skips to the newest keyframe", "viewer", v.remote,
			"frames", m.Frames, "bytes", m.Bytes, "reason", m.Why.String())
	}
	v.missed.Frames += m.Frames
	v.missed.Bytes += m.Bytes
}
