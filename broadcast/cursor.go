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
// Next and Take may be called from one goroutine at a time, the reader's. Lag and Close may be
// called from any goroutine. Next waits for frames. A reader that also waits for other events uses
// Take and a [Watcher] instead.
//
// # When a cursor is behind
//
// A cursor that exceeds its allowance (MaxLagBytes, MaxLagFrames, MaxLagTime) moves forward to the
// newest keyframe. If the cursor is already in the newest GOP, it does not move: the reader sees
// more of that GOP than if it waited for the next keyframe, and the ring keeps the GOP for late
// joiners anyway. A slow reader that takes frames again is therefore at most its allowance and one
// GOP behind the head. A late joiner does not move because of the length of its first GOP.
//
// If a cursor's next frame was evicted or refused by Publish, the cursor moves to the newest
// keyframe after that frame. If there is no such keyframe, it waits for the next one, however long
// that takes. Until then Take adds nothing. The first batch after the wait reports the loss. In a
// stream with keyframes only at its start, only Close ends the wait.
type Cursor struct {
	ring *Ring
	opts cursorOptions

	// Only the reader uses these fields.

	wait     *Watcher // the Watcher of Next; nil before its first call
	caughtUp bool     // Next must wait before it calls Take

	// ring.mu guards the other fields.

	news *Watcher // the same as wait, for Close

	next int64 // next frame to return, or the first lost frame
	off  int64 // offset of the first byte of frame next in ring.log

	joining  bool // the cursor waits for its first keyframe
	starting bool // the cursor starts or has moved: the next frame comes after its preamble
	// The preamble of the first batch, for a cursor with the option FromHead. The cursor holds a
	// reference to it until the first batch is taken, the cursor skips to a keyframe or the cursor
	// is closed.
	headPreamble *preamble
	given        uint64 // id of the last preamble that was returned

	missed Missed // frames lost since the last report
	since  int64  // time at which the first frame of missed was published

	closed bool
	index  int // index in ring.cursors
}

// A Batch describes the frames that one call of Next or Take appended to the caller's chain.
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

	// More reports whether the next Take does not have to wait: there are more frames, or the
	// stream has ended.
	More bool

	// Missed is the loss directly before the frames of this batch. If the batch has no frames,
	// Missed is the loss before the end of the stream.
	Missed Missed
}

// Cursor returns a new cursor. Its owner ends it with Close.
//
// By default, the cursor starts at the newest keyframe, and its first batch begins with the
// preamble of that keyframe (see [Ring.SetPreamble]). If the ring does not keep a keyframe and all
// frames after it, the cursor waits for the next keyframe. On a closed ring, the cursor starts at
// the end.
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

// canRead reports whether c's next Take may return a frame with a number less than upto. Usually
// Take begins with frame c.next. If c waits for a keyframe or has lost the frame c.next, Take
// begins with the newest keyframe. r.mu is held.
func (c *Cursor) canRead(upto int64) bool {
	r := c.ring
	if c.joining || c.stuck() != NotMissed {
		return r.keyOK && r.key >= c.next && r.key < upto
	}
	return c.next < upto
}

// stuck returns the reason why c can never take its next frame, Evicted or Refused, or NotMissed if
// c can take it. r.mu is held.
func (c *Cursor) stuck() Reason {
	l := &c.ring.frames
	switch {
	case c.next < l.tail:
		return Evicted
	case c.next < l.head && l.at(c.next).kind == hole:
		return Refused
	}
	return NotMissed
}

// behind reports whether c can move forward to a keyframe: whether the newest keyframe is after c's
// next frame. r.mu is held.
func (c *Cursor) behind() bool { return c.ring.keyOK && c.ring.key > c.next }

