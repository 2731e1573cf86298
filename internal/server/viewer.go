package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// A viewer is one response that a stream is written to.
//
// At any moment one goroutine drives it: it alone uses cursor, pending and sock, and it alone calls finish. That is its
// pump while the viewer keeps up, a goroutine of its own (chase) while it does not, and its handler (follow) for a
// response that is not ours to write to directly. end may be called by anyone.
type viewer struct {
	out    *outlet
	pump   *pump
	cursor *broadcast.Cursor
	conn   net.Conn         // the viewer's connection, taken over; nil when a ResponseWriter is between us and it
	sock   socket           // conn, to write to without waiting
	stop   func(why ending) // makes follow return, where that drives it

	// pending is what was taken from the ring and not yet by the kernel. Its references last until then.
	pending millrace.Chain
	chunks  chunks // what goes in front of it

	why      atomic.Int32 // an ending
	progress atomic.Int64 // when the kernel last took something, while it cannot take everything; see now
	writing  atomic.Bool  // it is being written to in a way that may wait
	behind   atomic.Bool  // it was over its allowance, and has not caught up since
	arrived  atomic.Bool  // it has caught up once

	// How much of the ring it has got or was moved past, and when it took what is pending. The ring's own Lag does not count
	// what is pending, and is short after a move, of which a viewer that takes nothing is not told.
	passed passed
	batch  broadcast.Batch // what is pending, or was
	start  broadcast.Lag   // how far behind it began: by up to a group of pictures
	since  int64           // when it came; see now
	sent   int64
	missed broadcast.Missed
	path   path
	remote string
	done   bool // finish was called
	placed bool // passed is where it has begun
	headed bool // the response's head was passed on; see pass
	told   bool // that it is too far behind was logged; the pump's
}

// passed is a place in a ring, counted from its beginning. Whoever drives the viewer writes it, and the viewer's pump
// reads it.
type passed struct {
	frames, bytes atomic.Int64
	at            atomic.Int64 // see now
}

func (p *passed) add(frames int, bytes int64) {
	if frames > 0 {
		p.frames.Add(int64(frames))
		p.bytes.Add(bytes)
	}
}

// state is how a viewer stands after something was sent to it.
type state int

const (
	caughtUp state = iota // it has everything
	full                  // its socket takes no more
	over                  // it has ended
)

// over says whether v has ended.
func (v *viewer) over() bool { return ending(v.why.Load()) != stillHere }

// end ends v for the given reason, unless it has ended before. It may be called by any goroutine; whoever drives v notices,
// because its next or current call on the connection fails.
func (v *viewer) end(why ending) {
	if !v.why.CompareAndSwap(int32(stillHere), int32(why)) {
		return
	}
	if tcp, ok := v.conn.(*net.TCPConn); ok && why.dropped() {
		// The kernel would go on trying to deliver what a stalled viewer has not taken, for minutes.
		_ = tcp.SetLinger(0)
	}
	if v.conn != nil {
		_ = v.conn.Close()
	}
	if v.stop != nil {
		v.stop(why)
	}
}

// finish ends v if nobody has, and gives back what it holds. Only whoever drives v calls it, as the last thing.
func (v *viewer) finish() {
	if v.done {
		return
	}
	v.done = true
	v.end(broken)
	v.pending.Release()
	v.cursor.Close()
	v.out.left(v)
}

// take moves the next batch from the ring to pending, which is empty. io.EOF: there will be no more, and all has been sent,
// with what tells the client that this is the end, unless it is not.
func (v *viewer) take() (broadcast.Batch, error) {
	v.passed.add(v.batch.Frames, int64(v.batch.Bytes-v.batch.Preamble))
	b, err := v.cursor.Take(&v.pending)
	v.batch = b
	if b.Frames > 0 && !v.placed {
		v.place(b)
	}
	if err == io.EOF && ending(v.out.why.Load()).whole() && v.chunks.end() {
		return broadcast.Batch{}, nil
	}
	if v.pending.Len() > 0 {
		v.chunks.announce(v.pending.Len())
	}
	if b.Missed.Why != broadcast.NotMissed {
		v.passed.add(b.Missed.Frames, b.Missed.Bytes)
		v.miss(b.Missed)
	}
	return b, err
}

// place notes where v is in the ring, now that it has its first batch. One that waits for a key frame is moved to it
// without being told, and what it was moved past is nothing that it is behind by.
func (v *viewer) place(b broadcast.Batch) {
	v.placed = true
	lag, head := v.cursor.Lag(), v.out.ring.Stats().Published
	v.passed.frames.Store(int64(head.Frames) - int64(lag.Frames+b.Frames+b.Missed.Frames))
	v.passed.bytes.Store(int64(head.Bytes) - lag.Bytes - int64(b.Bytes-b.Preamble) - b.Missed.Bytes)
}

