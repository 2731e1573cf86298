package chunk

import "github.com/millrace-io/millrace"

// filling is the block that the source is being read into.
//
// Invariants:
//
//	0 ≤ start ≤ end ≤ len(buf)
//	buf[start:end] has arrived, begins where a record begins and has not been given
//	buf == nil: there is no block
//	buf != nil: buf is the start of the block's memory; buf[end:] is for the source to write to
type filling struct {
	block      millrace.Draft
	buf        []byte
	start, end int

	offset int64  // of buf[start] in the source
	scan   Window // what the Cutter knows of buf[start:end]
	asked  int    // bytes there were when the Cutter found no end, 0 if it has not been asked since the last cut
	need   int    // length of the first record, 0 while it is not known
}

// data returns what has arrived and has not been given.
func (f *filling) data() []byte { return f.buf[f.start:f.end] }

// full reports whether the source has no room left to write to.
func (f *filling) full() bool { return f.end == len(f.buf) }

// look shows the Cutter what there is.
func (f *filling) look(limit int) *Window {
	f.scan.Data, f.scan.Limit = f.data(), limit
	return &f.scan
}

// cut lets go of the first n bytes of data.
func (f *filling) cut(n int) {
	f.start += n
	f.offset += int64(n)
	f.scan.Data, f.scan.Seen = nil, max(f.scan.Seen-n, 0)
	f.asked, f.need = 0, 0
}

// carry takes a block of size bytes, more than len(rest), and starts it with rest.
func (f *filling) carry(p *millrace.Pool, rest []byte, size int) {
	block := p.Get(size)
	f.buf = block.Bytes()[:size]
	f.start, f.end = 0, copy(f.buf, rest)
	f.block.Release()
	f.block = block
}

// release gives the block back. What is in it is lost.
func (f *filling) release() {
	f.block.Release()
	f.buf, f.start, f.end = nil, 0, 0
}

// item is a chunk that waits for Next.
type item struct {
	ref    millrace.Ref
	offset int64 // in the source
}

// queue is the chunks that wait for Next, in order.
//
// Invariants: 0 ≤ head ≤ len(items); the chunks are items[head:], and items[:head] is empty.
type queue struct {
	items []item
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(ref millrace.Ref, offset int64) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:]) // moves up instead of growing
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item{ref, offset})
}

func (q *queue) pop() item {
	it := q.items[q.head]
	q.items[q.head] = item{}
	q.head++
	return it
}

func (q *queue) release() {
	for q.len() > 0 {
		it := q.pop()
		it.ref.Release()
	}
}
