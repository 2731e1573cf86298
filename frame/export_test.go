package frame

// Kept returns the bytes of memory that d holds for an unfinished frame.
func (d *Decoder) Kept() int { return cap(d.kept) }
