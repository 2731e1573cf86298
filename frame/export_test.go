package frame

// Kept returns how much memory d holds for a frame that it has not handed over.
func (d *Decoder) Kept() int { return cap(d.kept) }
