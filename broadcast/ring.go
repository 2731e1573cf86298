package broadcast

import (
	"sync"
	"time"

	"github.com/millrace-io/millrace"
)

// Frame describes a published chain.
type Frame struct {
	// Key marks a frame at which a reader may start, after the preamble. If the frames of a stream
	// are independent of each other, every frame has Key set.
	Key bool

	// Info is the publisher's knowledge about the frame. Readers that take frames one by one get it
	// with the frame, so that they need not parse it; see Batch.Info. They share it: it must not
	// change any more. It may be nil.
	Info any
}

// A Ring keeps the newest frames of one stream for any number of Cursors.
//
// All methods may be called from any goroutine. Frames and preambles have the order in which
// Publish and SetPreamble were called, so one goroutine at a time should call those.
//
// Publish waits for no reader: at most for the batches that are being shared at that moment.
//
// The ring keeps, from each keyframe on, everything that a late joiner needs (from the newest
// keyframe on) or a cursor within its allowance has not taken yet. MaxBytes and MaxFrames limit it
// in any case.
type Ring struct {
	// mu guards all but opts, epoch and watchers. Publish holds it while one frame is added to the
	// log and others are dropped, and to look at each cursor when the frame is a keyframe or evicts
	// one that a cursor may be at. Take holds it while one batch of pieces is shared. No goroutine
	// holds it while it waits, sends or wakes others.
	mu sync.Mutex

	opts  options
	epoch time.Time // times are nanoseconds since then

	watchers watchers
	timer    *time.Timer // of announcements; nil if latency is 0

	frames   records
	log      byteLog
	key      int64     // the newest keyframe, if keyOK
	keyOK    bool      // there is one, and everything from it on is kept
	preamble *preamble // the current one; nil for none
	preID    uint64    // preambles so far
	cursors  []*Cursor // each at its index
	lowest   int64     // no cursor is at a kept frame below; see evict
	closed   bool
	closedAt int64

	due   int64 // when frames that were not announced will be; 0: there are none
	stats Stats // the counters of it
}

// New returns an empty Ring. Its owner ends its life with Close.
func New(opts ...Option) *Ring {
	r := &Ring{
		opts: options{
			maxBytes:  defaultMaxBytes,
			maxFrames: defaultMaxFrames,
		},
		epoch: time.Now(),
	}
	for _, opt := range opts {
		opt(&r.opts)
	}
	if r.opts.maxPieces == 0 {
		r.opts.maxPieces = max(r.opts.maxFrames,
			int(min(r.opts.maxBytes/pieceBytes, maxBytePieces)))
	}
	r.frames = newRecords(r.opts.maxFrames)
	if r.opts.latency > 0 {
		r.timer = time.AfterFunc(r.opts.latency, r.expire)
		r.timer.Stop()
	}
	return r
}

// now returns the ring's time. It stands still when the ring is closed: a reader that drains it
// cannot be late for anything.
func (r *Ring) now() int64 {
	if r.closed {
		return r.closedAt
	}
	return int64(time.Since(r.epoch))
}

// Publish adds a frame at the head. It takes ownership of p, which is left empty, even when it
// returns an error. It waits for no reader. It allocates when the ring keeps more frames than ever
// before: see [MaxFrames].
//
// The errors are ErrClosed, and *FrameTooLargeError for a frame that the ring could not keep even
// alone. Such a frame spoils the rest of its GOP: readers continue up to the frame before it, then
// at the next keyframe, with Missed reporting Refused. The ring stays usable.
func (r *Ring) Publish(p *millrace.Chain, f Frame) error {
	defer p.Release()
	announce, err := r.publish(p, f)
	if announce {
		r.watchers.signal()
	}
	return err
}

// publish is the part of Publish that needs the lock. On an error p is as it was.
func (r *Ring) publish(p *millrace.Chain, f Frame) (announce bool, err error) {
	size, pieces := int64(p.Len()), p.Pieces()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, ErrClosed
	}
	now := r.now()
	if size > r.opts.maxBytes || pieces > r.opts.maxPieces {
		r.refuse(now)
		return false, &FrameTooLargeError{
			Size: size, Limit: r.opts.maxBytes,
			Pieces: pieces, MaxPieces: r.opts.maxPieces,
		}
	}
	r.makeRoom(size, pieces)
	n := r.frames.head
	rec := record{at: now}
	rec.firstPiece, rec.lastPiece = r.log.append(p)
	rec.end = r.log.end
	if f.Key {
		rec.kind = key
		rec.pre = r.preamble.hold()
	}
	r.frames.push(rec)
	r.frames.setInfo(n, f.Info)
	r.stats.PublishedFrames++
	r.stats.PublishedBytes += uint64(size)
	announce = r.announceSoon(now)
	if f.Key {
		r.key, r.keyOK = n, true
		r.trim(now)
	}
	return announce, nil
}

