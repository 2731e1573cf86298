package broadcast

// Stats is a snapshot of a Ring. The counters begin with 0 and only grow.
type Stats struct {
	// What is kept at present.
	Frames int
	Bytes  int64

	// Start says that a new cursor starts at once: the newest key frame is
	// kept with all that follows it.
	Start bool

	Cursors  int // open ones
	Watchers int

	// Published counts the frames and bytes that Publish has taken, Refused
	// the frames that were above MaxBytes or MaxPieces.
	Published Volume
	Refused   uint64

	// Evicted counts the frames that were dropped to make room, whether or
	// not anybody still wanted them.
	Evicted uint64

	// GroupsCut counts how often the newest group of pictures lost its start
	// (it outgrew MaxBytes, MaxFrames or MaxPieces) or got a hole (a refused
	// frame), so that new readers have to wait for the next key frame.
	GroupsCut uint64

	// Lost counts what cursors have lost, each for itself, by Reason. It
	// counts a move when it happens: in Take, or, for a cursor that takes
	// nothing, when a key frame is published while it is over its allowance.
	// Missed tells the reader later, in its next batch.
	Lost [reasons]Loss
}

// Volume is a number of frames and their bytes.
type Volume struct {
	Frames, Bytes uint64
}

// Loss is what cursors have lost for one Reason, in how many moves.
type Loss struct {
	Moves, Frames, Bytes uint64
}

// tally is the counters of a Ring. It is guarded by Ring.mu.
type tally struct {
	frames, bytes, refused, evicted, groupsCut uint64

	lost [reasons]Loss
}

func (t *tally) lose(why Reason, frames, bytes int64) {
	l := &t.lost[why]
	l.Moves++
	l.Frames += uint64(frames)
	l.Bytes += uint64(bytes)
}

// Stats returns a snapshot.
func (r *Ring) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{
		Frames:    r.frames.count(),
		Bytes:     r.kept(),
		Start:     r.keyOK && !r.closed,
		Cursors:   len(r.cursors),
		Watchers:  len(r.watchers),
		Published: Volume{r.tally.frames, r.tally.bytes},
		Refused:   r.tally.refused,
		Evicted:   r.tally.evicted,
		GroupsCut: r.tally.groupsCut,
		Lost:      r.tally.lost,
	}
}
