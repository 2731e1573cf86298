package broadcast

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/millrace-io/millrace"
)

// A Cursor is the position of one reader in a Ring.
//
// Only one goroutine at a time, the reader, may call Next and Take. Any goroutine may call Lag and
// Close. Next waits for frames. A reader that also waits for other events uses Take and a [Watcher]
// instead.
//
// # When a cursor is behind
//
// If a cursor exceeds its allowance (MaxLagBytes, MaxLagFrames, MaxLagTime), it moves forward to
// the newest keyframe. If the cursor has already reached the newest keyframe, it stays where it is,
// because waiting for the next keyframe would lose more frames. The frames that a slow reader takes
// are therefore behind the head by at most the allowance plus one GOP.
//
// If a cursor's next frame was evicted, or was refused by Publish, the cursor moves to the newest
// keyframe after that frame. If there is no later keyframe yet, the cursor waits for one, and Take
// adds nothing. The first batch after the wait reports the loss. If no later keyframe is published,
// the wait ends only when the ring or the cursor is closed.
type Cursor struct {
	ring *Ring
	opts cursorOptions

	// Only the reader uses these fields.

	wait     *Watcher // the Watcher of Next; nil before its first call
	caughtUp bool     // Next must wait before it calls Take

	// ring.mu guards the other fields.

	news *Watcher // the same Watcher as wait; Close uses it

	next int64 // number of the next frame to return, or of the first lost frame
	off  int64 // offset in ring.log at which that frame begins

	joining  bool // the cursor waits for its first keyframe
	starting bool // the cursor starts or has moved: its next batch begins with a preamble
	// headPreamble is the preamble of the first batch, for a cursor with the option FromHead. The
	// cursor holds a reference to it.
	headPreamble *preamble
	given        uint64 // id of the last preamble that was returned

	missed Missed // frames lost since the last report
	since  int64  // when the first frame of missed was published

	closed bool
	index  int // index in ring.cursors
}

// A Batch describes the frames that one call to Next or Take appended to the caller's chain.
type Batch struct {
	Frames int // number of whole frames
	Bytes  int // number of bytes added to the chain

	// Preamble is the length in bytes of the preamble, the data that a reader needs before a
	// keyframe (see [Ring.SetPreamble]). It is 0 if the batch has no preamble. Otherwise the batch
	// begins with the preamble, and Bytes includes it.
	Preamble int

	// Info is the publisher's information about the batch's last frame (Frame.Info). To get the
	// information about every frame, use [BatchFrames](1).
	Info any

	// More reports whether the next call to Next returns without waiting, because there are more
	// frames or the stream has ended. After the last batch of the stream, the next call returns
	// io.EOF. A reader that collects batches must send them before it stops at io.EOF.
	More bool

	// Missed is the loss directly before the frames of this batch. If the batch has no frames,
	// Missed is the loss before the end of the stream.
	Missed Missed
}