// miss notes a loss: the viewer was moved forward, which may not be what is wanted.
func (v *viewer) miss(m broadcast.Missed) {
	s := v.out.stream
	if v.out.policy() == Drop {
		v.end(endingOf(m.Why))
		return
	}
	s.lost.Add(int64(m.Frames))
	s.server.metrics.lost(m)
	if v.behind.CompareAndSwap(false, true) {
		s.server.metrics.seenBehind(endingOf(m.Why))
	}
	if v.missed.Why == broadcast.NotMissed {
		v.missed.Why = m.Why
		s.log.Warn("viewer skips to the newest key frame", "viewer", v.remote,
			"frames", m.Frames, "bytes", m.Bytes, "reason", m.Why.String())
	}
	v.missed.Frames += m.Frames
	v.missed.Bytes += m.Bytes
}

// step sends what is new, without waiting: one batch in one system call. It goes on only if the batch was large enough to have
// been cut by its limits, or if the stream has ended, which the announcement that it was called for may have been about.
func (v *viewer) step(vec *vector) state {
	for {
		if v.over() {
			return over
		}
		b, err := v.take()
		if err != nil {
			return v.drained(err)
		}
		if v.sentAll() {
			return caughtUp
		}
		large := b.Bytes >= v.out.stream.batch/2 || v.pending.Pieces() >= batchPieces/2
		isFull, err := v.write(vec)
		switch {
		case err != nil:
			v.end(gone)
			return over
		case isFull:
			return full
		case !large && !v.out.closed.Load():
			return caughtUp
		}
	}
}

// sentAll says whether everything that was taken has been sent.
func (v *viewer) sentAll() bool { return v.pending.Len() == 0 && len(v.chunks.line) == 0 }

func (v *viewer) write(vec *vector) (isFull bool, err error) {
	before := v.pending.Len()
	isFull, err = v.sock.try(&v.chunks.line, &v.pending, vec)
	v.sent += int64(before - v.pending.Len())
	return isFull, err
}

// drained ends v when there is nothing to come.
func (v *viewer) drained(err error) state {
	if err == io.EOF {
		v.end(ending(v.out.why.Load()))
	} else {
		v.end(broken)
	}
	return over
}

// chase drives v until it has caught up, and then leaves it to its pump. It waits as long as the kernel does; inspect
// ends that when it is too long.
func (v *viewer) chase() {
	defer v.contain()
	v.writing.Store(true)
	vec := vectors.Get().(*vector)
	next := v.catchUp(vec)
	vec.flush(v.out)
	vectors.Put(vec)
	v.writing.Store(false)
	if next == caughtUp {
		v.keepsUp()
		v.pump.tell(message{about: v, what: returns})
		return
	}
	v.finish()
	v.pump.tell(message{about: v, what: leaves})
}

func (v *viewer) catchUp(vec *vector) state {
	for !v.over() {
		if !v.sentAll() {
			before := v.pending.Len()
			err := v.sock.wait(&v.chunks.line, &v.pending, vec, &v.progress)
			v.sent += int64(before - v.pending.Len())
			vec.flush(v.out)
			if err != nil {
				v.end(gone)
				break
			}
		}
		b, err := v.take()
		if err != nil {
			return v.drained(err)
		}
		if b.Frames == 0 && v.sentAll() {
			return caughtUp
		}
		v.wait(now())
	}
	return over
}

// follow drives v through an ordinary writer, in the caller's goroutine, until v ends: the way for responses that cannot
// be taken over.
func (v *viewer) follow(ctx context.Context, w io.Writer, flush func() error) {
	defer v.contain()
	news := v.out.follow()
	defer v.out.unfollow(news)
	for !v.over() {
		if err := v.pass(w, flush); err != nil {
			v.end(gone)
			break
		}
		b, err := v.take()
		if err != nil {
			v.drained(err)
			break
		}
		if b.Frames > 0 || !v.sentAll() {
			continue
		}
		v.keepsUp()
		select {
		case <-news:
		case <-ctx.Done():
			v.end(gone)
		}
	}
	v.finish()
	v.pump.tell(message{about: v, what: leaves})
}

