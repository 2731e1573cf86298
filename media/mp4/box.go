package mp4

import "encoding/binary"

// boxes builds nested boxes in memory. A box has a size of 4 bytes, a type of 4 letters, and the
// content.
type boxes struct{ b []byte }

// begin opens a box. It returns the box's offset for the call of end.
func (w *boxes) begin(kind string) (at int) {
	at = len(w.b)
	w.u32(0)
	w.text(kind)
	return at
}

// full starts a box that has a version and flags. It returns the offset of the box. The caller
// passes the offset to the method end.
func (w *boxes) full(kind string, version uint8, flags uint32) (at int) {
	at = w.begin(kind)
	w.u32(uint32(version)<<24 | flags)
	return at
}

// end closes the box that begins at w.b[at].
func (w *boxes) end(at int) { w.patch(at, uint32(len(w.b)-at)) }

// patch overwrites the four bytes from w.b[at] on with the number v.
func (w *boxes) patch(at int, v uint32) { binary.BigEndian.PutUint32(w.b[at:], v) }

func (w *boxes) u8(v uint8)     { w.b = append(w.b, v) }
func (w *boxes) u16(v uint16)   { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *boxes) u32(v uint32)   { w.b = binary.BigEndian.AppendUint32(w.b, v) }
func (w *boxes) u64(v uint64)   { w.b = binary.BigEndian.AppendUint64(w.b, v) }
func (w *boxes) text(s string)  { w.b = append(w.b, s...) }
func (w *boxes) bytes(p []byte) { w.b = append(w.b, p...) }

// zeros appends n zero bytes, for reserved and unused fields.
func (w *boxes) zeros(n int) {
	for range n {
		w.b = append(w.b, 0)
	}
}

// matrix appends the identity matrix, for video without transformation.
func (w *boxes) matrix() {
	for _, v := range [9]uint32{1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30} {
		w.u32(v)
	}
}
