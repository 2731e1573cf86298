package broadcast

import (
	"sync"
	"time"

	"github.com/millrace-io/millrace"
)

// A Frame describes a chain that is passed to [Ring.Publish].
type Frame struct {
	// Key marks a frame at which a reader may start. If the frames are independent of each other,
	// every frame has Key set.
	Key bool

	// Info is the publisher's information about the frame, or nil. Readers get it as Batch.Info and
	// share it, so it must not be changed after Publish.
	Info any
}

// A Ring keeps the newest frames of one stream for any number of Cursors.
//
// All methods may be called from any goroutine. One goroutine at a time should call Publish and
// SetPreamble, because their order is the order of the stream.
//
// The ring keeps the newest keyframe and all frames after it for new cursors. It also keeps the
// frames that a cursor has not taken, as long as the cursor does not lag too much (see [Cursor]).
// It never keeps more than MaxBytes and MaxFrames allow.
type Ring struct {
	// mu guards all fields except opts and epoch, which never change, and watchers, which has its
	// own mutex. A goroutine that holds mu never waits, sends data or signals the watchers.
	mu sync.Mutex

	opts  options
	epoch time.Time // times are nanoseconds since epoch

	watchers watchers
	timer    *time.Timer // signals the watchers; nil if the latency is 0

	frames   records
	log      byteLog
	key      int64     // number of the newest keyframe, if keyOK
	keyOK    bool      // the ring keeps a keyframe and all frames after it
	preamble *preamble // the current preamble, or nil
	preID    uint64    // number of preambles so far
	cursors  []*Cursor // cursors[c.index] is c
	lowest   int64     // no cursor is at a kept frame before this one
	closed   bool
	closedAt int64

	due   int64 // when the timer will signal the watchers; 0 if there are no new frames
	stats Stats
}

// New returns an empty Ring, which the publisher must close.
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

// now returns the time since the ring was created, in nanoseconds. After Close, it always returns
// the time of Close, so that the readers' lag stops growing. The caller must hold r.mu.
func (r *Ring) now() int64 {
	if r.closed {
		return r.closedAt
	}
	return int64(time.Since(r.epoch))
}

// Publish adds a frame with the bytes of p after the newest frame. It takes ownership of p, which
// is left empty, even if Publish returns an error.
//
// Publish never waits for a reader to take frames. It may wait for the ring's lock while Take adds
// a batch to a reader's chain. Publish allocates memory only when the ring keeps more frames than
// ever before (see [MaxFrames]).
//
// If the ring is closed, the error is ErrClosed. If the frame would not fit even into an empty
// ring, the error is a *FrameTooLargeError, and the ring stays usable. Without the refused frame,
// readers cannot use the rest of its GOP. They get the frames before the refused frame, and then
// continue at the next keyframe. The batch that begins with this keyframe reports the loss in
// Batch.Missed, with the Reason Refused.
func (r *Ring) Publish(p *millrace.Chain, f Frame) error {
	defer p.Release()
	announce, err := r.publish(p, f)
	if announce {
		r.watchers.signal()
	}
	return err
}

// publish adds a frame with the bytes of p to the ring, and reports whether the caller must signal
// the watchers. If it returns an error, p is unchanged.
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

// refuse adds an empty record in place of a frame that is too large. The caller must hold r.mu.
func (r *Ring) refuse(now int64) {
	r.makeRoom(0, 0)
	rec := record{end: r.log.end, at: now, kind: hole}
	rec.firstPiece, rec.lastPiece = r.log.emptyRange()
	r.frames.push(rec)
	r.stats.Refused++
	r.cutGroup()
}

// cutGroup makes new cursors wait for the next keyframe, because the newest GOP is incomplete. The
// caller must hold r.mu.
func (r *Ring) cutGroup() {
	if r.keyOK {
		r.keyOK = false
		r.stats.GroupsCut++
	}
}

