package arena

import "math"

// Heap is a Buffer that has no memory of its own: each frame is allocated, and freed by the garbage collector. It is what
// a Pool falls back to, and for programs that have no use for more. The zero value is ready to use.
type Heap struct {
	frame
}

// Writable makes the frame n bytes longer and returns those, to be written to. They are lent until the next call of
// Writable, Write, Seal, Truncate or Take, and are not nil, even if n is 0.
func (h *Heap) Writable(n int) []byte {
	from := h.end
	if uint(n) > uint(h.limit-from) {
		h.grow(n)
		from = h.end
	}
	h.end = from + n
	if h.mem == nil {
		return []byte{} // of no memory; nil would say that there is no room
	}
	return h.mem[from:h.end:h.end]
}

// moveTo goes on with a copy of the frame, at the beginning of mem.
func (f *frame) moveTo(mem []byte) {
	f.mem, f.begin, f.end, f.limit = mem, 0, f.Len(), len(mem)
}

// grow moves the frame to the heap, where there is room for n more bytes.
func (f *frame) grow(n int) {
	if n < 0 || n > math.MaxInt-f.Len() {
		panic(badCount(n))
	}
	f.moveTo(enlarged(f.mem[f.begin:f.end], n))
}

// leastHeap is the least room that a frame on the heap begins with.
const leastHeap = 64

// enlarged returns memory that begins with a copy of data and has room for n more bytes, and for as much again if data
// has been growing.
func enlarged(data []byte, n int) []byte {
	mem := append([]byte(nil), make([]byte, max(len(data)+n, 2*len(data), leastHeap))...)
	mem = mem[:cap(mem)]
	copy(mem, data)
	return mem
}

// Write adds a copy of p to the frame. It borrows p, which may be bytes of the frame, and returns len(p) and nil.
func (h *Heap) Write(p []byte) (int, error) { return copy(h.Writable(len(p)), p), nil }

// Take ends the frame and returns it; the caller owns the Slice, and releases it.
func (h *Heap) Take() Slice {
	s := onHeap(h.mem[h.begin:h.end:h.end])
	h.frame = frame{}
	return s
}

// Droppable says that there is nothing that a dropped Heap would leave behind.
func (h *Heap) Droppable() bool { return true }
