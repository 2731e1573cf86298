package broadcast

// Stats is a snapshot of a Ring. The counters start at 0 and only grow.
type Stats struct {
	// Frames and Bytes are the number and the total length of the frames that are kept.
	Frames int
	Bytes  int64

	// Start reports whether a new cursor starts at once. It does if the newest keyframe and all
	// frames after it are kept.
	Start bool

	// Info is the Info of the newest frame, or nil if none is kept.
	Info any

	Cursors  int // open cursors
	Watchers int

	PublishedFrames, PublishedBytes uint64 // frames and bytes that Publish accepted

	Refused uint64 // frames that Publish refused as too large
	Evicted uint64 // frames that were dropped to make room

	// GroupsCut counts how often the newest GOP became unusable for new readers. Either it lost its
	// start because it outgrew MaxBytes or MaxFrames, or it got a gap because a frame was refused.
	// New readers must then wait for the next keyframe.
	GroupsCut uint64

	// Lost counts the losses of all cursors, by Reason. A move is counted when it happens. A cursor
	// moves in Take. If it takes nothing, it moves when a keyframe is published while the cursor
	// exceeds its allowance. Missed reports the loss to the reader in its next batch.
	Lost [reasons]struct{ Moves, Frames, Bytes uint64 }
}

// lose counts a move of a cursor and the frames and bytes lost by it.
func (s *Stats) lose(why Reason, frames, bytes int64) {
	l := &s.Lost[why]
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
	s.Bytes = r.kept()
	s.Start = r.keyOK && !r.closed
	if s.Frames > 0 {
		s.Info = r.frames.info(r.frames.head - 1)
	}
	s.Cursors = len(r.cursors)
	s.Watchers = watchers
	return s
}
