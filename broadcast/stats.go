package broadcast

// Stats is a snapshot of a Ring. Its counters start at 0 and only grow.
type Stats struct {
	// Frames and Bytes are the number and the total length of the kept frames.
	Frames int
	Bytes  int64

	// Start reports whether a new cursor can start at once. Start is true if the ring is open, and
	// keeps the newest keyframe and all frames after it.
	Start bool

	// Info is the Frame.Info of the newest frame, or nil if the ring keeps no frames.
	Info any

	Cursors  int // number of open cursors
	Watchers int

	PublishedFrames, PublishedBytes uint64 // frames and bytes that Publish accepted

	Refused uint64 // frames that were too large for Publish
	Evicted uint64 // frames that were dropped because of MaxBytes or MaxFrames, or by Evict

	// GroupsCut counts how often the newest GOP became unusable for new readers. This happens if
	// the GOP outgrows MaxBytes or MaxFrames and loses its start, or if Publish refuses one of its
	// frames. New readers must then wait for the next keyframe.
	GroupsCut uint64

	// Lost counts, by Reason, the frames that cursors have skipped. In a move, a cursor skips to
	// the newest keyframe or, in a closed ring, to the end. Moves counts these moves.
	//
	// A cursor moves when its reader calls Take, when a keyframe is published or when the ring is
	// closed. The reader's next batch reports the lost frames as Batch.Missed.
	Lost [reasons]struct{ Moves, Frames, Bytes uint64 }
}

func (s *Stats) lose(reason Reason, frames, bytes int64) {
	l := &s.Lost[reason]
	l.Moves++
	l.Frames += uint64(frames)
	l.Bytes += uint64(bytes)
}

// Stats returns a snapshot.
func (r *Ring) Stats() Stats {
	r.watchers.mu.Lock()
	watchers := len(r.watchers.list)
	r.watchers.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Frames = r.frames.count()
	s.Bytes = r.keptBytes()
	s.Start = r.keyOK && !r.closed
	if s.Frames > 0 {
		s.Info = r.frames.info(r.frames.head - 1)
	}
	s.Cursors = len(r.cursors)
	s.Watchers = watchers
	return s
}
