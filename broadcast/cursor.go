package broadcast

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/millrace-io/millrace"
)

// A Cursor is one reader's place in a Ring.
//
// Only the reader's goroutine may call Next and Take (one goroutine at a time). Any goroutine may
// call Lag and Close. Next waits for frames. A reader that also waits for other events uses Take
// and a [Watcher] instead.
//
// # When a cursor is behind
//
// A cursor that exceeds its allowance (MaxLagBytes, MaxLagFrames, MaxLagTime) moves forward to the
// newest keyframe. It is never moved within the newest GOP, because there is no newer place to
// start from and the ring keeps that GOP for late joiners anyway. A reader that has begun the GOP
// sees more if it continues than if it waits for the next one. So a slow reader that takes frames
// again is behind the head by at most its allowance and one GOP. And a late joiner is not moved
// because of its first GOP.
//
// If a cursor's next frame was evicted or refused by Publish, the cursor moves to the newest
// keyframe after that frame. If there is no such keyframe, it waits for the next one, however long
// that takes. Until then Take adds nothing. The batch that ends the wait reports the loss. In a
// stream with keyframes only at its start, only Close ends the wait.
type Cursor struct {
	ring *Ring
	opts cursorOptions

	// The fields that only the reader uses.

	wait     *Watcher // the Watcher of Next; nil before its first call
	caughtUp bool     // Next must wait before it takes frames

	// ring.mu guards the other fields.

	news *Watcher // the same as wait, for use by Close

	next int64 // next frame to give; if it cannot be read, the first lost frame
	off  int64 // log offset of the first byte of frame next

	joining  bool // the cursor waits for its first keyframe
	starting bool // the next frame is the cursor's start: its preamble is given first
	// With FromHead, until the first batch: the preamble to give with that batch. The cursor holds
	// a ref on it.
	headPreamble *preamble
	given        uint64 // id of the last preamble that was given

	missed Missed // loss that was not reported yet
	since  int64  // time at which the first frame of missed was published; set with missed.Why

	closed bool
	index  int // index in ring.cursors
}

// Batch describes the frames that Next or Take added.
type Batch struct {
	Frames int // number of whole frames; 0: nothing new
	Bytes  int // number of bytes added to the chain

	// Preamble is the length, in bytes, of the preamble with which the batch's bytes begin.
	Preamble int

	// Info is the Info of the last frame. With [BatchFrames](1) that is the only frame.
	Info any

	// More reports whether the next Take has something to give at once: frames that did not fit
	// into this batch, or the end of the stream.
	More bool

	// Missed is the loss directly before these frames. If Frames == 0 it is the loss before the end
	// of the stream.
	Missed Missed
}

// Cursor returns a new cursor. Its owner ends it with Close. If the ring keeps a keyframe and all
// frames after it, the cursor starts at the newest keyframe, after that keyframe's preamble.
// Otherwise it starts at the next keyframe to be published, never in the middle of a GOP. On a
// closed ring it starts at the end.
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

// canRead reports whether a frame before frame upto can be taken, now or after a move to the newest
// keyframe. r.mu is held.
func (c *Cursor) canRead(upto int64) bool {
	r := c.ring
	if c.joining || c.stuck() != NotMissed {
		return r.keyOK && r.key >= c.next && r.key < upto
	}
	return c.next < upto
}

// stuck returns the reason why the frame at c.next will never be read, or NotMissed. r.mu is held.
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

// behind reports whether there is a keyframe after c's place to move to. r.mu is held.
func (c *Cursor) behind() bool { return c.ring.keyOK && c.ring.key > c.next }

// late returns the reason for the allowance that c exceeds, or NotMissed. c.next must be in the
// window. r.mu is held.
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

// advance moves c to the newest keyframe if it must move and can; see Cursor. r.mu is held.
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
		c.note(why) // the frame's record may be gone when the next keyframe comes
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

// begin makes c start with the newest keyframe, which must be kept. r.mu is held.
func (c *Cursor) begin() {
	c.joining, c.starting = false, true
	c.moveTo(c.ring.key, c.ring.frames.begin(c.ring.key))
}

// lose moves c to frame next at offset off and notes the loss of the frames before it. r.mu is
// held.
func (c *Cursor) lose(next, off int64, why Reason) {
	c.note(why)
	frames, bytes := next-c.next, off-c.off
	c.missed.Frames += int(frames)
	c.missed.Bytes += bytes
	c.ring.stats.lose(c.missed.Why, frames, bytes)
	c.moveTo(next, off)
}

// note stores why the frame at c.next is lost and when it was published, if this is the first loss
// that c has not reported. The frame's record must still exist. evict and trim therefore call note
// before they remove the record. r.mu is held.
func (c *Cursor) note(why Reason) {
	if c.missed.Why == NotMissed {
		c.missed.Why = why
		c.since = c.ring.frames.at(c.next).at
	}
}

// moveTo moves c to frame next at offset off, which may be lower than the place of any other
// cursor. r.mu is held.
func (c *Cursor) moveTo(next, off int64) {
	c.next, c.off = next, off
	c.ring.lowest = min(c.ring.lowest, next)
}

// Take adds shares of the frames between c and the head to dst. It adds whole frames only, as many
// as the batch limits allow, and at least one if there is any. The caller keeps the ownership of
// dst and of all bytes in it, and releases the shares by releasing or sending dst. Take never
// waits: if there is nothing new, it returns the zero Batch.
//
// After the ring was closed and c has taken the remaining frames, Take returns io.EOF. After c was
// closed, it returns ErrClosed. With an error, nothing is added to dst.
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
		now = r.now() // only here: it is a third of the cost of a Take
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

// Next is Take for a reader that waits for no other events. If there are no new frames, it waits
// until there are some. If ctx ends first, it returns ctx.Err(). It does not wait on its first
// call, nor if the last Batch had More set. After any other batch it waits for an announcement, so
// that frames that arrive within [Latency] of each other form one batch. A batch without frames
// reports a loss at the end of the stream.
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

// watch returns a Watcher for Next. Close stops and signals it.
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

// drained reports whether c has taken all that it will ever get from a closed ring. r.mu is held.
func (c *Cursor) drained() bool { return c.joining || c.next == c.ring.frames.head }

// give adds a batch to dst. The frame at c.next must be readable. The caller holds the mutex of
// c.ring.
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

// fit returns the number of the first frame after the batch that begins at c.next. room is the
// number of pieces that the batch may have. r.mu is held.
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

// Lag is the distance between a cursor and the head.
type Lag struct {
	Bytes  int64
	Frames int
	Time   time.Duration // time since the first frame not taken, which may be lost, was published
}

// Lag returns the distance of c from the head. Lost frames count until a Take reports them. The Lag
// of a reader that takes nothing keeps growing, even though the ring moves its cursor (see
// [Stats]). A cursor that waits for its first keyframe has no lag.
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

// Close ends the cursor. Next and Take fail from then on, and a Next that is waiting fails at once.
// Shares that were taken stay valid. Close may be called from any goroutine, and more than once.
func (c *Cursor) Close() {
	if news := c.end(); news != nil {
		news.Stop()
		news.signal()
	}
}

// end is the part of Close that needs the lock. It returns the Watcher of a waiting Next.
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
