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
// Next and Take belong to one goroutine at a time, the reader's; Lag and Close may be called from
// any goroutine. Next waits; a reader that waits for other things as well uses Take and a
// [Watcher].
//
// # When a cursor is behind
//
// A cursor beyond its allowance (MaxLagBytes, MaxLagFrames, MaxLagTime) moves forward to the newest
// keyframe. It is never moved within the newest GOP: there is no newer place to start from, and the
// ring keeps that GOP for late joiners anyway. A reader that has begun the GOP sees more if it
// continues than if it waits for the next one. So when a slow reader takes frames again, it
// continues at most its allowance and one GOP behind the head, and a late joiner is not moved
// because of its first GOP.
//
// A cursor whose place was evicted, or that comes to a frame that Publish refused, moves to the
// newest keyframe after that place. If there is none it waits for the next keyframe, however long
// that takes: until then Take adds nothing, and the batch that ends the wait reports the loss. In a
// stream with keyframes only at its start the wait ends with Close.
type Cursor struct {
	ring *Ring
	opts cursorOptions

	// The reader's alone.

	wait     *Watcher // Next's; nil before its first call
	caughtUp bool     // Next has to wait first

	// The rest is guarded by ring.mu.

	news *Watcher // the same as wait, for Close

	next int64 // the frame to give next, or, while it can't be read, the first one lost
	off  int64 // log offset of its first byte

	joining  bool // waits for the first keyframe it will ever see
	starting bool // the next frame given is a start: its preamble goes first
	// With FromHead, until the first batch: the preamble to send first; counted.
	headPreamble *preamble
	given        uint64 // id of the preamble that it was given last

	missed Missed // not told yet
	since  int64  // when the first frame of missed was published; with missed.Why

	closed bool
	index  int // in ring.cursors
}

// Batch describes the frames that Next or Take added.
type Batch struct {
	Frames int // whole frames; 0: nothing new
	Bytes  int // by how much the chain has grown

	// Preamble is how many of Bytes, the first ones, are the preamble.
	Preamble int

	// Info is the Info of the last frame: with [BatchFrames](1) that of the only one.
	Info any

	// More says that the next Take has something to give at once: frames that this batch had no
	// room for, or the end of the stream.
	More bool

	// Missed is the loss directly before these frames. If Frames == 0 it is the loss before the end
	// of the stream.
	Missed Missed
}

// Cursor returns a new cursor, which its owner ends with Close. It starts at the newest keyframe
// that is kept with its whole GOP, after that keyframe's preamble; if there is none, at the next
// keyframe to be published, never in the middle of a GOP. On a closed ring it starts at the end.
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

// canRead reports whether a frame before upto can be taken, now or after a move to the newest
// keyframe. r.mu is held.
func (c *Cursor) canRead(upto int64) bool {
	r := c.ring
	if c.joining || c.stuck() != NotMissed {
		return r.keyOK && r.key >= c.next && r.key < upto
	}
	return c.next < upto
}

// stuck says why the frame at c.next will never be read, if so. r.mu is held.
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

// behind reports whether there is a keyframe newer than c's place to move to. r.mu is held.
func (c *Cursor) behind() bool { return c.ring.keyOK && c.ring.key > c.next }

// late says which allowance c exceeds, if any. c.next must be in the window. r.mu is held.
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

// advance moves c to the newest keyframe if it has to go there and can; see the type's comment.
// r.mu is held.
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

// begin starts c with the newest keyframe, which is there. r.mu is held.
func (c *Cursor) begin() {
	c.joining, c.starting = false, true
	c.moveTo(c.ring.key, c.ring.frames.begin(c.ring.key))
}

// lose moves c to frame next at offset off and notes the loss. r.mu is held.
func (c *Cursor) lose(next, off int64, why Reason) {
	c.note(why)
	frames, bytes := next-c.next, off-c.off
	c.missed.Frames += int(frames)
	c.missed.Bytes += bytes
	c.ring.stats.lose(c.missed.Why, frames, bytes)
	c.moveTo(next, off)
}

// note keeps why the frame at c.next is lost, and when it was published, if it is the first that c
// was not told of. Its record is there: evict and trim call note before they take it away. r.mu is
// held.
func (c *Cursor) note(why Reason) {
	if c.missed.Why == NotMissed {
		c.missed.Why = why
		c.since = c.ring.frames.at(c.next).at
	}
}

// moveTo moves c to frame next at offset off, which may be lower than where any other cursor is.
// r.mu is held.
func (c *Cursor) moveTo(next, off int64) {
	c.next, c.off = next, off
	c.ring.lowest = min(c.ring.lowest, next)
}

// Take adds shares of the frames between c and the head to dst: whole frames only, as many as the
// batch limits allow, and at least one if there is any. dst and all that is in it stay the
// caller's: dst.Release, or sending them, ends the life of the shares. Take never waits: when there
// is nothing new it returns the zero Batch.
//
// After the ring was closed and c has got the rest, Take returns io.EOF; after c was closed,
// ErrClosed. Nothing is added to dst with an error.
func (c *Cursor) Take(dst *millrace.Chain) (b Batch, err error) {
	_ = dst.Len() // a nil dst panics here, not with the ring's lock held
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
		now = r.now() // most cursors are not, and the clock is a third of a Take
	}
	c.advance(now)
	switch {
	case c.canRead(r.frames.head):
		b = c.give(dst)
	case r.closed: // no keyframe will come: the loss is final
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

// Next is Take for a reader that waits for nothing else. If there are no new frames it waits for
// them, or until ctx ends, and then returns ctx.Err(). It does not wait on its first call, nor
// while Batch.More says that there are more frames: after any other batch it waits for an
// announcement, so that frames that arrive within [Latency] of each other form one batch. A batch
// without frames reports a loss at the end of the stream.
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

// watch returns a Watcher that Close stops and signals.
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

// drained reports whether c has got all that it will ever get from a closed ring. r.mu is held.
func (c *Cursor) drained() bool { return c.joining || c.next == c.ring.frames.head }

// give adds a batch to dst. The frame at c.next can be read. r.mu is held.
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

// fit returns the frame before which the batch that begins at c.next ends, given how many pieces
// there is room for. r.mu is held.
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

// Lag says how far a cursor is behind the head.
type Lag struct {
	Bytes  int64
	Frames int
	Time   time.Duration // since the first frame it has not got, perhaps a lost one, was published
}

// Lag returns how far c is behind. Lost frames count until a Take reports them. The Lag of a reader
// that takes nothing keeps growing, even though the ring moves its cursor (see [Stats]). A cursor
// that waits for its first keyframe is not behind.
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

// Close ends the cursor: Next and Take fail from here on, and so does a Next that
// waits.
// Shares that were taken live on. Close may be called from any goroutine, and
// more than once.
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