// makeRoom evicts the oldest frames until the ring has room for a frame with the given size in
// bytes and number of pieces. The caller must hold r.mu.
func (r *Ring) makeRoom(size int64, pieces int) {
	evicted := false
	for r.frames.full() || r.keptBytes()+size > r.opts.maxBytes ||
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

// evict removes the record of the oldest frame, and notes the loss in each cursor at that frame.
// The caller must hold r.mu, and must then drop the frame's bytes from r.log.
func (r *Ring) evict() {
	if n := r.frames.tail; n >= r.lowest { // otherwise, no cursor is at frame n
		r.lowest = r.frames.head
		for _, c := range r.cursors {
			switch {
			case c.joining || c.next < n: // waits for a keyframe, or has lost an earlier frame
			case c.next == n:
				c.noteLoss(Evicted)
			default:
				r.lowest = min(r.lowest, c.next)
			}
		}
	}
	r.removeOldest()
	r.stats.Evicted++
}

// Evict drops the frames that are older than age, as if the ring were full, and returns the number
// of bytes dropped. It drops frames of the newest GOP only if dropNewest is set. Cursors that have
// not taken the dropped frames lose them.
func (r *Ring) Evict(age time.Duration, dropNewest bool) (bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, now := r.keptBytes(), r.now()
	for r.frames.count() > 0 && now-r.frames.at(r.frames.tail).at > int64(age) {
		if r.keyOK && r.frames.tail == r.key {
			if !dropNewest {
				break
			}
			r.cutGroup()
		}
		r.evict()
	}
	r.log.drop(r.frames.start)
	return before - r.keptBytes()
}

// keptBytes returns the total length of the kept frames in bytes. The caller must hold r.mu.
func (r *Ring) keptBytes() int64 { return r.log.end - r.frames.start }

// keptPieces returns the number of contiguous pieces of memory that contain the kept frames. The
// caller must hold r.mu.
func (r *Ring) keptPieces() int {
	if r.frames.count() == 0 {
		return 0
	}
	return int(r.log.pieces - r.frames.at(r.frames.tail).firstPiece)
}

// removeOldest removes the record of the oldest frame. The caller must hold r.mu, and must then
// drop the frame's bytes from r.log.
func (r *Ring) removeOldest() {
	rec := r.frames.pop()
	rec.pre.drop()
}

// trim advances all cursors (see Cursor.advance), and drops the oldest frames that no cursor will
// take. In an open ring, it keeps the newest keyframe and all frames after it. The caller must hold
// r.mu.
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
		r.removeOldest()
	}
	if r.key < r.frames.tail {
		r.keyOK = false // the ring is closed, and no cursor needs the newest GOP
	}
	r.log.drop(r.frames.start)
}

// SetPreamble sets the preamble: the data that a reader needs before a keyframe, such as the codec
// configuration. The new preamble applies to keyframes that are published later. Earlier keyframes
// keep their preamble. If p is empty, later keyframes have no preamble.
//
// SetPreamble takes ownership of p, which is left empty. On a closed ring, it only releases p.
//
// A reader gets the preamble when its cursor starts, and when its cursor moves forward to a
// keyframe (see [Cursor]). Other readers do not get the preamble. If they need the data as well,
// publish the data as a frame, too.
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

// Close marks the end of the stream and signals every Watcher. After Close, Publish fails. Readers
// get the remaining frames, and then io.EOF. Batches that readers have already taken stay valid.
//
// The ring releases its memory when every cursor has taken the remaining frames or was closed.
// Close always returns nil. Closing a closed ring does nothing.
func (r *Ring) Close() error {
	if r.markClosed() {
		r.watchers.signal()
	}
	return nil
}

// markClosed marks the ring as closed. It returns false if the ring was already closed.
func (r *Ring) markClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.closedAt = r.now()
	r.closed = true
	r.preamble.drop()
	r.preamble = nil
	r.stopTimer()
	r.trim(r.closedAt)
	return true
}

func (r *Ring) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}