// Cursor returns a new cursor. The caller must call [Cursor.Close] when the cursor is no longer
// needed.
//
// By default, the cursor starts at the newest keyframe, and its first batch begins with the
// preamble of that keyframe (see [Ring.SetPreamble]). The cursor waits for the next keyframe if
// there is no keyframe yet, or if the ring has evicted or refused a frame of the newest GOP. On a
// closed ring, the cursor starts at the end.
func (r *Ring) Cursor(opts ...CursorOption) *Cursor {
	c := &Cursor{
		ring: r,
		opts: cursorOptions{
			lagBytes:    r.opts.maxBytes / 2,
			lagFrames:   r.opts.maxFrames / 2,
			lagTime:     defaultLagTime,
			batchBytes:  defaultBatchBytes,
			batchFrames: math.MaxInt64,
			batchPieces: defaultBatchPieces,
		},
	}
	for _, opt := range opts {
		opt(&c.opts)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.next, c.off = r.frames.head, r.log.end
	switch {
	case r.closed:
	case c.opts.from == fromHead:
		c.headPreamble = r.preamble.hold()
	case c.opts.from == fromNextKey || !r.keyOK:
		c.joining = true
	default:
		c.begin()
	}
	c.index = len(r.cursors)
	r.cursors = append(r.cursors, c)
	return c
}

// canRead reports whether Take can return a frame with a number below limit. If c waits for a
// keyframe or has lost its next frame, Take begins with the newest keyframe. The caller must hold
// r.mu.
func (c *Cursor) canRead(limit int64) bool {
	r := c.ring
	if c.joining || c.stuckReason() != NotMissed {
		return r.keyOK && r.key >= c.next && r.key < limit
	}
	return c.next < limit
}

// stuckReason returns Evicted or Refused if c can never take its next frame, or else NotMissed. The
// caller must hold r.mu.
func (c *Cursor) stuckReason() Reason {
	l := &c.ring.frames
	switch {
	case c.next < l.tail:
		return Evicted
	case c.next < l.head && l.at(c.next).kind == hole:
		return Refused
	}
	return NotMissed
}

// isBehind reports whether the newest keyframe is after c's next frame. The caller must hold r.mu.
func (c *Cursor) isBehind() bool { return c.ring.keyOK && c.ring.key > c.next }

// lagReason returns LagBytes, LagFrames or LagTime if c exceeds its allowance, or else NotMissed.
// The ring must still contain c's next frame. The caller must hold r.mu.
func (c *Cursor) lagReason(now int64) Reason {
	r, o := c.ring, &c.opts
	switch {
	case o.lagBytes > 0 && r.log.end-c.off > o.lagBytes:
		return LagBytes
	case o.lagFrames > 0 && r.frames.head-c.next > int64(o.lagFrames):
		return LagFrames
	case o.lagTime > 0 && now-r.frames.at(c.next).at > int64(o.lagTime):
		return LagTime
	}
	return NotMissed
}

// advance moves c to the newest keyframe, if c waits for it, has lost its next frame or exceeds its
// allowance. The caller must hold r.mu.
func (c *Cursor) advance(now int64) {
	r := c.ring
	if c.joining {
		if r.keyOK && r.key >= c.next {
			c.begin()
		}
		return
	}
	why := c.stuckReason()
	if why != NotMissed {
		c.noteLoss(why) // the record may be removed before the next keyframe comes
	}
	if !c.isBehind() {
		return
	}
	if why == NotMissed {
		if why = c.lagReason(now); why == NotMissed {
			return
		}
	}
	c.skipTo(r.key, r.frames.startOf(r.key), why)
	c.starting = true
	c.headPreamble.drop()
	c.headPreamble = nil
}

// begin makes c start at the newest keyframe, which must exist. The caller must hold r.mu.
func (c *Cursor) begin() {
	c.joining, c.starting = false, true
	c.moveTo(c.ring.key, c.ring.frames.startOf(c.ring.key))
}

// skipTo moves c forward to frame n, which is at offset off in the ring's log. It counts the frames
// that c skips as lost. The caller must hold r.mu.
func (c *Cursor) skipTo(n, off int64, reason Reason) {
	c.noteLoss(reason)
	frames, bytes := n-c.next, off-c.off
	c.missed.Frames += int(frames)
	c.missed.Bytes += bytes
	c.ring.stats.lose(c.missed.Why, frames, bytes)
	c.moveTo(n, off)
}

// noteLoss records why c has lost its next frame, unless c has an earlier loss to report. The ring
// must still contain the record of the frame. The caller must hold r.mu.
func (c *Cursor) noteLoss(reason Reason) {
	if c.missed.Why == NotMissed {
		c.missed.Why = reason
		c.since = c.ring.frames.at(c.next).at
	}
}

// moveTo makes frame n the next frame of c. The frame starts at offset off in the ring's log. The
// caller must hold r.mu.
func (c *Cursor) moveTo(n, off int64) {
	c.next, c.off = n, off
	c.ring.lowest = min(c.ring.lowest, n)
}

// Take appends the next whole frames to dst, up to the batch limits, without a copy. The caller
// owns the new references. If there is nothing new, Take returns the zero Batch at once.
//
// On a closed ring, Take returns io.EOF after the last frame. On a closed cursor, it returns
// ErrClosed. If Take returns an error, dst is unchanged.
func (c *Cursor) Take(dst *millrace.Chain) (b Batch, err error) {
	_ = dst.Len() // a nil dst panics here, before the ring's lock is held
	r := c.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case c.closed:
		return b, ErrClosed
	case r.closed && c.drained():
		return b, io.EOF
	}
	var now int64
	if c.isBehind() {
		now = r.now() // reading the clock is a third of the cost of Take
	}
	c.advance(now)
	switch {
	case c.canRead(r.frames.head):
		b = c.appendBatch(dst)
	case r.closed: // no keyframe will come, so the loss is final
		c.skipTo(r.frames.head, r.log.end, c.missed.Why)
	default:
		return b, nil
	}
	b.Missed = c.missed
	c.missed = Missed{}
	b.More = r.closed || c.canRead(r.frames.head)
	if r.closed && c.drained() {
		r.trim(r.closedAt)
	}
	return b, nil
}

