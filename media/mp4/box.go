package mp4

import "encoding/binary"

// boxBuffer is a buffer for MP4 boxes. A box has a size (4 bytes), a type (4 letters) and content.
type boxBuffer struct{ b []byte }

// open appends the header of a box of the type kind. It returns the offset of the box. After the
// caller has appended the content, it must pass the offset to close.
func (w *boxBuffer) open(kind string) (offset int) {
	offset = len(w.b)
	w.u32(0)
	w.text(kind)
	return offset
}

// openFull is like open for a box with a version and flags.
func (w *boxBuffer) openFull(kind string, version uint8, flags uint32) (offset int) {
	offset = w.open(kind)
	w.u32(uint32(version)<<24 | flags)
	return offset
}

func (w *boxBuffer) close(offset int) { w.patch(offset, uint32(len(w.b)-offset)) }

func (w *boxBuffer) patch(offset int, v uint32) { binary.BigEndian.PutUint32(w.b[offset:], v) }

func (w *boxBuffer) u8(v uint8)     { w.b = append(w.b, v) }
func (w *boxBuffer) u16(v uint16)   { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *boxBuffer) u32(v uint32)   { w.b = binary.BigEndian.AppendUint32(w.b, v) }
func (w *boxBuffer) u64(v uint64)   { w.b = binary.BigEndian.AppendUint64(w.b, v) }
func (w *boxBuffer) text(s string)  { w.b = append(w.b, s...) }
func (w *boxBuffer) bytes(p []byte) { w.b = append(w.b, p...) }

func (w *boxBuffer) zeros(n int) {
	for range n {
		w.b = append(w.b, 0)
	}
}

func (w *boxBuffer) matrix() {
	for _, v := range [9]uint32{1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30} {
		w.u32(v)
	}
}