// pass writes pending to w. The first time that is the response's head at least, so that a viewer of a stream in which nothing
// comes for a while knows that it is there.
func (v *viewer) pass(w io.Writer, flush func() error) error {
	if v.headed && v.sentAll() {
		return nil
	}
	v.headed = true
	v.wait(now())
	v.writing.Store(true)
	defer v.writing.Store(false)
	line, err := w.Write(v.chunks.line)
	if err != nil {
		return err
	}
	v.chunks.line = nil
	n, err := v.pending.WriteTo(w)
	v.sent += n
	v.out.stream.server.metrics.wrote(v.path, n+int64(line))
	if err != nil {
		return err
	}
	return flush()
}

// wait notes that v has taken something from the ring, and that writing it may take a while from now on.
func (v *viewer) wait(at int64) {
	v.passed.at.Store(at)
	v.progress.Store(at)
}

// keepsUp notes that v has everything.
func (v *viewer) keepsUp() {
	v.arrived.Store(true)
	v.behind.Store(false)
}

// inspect looks at a viewer that somebody else drives, does what the policy says if it is too far behind, and returns how
// far that is, in nanoseconds. at is the present, and head all that was published.
func (v *viewer) inspect(at int64, head broadcast.Volume) int64 {
	if !v.writing.Load() {
		return 0 // it waits for us, not we for it
	}
	s := v.out.stream
	lag := v.lag(at, head)
	if why := v.exceeds(lag); why != stillHere {
		if v.behind.CompareAndSwap(false, true) {
			s.server.metrics.seenBehind(why)
			if !v.told {
				v.told = true
				s.log.Warn("viewer is too far behind", "viewer", v.remote, "reason", why.String(),
					"bytes", lag.Bytes, "frames", lag.Frames, "time", lag.Time.Round(time.Millisecond))
			}
		}
		if v.out.policy() == Drop {
			v.end(why)
		}
	}
	if at-v.progress.Load() > int64(s.server.cfg.StallTimeout) {
		v.end(stalled)
	}
	return int64(lag.Time)
}

// lag returns how far v is behind.
func (v *viewer) lag(at int64, head broadcast.Volume) broadcast.Lag {
	frames := int64(head.Frames) - v.passed.frames.Load()
	if frames <= 0 {
		return broadcast.Lag{}
	}
	return broadcast.Lag{
		Frames: int(frames),
		Bytes:  int64(head.Bytes) - v.passed.bytes.Load(),
		Time:   time.Duration(at - v.passed.at.Load()), // what came next was published then or later
	}
}

// exceeds says which allowance a lag exceeds. The allowance counts from where the viewer began until it has caught up.
func (v *viewer) exceeds(lag broadcast.Lag) ending {
	if !v.arrived.Load() {
		lag.Bytes -= v.start.Bytes
		lag.Frames -= v.start.Frames
		lag.Time -= v.start.Time
	}
	switch allow := v.out.stream.allow; {
	case allow.Bytes > 0 && lag.Bytes > allow.Bytes:
		return lagBytes
	case allow.Frames > 0 && lag.Frames > allow.Frames:
		return lagFrames
	case allow.Time > 0 && lag.Time > allow.Time:
		return lagTime
	}
	return stillHere
}

// listenTo reads what the viewer sends, which is nothing, until it hangs up: the only way to notice when there is nothing
// to write. The goroutine's stack is all that it costs.
func (v *viewer) listenTo() {
	var p [64]byte
	why := broken
	for heard := 0; heard < maxChatter; {
		n, err := v.conn.Read(p[:])
		if err != nil {
			why = gone
			break
		}
		heard += n
	}
	v.end(why)
	v.pump.tell(message{about: v, what: hangsUp})
}

// maxChatter is how much a viewer may send after its request. A second request on the same connection is not answered,
// and is not a reason to read for ever.
const maxChatter = 64 << 10

// contain keeps a mistake in what drives v from taking the process down. What v has not sent is left to the collector,
// because nobody knows what state it is in.
func (v *viewer) contain() {
	if cause := recover(); cause != nil {
		v.out.stream.log.Error("serving a viewer failed", "viewer", v.remote,
			"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		v.abandon()
		v.pump.tell(message{about: v, what: leaves})
	}
}

// abandon is finish after a failure.
func (v *viewer) abandon() {
	defer func() {
		if cause := recover(); cause != nil { // so that the others of a failed pump are abandoned as well
			v.out.stream.log.Error("abandoning a viewer failed", "viewer", v.remote, "cause", fmt.Sprint(cause))
		}
	}()
	v.pending = millrace.Chain{}
	v.finish()
}

// epoch is what now counts from.
var epoch = time.Now()

// now returns the monotonic time in nanoseconds.
func now() int64 { return int64(time.Since(epoch)) }