// Next waits for frames and appends them to dst, as [Cursor.Take] does. It is for a reader that
// waits for no other events.
//
// Usually, Next waits until the ring signals new frames. Frames that are published within [Latency]
// of each other share one signal, and form one batch. On the first call, and after a Batch with
// More set, Next returns available frames without waiting for a signal.
//
// If ctx is done first, Next returns ctx.Err(). At the end of the stream, Next may return a Batch
// without frames, to report lost frames in Missed.
func (c *Cursor) Next(ctx context.Context, dst *millrace.Chain) (Batch, error) {
	if c.wait == nil {
		c.wait = c.newWatcher()
	}
	for {
		if c.caughtUp {
			select {
			case <-c.wait.C:
			case <-ctx.Done():
				return Batch{}, ctx.Err()
			}
		}
		b, err := c.Take(dst)
		c.caughtUp = !b.More && err == nil
		if err != nil || b.Bytes > 0 || b.Frames > 0 || b.Missed.Why != NotMissed {
			return b, err
		}
	}
}

// newWatcher returns a new Watcher for Next. Cursor.Close stops the Watcher, so that Next returns.
func (c *Cursor) newWatcher() *Watcher {
	w := c.ring.Watch()
	c.ring.mu.Lock()
	c.news = w
	closed := c.closed
	c.ring.mu.Unlock()
	if closed {
		w.Stop()
	}
	return w
}

// drained reports whether c can take nothing more from a closed ring. The caller must hold r.mu.
func (c *Cursor) drained() bool { return c.joining || c.next == c.ring.frames.head }

// appendBatch adds the next batch of frames to dst. c's next frame must be readable. The caller
// must hold r.mu.
func (c *Cursor) appendBatch(dst *millrace.Chain) (b Batch) {
	r := c.ring
	pre := c.headPreamble
	if c.starting {
		pre = r.frames.at(c.next).pre
	}
	room := c.opts.batchPieces
	if pre != nil && pre.id != c.given {
		before := dst.Pieces()
		pre.chain.CloneTo(dst)
		c.given = pre.id
		b.Preamble = pre.chain.Len()
		room -= dst.Pieces() - before
	}
	c.headPreamble.drop()
	c.headPreamble, c.starting = nil, false

	upto := c.batchEnd(room)
	end := r.frames.at(upto - 1).end
	r.log.share(dst, c.off, end)
	b.Frames = int(upto - c.next)
	b.Bytes = b.Preamble + int(end-c.off)
	b.Info = r.frames.info(upto - 1)
	c.next, c.off = upto, end
	return b
}

// batchEnd returns the number of the first frame that is not in the next batch. The batch begins
// with c's next frame, even if this frame alone exceeds the batch limits or maxPieces, the maximum
// number of pieces of memory. The caller must hold r.mu.
func (c *Cursor) batchEnd(maxPieces int) int64 {
	l := &c.ring.frames
	begin := l.at(c.next).firstPiece
	n := c.next + 1
	for ; n < l.head && n-c.next < c.opts.batchFrames; n++ {
		rec := l.at(n)
		if rec.kind == hole || rec.end-c.off > c.opts.batchBytes ||
			int(rec.lastPiece-begin) > maxPieces {
			break
		}
	}
	return n
}

// Lag says how far a reader is behind the newest frame.
type Lag struct {
	Bytes  int64
	Frames int
	Time   time.Duration // age of the oldest frame that was neither taken nor reported as lost
}

// Lag returns how far the reader is behind the newest frame. The lag includes lost frames until
// Take reports their loss. If the reader does not call Take, the lag therefore keeps growing, even
// when the ring moves the cursor forward (see [Stats]).
//
// A cursor that waits for its first keyframe has no lag.
func (c *Cursor) Lag() Lag {
	r := c.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.closed || c.joining || c.next == r.frames.head {
		return Lag{}
	}
	lag := Lag{
		Bytes:  c.missed.Bytes + r.log.end - c.off,
		Frames: c.missed.Frames + int(r.frames.head-c.next),
	}
	since := c.since
	if c.missed.Why == NotMissed {
		since = r.frames.at(c.next).at
	}
	lag.Time = time.Duration(r.now() - since)
	return lag
}

// Close closes the cursor. Later calls to Next and Take fail, and a waiting Next fails at once.
// Frames that were taken stay valid. Close may be called from any goroutine, and more than once.
func (c *Cursor) Close() {
	if news := c.markClosed(); news != nil {
		news.Stop()
		news.signal()
	}
}

// markClosed marks c as closed, and returns the Watcher on which Next may be waiting, or nil. The
// caller must stop the Watcher and signal it.
func (c *Cursor) markClosed() (news *Watcher) {
	r := c.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	news, c.news = c.news, nil
	c.headPreamble.drop()
	c.headPreamble = nil
	last := len(r.cursors) - 1
	r.cursors[c.index] = r.cursors[last]
	r.cursors[c.index].index = c.index
	r.cursors[last] = nil
	r.cursors = r.cursors[:last]
	if r.closed {
		r.trim(r.closedAt)
	}
	return news
}