// refuse puts a hole where a frame was too large. r.mu is held.
func (r *Ring) refuse(now int64) {
	r.makeRoom(0, 0)
	rec := record{end: r.log.end, at: now, kind: hole}
	rec.firstPiece, rec.lastPiece = r.log.here()
	r.frames.push(rec)
	r.stats.Refused++
	r.cutGroup()
}

// cutGroup notes that no reader can start at the newest keyframe any more.
func (r *Ring) cutGroup() {
	if r.keyOK {
		r.keyOK = false
		r.stats.GroupsCut++
	}
}

// makeRoom evicts the oldest frames until one of so many bytes and pieces fits. r.mu is held.
func (r *Ring) makeRoom(size int64, pieces int) {
	evicted := false
	for r.frames.full() || r.kept()+size > r.opts.maxBytes ||
		r.keptPieces()+pieces > r.opts.maxPieces {
		if r.keyOK && r.frames.tail == r.key {
			r.cutGroup()
		}
		r.evict()
		evicted = true
	}
	if evicted {
		r.log.drop(r.frames.start)
	}
}

// evict drops the oldest frame. Cursors that are at it note the loss now, while it is known when
// the frame was published, and move when they come. lowest saves looking at all of them for frames
// that they took long ago. r.mu is held, and the caller drops the log's bytes.
func (r *Ring) evict() {
	if n := r.frames.tail; n >= r.lowest {
		r.lowest = r.frames.head
		for _, c := range r.cursors {
			switch {
			case c.joining || c.next < n: // has no place yet, or has lost it before
			case c.next == n:
				c.note(Evicted)
			default:
				r.lowest = min(r.lowest, c.next)
			}
		}
	}
	r.forget()
	r.stats.Evicted++
}

// Evict drops the frames that are older than age, as if the ring were full: frames before the
// newest GOP and, if all is set, also frames of that GOP. It returns the number of bytes dropped.
// Cursors that have not taken these frames lose them.
func (r *Ring) Evict(age time.Duration, all bool) (bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, now := r.kept(), r.now()
	for r.frames.count() > 0 && now-r.frames.at(r.frames.tail).at > int64(age) {
		if r.keyOK && r.frames.tail == r.key {
			if !all {
				break
			}
			r.cutGroup()
		}
		r.evict()
	}
	r.log.drop(r.frames.start)
	return before - r.kept()
}

// kept returns the bytes of the frames in the window. r.mu is held.
func (r *Ring) kept() int64 { return r.log.end - r.frames.start }

// keptPieces returns the pieces that the frames in the window lie in. r.mu is held.
func (r *Ring) keptPieces() int {
	if r.frames.count() == 0 {
		return 0
	}
	return int(r.log.pieces - r.frames.at(r.frames.tail).firstPiece)
}

// forget removes the oldest frame's record. r.mu is held, and the caller drops the log's bytes.
func (r *Ring) forget() {
	rec := r.frames.pop()
	rec.pre.drop()
}

// trim moves the cursors beyond their allowance, then drops frames that neither a cursor nor a late
// joiner needs. r.mu is held.
func (r *Ring) trim(now int64) {
	need := r.frames.head
	if r.keyOK && !r.closed {
		need = r.key
	}
	for _, c := range r.cursors {
		c.advance(now)
		if c.canRead(r.frames.head) {
			need = min(need, c.next)
		}
	}
	for r.frames.tail < need {
		r.forget()
	}
	if r.key < r.frames.tail {
		r.keyOK = false // closed, and no cursor is left to read it
	}
	r.log.drop(r.frames.start)
}

// SetPreamble sets the data that a reader needs before it can start at any later keyframe. It takes
// ownership of p, which is left empty; an empty p means that no preamble is needed. Earlier frames
// keep their preamble.
//
// A preamble is given to readers that start or are moved. A change that readers on their way must
// see as well is published as a frame, too.
//
// A closed ring has no use for a preamble: it takes p and releases it.
func (r *Ring) SetPreamble(p *millrace.Chain) {
	var pre *preamble
	if p.Len() > 0 {
		pre = &preamble{refs: 1}
		pre.chain.Merge(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		pre.drop()
		return
	}
	if pre != nil {
		r.preID++
		pre.id = r.preID
	}
	r.preamble.drop()
	r.preamble = pre
}

// Close ends the stream: Publish fails from now on, every Watcher is signalled, and cursors get the
// remaining frames, then io.EOF. The ring's memory is released when the last cursor has drained it
// or was closed; shares that were taken stay valid. Closing a closed ring does nothing. It returns
// nil.
func (r *Ring) Close() error {
	if r.end() {
		r.watchers.signal()
	}
	return nil
}

// end is the part of Close that needs the lock. It reports whether the ring was open.
func (r *Ring) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.closedAt = r.now()
	r.closed = true
	r.preamble.drop()
	r.preamble = nil
	r.announce()
	r.trim(r.closedAt)
	return true
}

func (r *Ring) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}
