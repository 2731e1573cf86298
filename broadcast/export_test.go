package broadcast

import (
	"fmt"
	"unsafe"
)

// RecordSize is the cost of a frame, in addition to its bytes, as documented at MaxFrames.
const RecordSize = unsafe.Sizeof(record{})

// Records returns the length of r's circular array of records.
func (r *Ring) Records() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.frames.recs)
}

// PieceSize is the cost of a piece, in addition to its bytes, as documented at MaxFrames: its part
// of a segment, and of two lists with room for it.
const PieceSize = (float64(unsafe.Sizeof(segment{})) + 2*8) / segmentPieces

// MaxPieces sets the limit that New would derive from MaxBytes and MaxFrames.
func MaxPieces(n int) Option { return func(o *options) { o.maxPieces = n } }

// BatchPieces sets the number of pieces that one Take adds to its chain.
func BatchPieces(n int) CursorOption { return func(o *cursorOptions) { o.batchPieces = n } }

// Check returns a violation of r's invariants.
func (r *Ring) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, check := range []func() error{r.checkRecords, r.checkLog, r.checkPreambles,
		r.checkLists} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Ring) checkRecords() error {
	l := &r.frames
	if n := l.count(); n < 0 || n > len(l.recs) || n > r.opts.maxFrames {
		return fmt.Errorf("%d records in %d places, MaxFrames is %d", n, len(l.recs),
			r.opts.maxFrames)
	}
	off := l.start
	for n := l.tail; n < l.head; n++ {
		rec := l.at(n)
		if rec.end < off {
			return fmt.Errorf("frame %d ends at %d, before it begins at %d", n, rec.end, off)
		}
		if rec.pre != nil && rec.kind != key {
			return fmt.Errorf("frame %d has a preamble and is no keyframe", n)
		}
		off = rec.end
	}
	if off != r.log.end {
		return fmt.Errorf("the last frame ends at %d, the log at %d", off, r.log.end)
	}
	if r.keptBytes() > r.opts.maxBytes {
		return fmt.Errorf("%d bytes kept, MaxBytes is %d", r.keptBytes(), r.opts.maxBytes)
	}
	if r.keyOK && (r.key < l.tail || l.at(r.key).kind != key) {
		return fmt.Errorf("frame %d is not a start", r.key)
	}
	return nil
}

func (r *Ring) checkLog() error {
	l := &r.log
	off := r.frames.start
	pieces := 0
	for i := range l.count {
		s := *l.at(i)
		if s.start != off || s.end-s.start != int64(s.chain.Len()) || s.chain.Len() == 0 {
			return fmt.Errorf("segment %d is [%d, %d) of %d bytes, want it at %d", i, s.start,
				s.end, s.chain.Len(), off)
		}
		n := s.chain.Pieces()
		if n > segmentPieces || n < segmentPieces && i > 0 && i < l.count-1 {
			return fmt.Errorf("segment %d of %d has %d pieces", i, l.count, n)
		}
		pieces += n
		off = s.end
	}
	if off != l.end {
		return fmt.Errorf("the last segment ends at %d, the log at %d", off, l.end)
	}
	if kept := r.keptPieces(); pieces > kept || kept > r.opts.maxPieces {
		return fmt.Errorf("%d pieces counted as %d, MaxPieces is %d", pieces, kept,
			r.opts.maxPieces)
	}
	for _, s := range l.spare {
		if s.chain.Len() != 0 {
			return fmt.Errorf("a spare segment has %d bytes", s.chain.Len())
		}
	}
	return nil
}

func (r *Ring) checkPreambles() error {
	refs := map[*preamble]int{}
	refs[r.preamble]++
	for n := range r.frames.recs {
		refs[r.frames.recs[n].pre]++
	}
	for _, c := range r.cursors {
		refs[c.headPreamble]++
	}
	for p, n := range refs {
		if p != nil && p.refs != n {
			return fmt.Errorf("preamble %d has %d refs, want %d", p.id, p.refs, n)
		}
	}
	return nil
}

func (r *Ring) checkLists() error {
	for i, c := range r.cursors {
		if c.index != i || c.closed {
			return fmt.Errorf("cursor %d has index %d, closed %v", i, c.index, c.closed)
		}
	}
	r.watchers.mu.Lock()
	defer r.watchers.mu.Unlock()
	for i, w := range r.watchers.list {
		if w.index != i {
			return fmt.Errorf("watcher %d has index %d", i, w.index)
		}
	}
	return nil
}

// TimerArmed reports whether the latency timer is running, and stops it.
func (r *Ring) TimerArmed() bool { return r.timer != nil && r.timer.Stop() }

// Expire does the same as the latency timer when it fires.
func (r *Ring) Expire() { r.expire() }
