package arena

import "unsafe"

// A lent is a slice that a caller passes. It may be part of the frame that is being written, as a header is that stands in
// front of what is sealed: then it goes where the frame goes. (A frame that is moved within a Pool's memory may come to
// lie over the place where it was.)
//
// Invariants:
//
//	at ≥ 0: p was mem[begin+at : begin+at+len(p)] of the frame when it was passed
//	at < 0: p is memory of somebody else's
type lent struct {
	p  []byte
	at int
}

// lend takes note of where in the frame p lies, if it does.
func (f *frame) lend(p []byte) lent {
	data := f.mem[f.begin:f.end]
	from, first := uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	if first < from || first-from >= uintptr(len(data)) || len(p) > len(data)-int(first-from) {
		return lent{p, -1}
	}
	return lent{p, int(first - from)}
}

// of returns p where it is in f, which may have been moved since.
func (l lent) of(f *frame) []byte {
	if l.at < 0 {
		return l.p
	}
	return f.mem[f.begin+l.at:][:len(l.p)]
}
