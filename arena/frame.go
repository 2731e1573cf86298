package arena

import "fmt"

// A frame is the one that is being written.
//
// Invariants:
//
//	0 ≤ begin ≤ begin+start ≤ end ≤ limit ≤ len(mem)
//	its bytes are mem[begin:end], and it can grow to mem[begin:limit] without being moved
//	between frames: begin = end = limit
type frame struct {
	mem        []byte
	begin, end int
	limit      int
	start      int
}

// Len returns the length of the frame, in bytes.
func (f *frame) Len() int { return f.end - f.begin }

// Data returns the first n bytes of the frame, or all of it if there are fewer. They are lent until the next call of
// Writable, Write, Seal, Truncate or Take.
func (f *frame) Data(n int) []byte {
	end := f.begin + min(n, f.Len())
	return f.mem[f.begin:end:end]
}

// Truncate cuts the frame off behind its first n bytes. It panics when the frame has fewer.
func (f *frame) Truncate(n int) {
	if n < 0 || n > f.Len() {
		panic(fmt.Sprintf("arena: Truncate(%d) of a frame of %d bytes", n, f.Len()))
	}
	f.end = f.begin + n
	f.start = min(f.start, n)
}

// SetStart says where Seal and Open begin: the bytes in front are left alone. It is 0 for every new frame. It panics when
// the frame is not that long.
func (f *frame) SetStart(i int) {
	if i < 0 || i > f.Len() {
		panic(fmt.Sprintf("arena: SetStart(%d) in a frame of %d bytes", i, f.Len()))
	}
	f.start = i
}

// body is what Seal and Open work on.
func (f *frame) body() []byte { return f.mem[f.begin+f.start : f.end : f.limit] }

func badCount(n int) string { return fmt.Sprintf("arena: Writable(%d)", n) }
