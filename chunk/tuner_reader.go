package chunk

// TunedBy puts a Reader under t, which takes the place of [Size] and [Depth]: each block is as large as t wants chunks
// to be when the block is taken. What the Reader gives counts as work done.
func TunedBy(t *Tuner) ReaderOption {
	if t == nil {
		panic("chunk: TunedBy(nil)")
	}
	return func(r *Reader) { r.tuner = t }
}

// retune takes over the setting in force. r.mu is held. A block that is being filled stays as it is.
func (r *Reader) retune() {
	if r.tuner != nil {
		r.size, r.depth = r.tuner.readerSetting()
	}
}

// readerSetting returns the chunk size and the depth in force.
func (t *Tuner) readerSetting() (size, depth int) {
	packed := t.reading.Load()
	return int(packed >> 32), int(packed & (1<<32 - 1))
}

// largest is the size that a chunk may come to have. t may be nil.
func (t *Tuner) largest() int {
	if t == nil {
		return 0
	}
	return t.cfg.sizes.most
}

// gave counts a chunk that Next gives. t may be nil.
func (t *Tuner) gave(bytes int) {
	if t != nil {
		t.moved.Add(int64(bytes))
	}
}

// sourceLate counts a Next that waits for its source. t may be nil.
func (t *Tuner) sourceLate() {
	if t != nil {
		t.starved.Add(1)
	}
}

// queueFull counts a source that waits for Next. t may be nil.
func (t *Tuner) queueFull() {
	if t != nil {
		t.stuffed.Add(1)
	}
}