// late checks whether c lags more than an option of c allows. If it does, c must move to the newest
// keyframe, and late returns the Reason: LagBytes (for MaxLagBytes), LagFrames (for MaxLagFrames)
// or LagTime (for MaxLagTime). Otherwise late returns NotMissed.
//
// The ring must still contain c's next frame. r.mu is held.
func (c *Cursor) late(now int64) Reason {
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

// advance moves c to the newest keyframe if c waits for its first keyframe, has lost its next
// frame, or lags more than MaxLagBytes, MaxLagFrames or MaxLagTime allows. If there is no keyframe
// to move to, c stays where it is. r.mu is held.
func (c *Cursor) advance(now int64) {
	r := c.ring
	if c.joining {
		if r.keyOK && r.key >= c.next {
			c.begin()
		}
		return
	}
	why := c.stuck()
	if why != NotMissed {
		c.note(why) // the record may be removed before the next keyframe comes
	}
	if !c.behind() {
		return
	}
	if why == NotMissed {
		if why = c.late(now); why == NotMissed {
			return
		}
	}
	c.lose(r.key, r.frames.begin(r.key), why)
	c.starting = true
	c.headPreamble.drop()
	c.headPreamble = nil
}

// begin makes c start at the newest keyframe. r.keyOK must be set. r.mu is held.
func (c *Cursor) begin() {
	c.joining, c.starting = false, true
	c.moveTo(c.ring.key, c.ring.frames.begin(c.ring.key))
}

// lose moves c to the frame with the number next and counts the frames before it as lost. off is
// the offset of the frame's first byte in the ring's log. r.mu is held.
func (c *Cursor) lose(next, off int64, why Reason) {
	c.note(why)
	frames, bytes := next-c.next, off-c.off
	c.missed.Frames += int(frames)
	c.missed.Bytes += bytes
	c.ring.stats.lose(c.missed.Why, frames, bytes)
	c.moveTo(next, off)
}

// note records that c has lost its next frame: the reason, and the time when the frame was
// published. If c has an earlier loss to report, note does nothing. The ring must still contain the
// record of the lost frame. r.mu is held.
func (c *Cursor) note(why Reason) {
	if c.missed.Why == NotMissed {
		c.missed.Why = why
		c.since = c.ring.frames.at(c.next).at
	}
}

// moveTo moves c to the frame with the number next. off is the offset of the frame's first byte in
// the ring's log. r.mu is held.
func (c *Cursor) moveTo(next, off int64) {
	c.next, c.off = next, off
	c.ring.lowest = min(c.ring.lowest, next)
}

// Take adds shares of the next frames to dst, but at most as many as the batch limits allow. It
// adds whole frames only, and at least one if there is any. The caller owns dst and the shares, and
// releases them by releasing or sending dst. Take never waits. If there is nothing new, it returns
// the zero Batch.
//
// On a closed ring, Take returns io.EOF after the last frame. On a closed cursor, it returns
// ErrClosed. With an error, it adds nothing to dst.
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
	if c.behind() {
		now = r.now() // not needed otherwise; reading the clock is a third of the cost of Take
	}
	c.advance(now)
	switch {
	case c.canRead(r.frames.head):
		b = c.give(dst)
	case r.closed: // no keyframe will come, so the loss is final
		c.lose(r.frames.head, r.log.end, c.missed.Why)
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
// Usually, Next waits until the ring signals new frames. The ring sends one signal for all frames
// that are published within [Latency] of each other, so that they form one batch. On the first
// call, and after a Batch with More set, Next returns available frames without waiting for a
// signal.
//
// If ctx ends first, Next returns ctx.Err(). At the end of the stream, Next may return a Batch
// without frames, to report lost frames in Missed.
func (c *Cursor) Next(ctx context.Context, dst *millrace.Chain) (Batch, error) {
	if c.wait == nil {
		c.wait = c.watch()
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

// watch returns a new Watcher of the ring for Cursor.Next to wait on. Cursor.Close stops the
// Watcher and ends the wait.
func (c *Cursor) watch() *Watcher {
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

// drained reports whether c has taken everything that it can take from a closed ring. r.mu is held.
func (c *Cursor) drained() bool { return c.joining || c.next == c.ring.frames.head }

// give adds the next batch of frames to dst. c's next frame must be readable. r.mu is held.
func (c *Cursor) give(dst *millrace.Chain) (b Batch) {
	r := c.ring
	pre := c.headPreamble
	if c.starting {
		pre = r.frames.at(c.next).pre
	}
	room := c.opts.batchPieces
	if pre != nil && pre.id != c.given {
		before := dst.Pieces()
		pre.chain.Clone(dst)
		c.given = pre.id
		b.Preamble = pre.chain.Len()
		room -= dst.Pieces() - before
	}
	c.headPreamble.drop()
	c.headPreamble, c.starting = nil, false

	upto := c.fit(room)
	end := r.frames.at(upto - 1).end
	r.log.share(dst, c.off, end)
	b.Frames = int(upto - c.next)
	b.Bytes = b.Preamble + int(end-c.off)
	b.Info = r.frames.info(upto - 1)
	c.next, c.off = upto, end
	return b
}

// fit returns the number of the frame after the next batch. The batch begins with c's next frame
// and has as many frames as the batch limits allow, but at least one. room is the maximum number of
// pieces of memory in the batch. r.mu is held.
func (c *Cursor) fit(room int) int64 {
	l := &c.ring.frames
	begin := l.at(c.next).firstPiece
	n := c.next + 1
	for ; n < l.head && n-c.next < c.opts.batchFrames; n++ {
		rec := l.at(n)
		if rec.kind == hole || rec.end-c.off > c.opts.batchBytes ||
			int(rec.lastPiece-begin) > room {
			break
		}
	}
	return n
}

// Lag says how much of the stream a cursor has not taken yet.
type Lag struct {
	Bytes  int64
	Frames int
	Time   time.Duration // time since the publication of the first frame not taken, even a lost one
}

// Lag returns how much of the stream c has not taken yet. Frames that c has lost are part of the
// lag until Take reports the loss. If a reader takes nothing, the lag keeps growing, even though
// the ring moves the cursor past lost frames (see [Stats]).
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

// Close ends the cursor. From then on Next and Take fail; a Next that is waiting fails at once.
// Shares that were taken stay valid. Close may be called from any goroutine, and more than once.
func (c *Cursor) Close() {
	if news := c.end(); news != nil {
		news.Stop()
		news.signal()
	}
}

// end closes c and returns c's Watcher, on which a call of Next may be waiting. The caller must
// wake the Watcher. end returns nil if c has no Watcher or was already closed.
func (c *Cursor) end() (news *Watcher) {
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
