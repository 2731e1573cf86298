package millrace

import "fmt"

// fewPieces is the number of pieces that a Chain holds without allocating memory: a received packet
// has one or two, and a header and a trailer add two.
const fewPieces = 4

// keepPieces is the maximum capacity of the list of pieces that an empty Chain keeps for its next
// use. Such a list takes up 6 KiB.
const keepPieces = 256

// appendBlock is the minimum size of a block that AppendCopy allocates, in bytes. Later calls use
// the free end of the block.
const appendBlock = 1 << 10

// A Chain is a queue of Refs that reads as one sequence of bytes. It joins two consecutive Refs
// into one piece if they are contiguous in one block. Packets that arrived one after the other
// therefore often form only a few pieces.
//
// The zero Chain is empty and ready to use.
//
// A Chain is a plain value with one owner. After a copy, only the copy may be used. Only one
// goroutine at a time may call the methods of a Chain. Two Chains that share bytes may be used on
// two goroutines at the same time.
//
// The owner releases the bytes with Release, Discard or WriteTo, or moves them to another Chain
// with CutTo or Merge.
//
// A released Chain is empty and may be filled again. With -tags invariants, a method that reads or
// sends the bytes of a released Chain panics until the Chain is filled again. Offsets and lengths
// out of range panic, as they do with slices.
type Chain struct {
	// Invariants:
	//
	//	many == nil: 0 ≤ head ≤ tail ≤ len(few), and the pieces are few[head:tail]
	//	many != nil: 0 ≤ head ≤ len(many),       and the pieces are many[head:]
	//	no piece is empty, and no piece ends where the next one begins in the same block
	//	size = sum of the pieces' lengths

	released released // zero-sized unless built with -tags invariants

	few        [fewPieces]Ref
	many       []Ref
	head, tail int
	size       int
}

// pieces returns the Refs in order. The slice is valid until c next changes.
func (c *Chain) pieces() []Ref {
	if c.many != nil {
		return c.many[c.head:]
	}
	return c.few[c.head:c.tail]
}

// Len returns the number of bytes.
func (c *Chain) Len() int { return c.size }

// Pieces returns the number of contiguous pieces. [Chain.All] yields one slice for each piece.
func (c *Chain) Pieces() int { return len(c.pieces()) }

// Append adds the bytes of r to the end of c. It takes ownership of *r, which is left empty.
func (c *Chain) Append(r *Ref) {
	if !r.check() {
		return
	}
	if r.n == 0 {
		r.Release()
		return
	}
	c.push(*r)
	*r = Ref{}
}

// push adds a Ref at the end of c. The Ref must be valid and not empty. The method takes the Ref by
// value, because reading a Ref that was just written to memory can stall the processor.
func (c *Chain) push(r Ref) {
	c.released.clear()
	c.size += int(r.n)
	if p := c.pieces(); len(p) > 0 && p[len(p)-1].join(r) {
		return
	}
	if c.many == nil && c.tail == len(c.few) {
		c.makeRoom()
	}
	if c.many == nil {
		c.few[c.tail] = r
		c.tail++
		return
	}
	if len(c.many) == cap(c.many) && c.head >= len(c.many)/2 {
		n := copy(c.many, c.many[c.head:]) // half of the slice is free: move the pieces down
		clear(c.many[n:])
		c.many, c.head = c.many[:n], 0
	}
	c.many = append(c.many, r)
}

// makeRoom makes room for one more piece at the end of c.few. If c.few is full, it moves the pieces
// to the slice c.many.
func (c *Chain) makeRoom() {
	if c.head > 0 {
		n := copy(c.few[:], c.few[c.head:])
		clear(c.few[n:])
		c.head, c.tail = 0, n
		return
	}
	c.many = append(make([]Ref, 0, 4*fewPieces), c.few[:]...)
	clear(c.few[:])
	c.tail = 0
}

// grow makes room for n more pieces with one allocation, if c has no list of pieces yet or is empty.
// Otherwise, push lets the list grow.
func (c *Chain) grow(n int) {
	pieces := c.pieces()
	switch n += len(pieces); {
	case c.many == nil && n > fewPieces:
		c.many = append(make([]Ref, 0, n), pieces...)
		clear(c.few[:])
		c.head, c.tail = 0, 0
	case c.size == 0 && n > cap(c.many) && n > fewPieces:
		c.many = make([]Ref, 0, n)
	}
}

// Pop removes the first piece and returns it as a Ref, which the caller owns and releases. If c is
// empty, Pop returns an empty Ref.
func (c *Chain) Pop() Ref {
	if c.size == 0 {
		return Ref{}
	}
	c.pieces()[0].check()
	return c.pop()
}

func (c *Chain) pop() Ref {
	first := &c.pieces()[0]
	r := *first
	*first = Ref{}
	c.size -= int(r.n)
	c.head++
	if c.size == 0 {
		c.rewind()
	}
	return r
}

// rewind prepares an emptied Chain for its next use. The caller must already have cleared the Refs.
func (c *Chain) rewind() {
	c.head, c.tail = 0, 0
	if cap(c.many) > keepPieces {
		c.many = nil
	}
	if c.many != nil {
		c.many = c.many[:0]
	}
}

// AppendCopy adds a copy of p at the end of c. It borrows p.
//
// If nothing else uses the block of c's last piece, the copy first fills the free memory after that
// piece. The rest goes into a new block of [DefaultPool], of at least 1 KiB. Copy many short
// messages into one Chain. In separate Chains, each message would need a separate block.
func (c *Chain) AppendCopy(p []byte) {
	if len(p) == 0 {
		return
	}
	if last, room := c.tailRoom(); last != nil {
		n := copy(room, p)
		c.extend(last, n)
		if p = p[n:]; len(p) == 0 {
			return
		}
	}
	d := defaultPool.Get(max(len(p), appendBlock))
	c.push(d.Freeze(copy(d.Bytes(), p)))
}

// Write appends a copy of p, as [Chain.AppendCopy] does, and returns len(p) and nil. Because of
// this method, a Chain is an io.Writer, and can be used with [fmt.Fprintf] and encoders. For many
// small writes to a connection, a [Writer] costs less.
func (c *Chain) Write(p []byte) (int, error) {
	c.AppendCopy(p)
	return len(p), nil
}

// tailRoom returns the last piece and the free memory after it. The caller may write to this
// memory. Both results are nil if c is empty, or if anything else uses the block of the last piece.
func (c *Chain) tailRoom() (last *Ref, room []byte) {
	pieces := c.pieces()
	if len(pieces) == 0 {
		return nil, nil
	}
	last = &pieces[len(pieces)-1]
	last.check()
	if b := last.blk; b.isSoleOwner(last.shares) && b.endsAt(last.off+last.n) {
		return last, b.buf[b.used:]
	}
	return nil, nil
}

// extend makes the last piece n bytes longer. Before the call, c.tailRoom() must have returned the
// last piece and the free memory after it, and the caller must have written the n bytes to that
// memory.
func (c *Chain) extend(last *Ref, n int) {
	last.blk.used += uint32(n)
	last.n += uint32(n)
	c.size += n
}

// Merge moves all bytes of src to the end of c. The Chain c takes ownership of the bytes, and src
// is left empty. Merge panics if src is c.
func (c *Chain) Merge(src *Chain) {
	if src == c {
		panic("millrace: Merge of a Chain into itself")
	}
	if src.size == 0 {
		return
	}
	c.released.clear()
	pieces := src.pieces()
	if c.size == 0 && len(pieces) > fewPieces {
		*c, *src = *src, *c // each Chain keeps its list of pieces for reuse
		return
	}
	if len(pieces) > fewPieces {
		c.grow(len(pieces))
	}
	for i := range pieces {
		c.push(pieces[i])
		pieces[i] = Ref{}
	}
	src.size = 0
	src.rewind()
}

// CutTo moves the first n bytes of c to the end of dst, which takes ownership of them. It copies
// nothing. CutTo panics if dst is c or if c has fewer than n bytes.
func (c *Chain) CutTo(dst *Chain, n int) {
	c.inRange("CutTo", 0, n)
	if dst == c {
		panic("millrace: CutTo of a Chain into itself")
	}
	if n == c.size {
		dst.Merge(c)
		return
	}
	for n > 0 {
		first := &c.pieces()[0]
		if int(first.n) > n {
			first.check()
			c.size -= n
			dst.push(first.cut(uint32(n)))
			return
		}
		n -= int(first.n)
		dst.push(c.pop())
	}
}

// SliceTo adds the bytes [from, to) of c to the end of dst, without a copy. Both Chains then share
// the bytes, and each must be released.
//
// SliceTo panics if dst is c or the range is not within c.
func (c *Chain) SliceTo(dst *Chain, from, to int) {
	c.released.check()
	c.inRange("SliceTo", from, to)
	if dst == c {
		panic("millrace: SliceTo of a Chain into itself")
	}
	if from == to {
		return
	}
	pieces := c.pieces()
	i, off := c.find(from)
	last, _ := c.find(to - 1)
	dst.grow(last - i + 1)
	for left := to - from; left > 0; i++ {
		p := &pieces[i]
		p.check()
		n := min(left, int(p.n)-off)
		dst.push(p.share(uint32(off), uint32(n)))
		left -= n
		off = 0
	}
}

// CloneTo adds all bytes of c to the end of dst, without a copy. Both Chains then share the bytes,
// and each must be released. CloneTo panics if dst is c.
func (c *Chain) CloneTo(dst *Chain) { c.SliceTo(dst, 0, c.size) }

// Discard removes the first n bytes from c and releases them. It panics if c has fewer than n
// bytes.
func (c *Chain) Discard(n int) {
	c.inRange("Discard", 0, n)
	for n > 0 {
		first := &c.pieces()[0]
		if int(first.n) > n {
			first.check()
			first.off += uint32(n)
			first.n -= uint32(n)
			c.size -= n
			return
		}
		n -= int(first.n)
		r := c.pop()
		r.Release()
	}
}

// Release releases all bytes and leaves c empty. Releasing an empty Chain does nothing.
func (c *Chain) Release() {
	pieces := c.pieces()
	if len(pieces) > 0 {
		c.released.note()
	}
	c.size = 0
	for i := range pieces {
		r := pieces[i]
		pieces[i] = Ref{}
		r.Release()
	}
	c.rewind()
}

// find returns the index of the piece that contains the byte at an offset of c, and the offset of
// that byte within the piece. It requires 0 ≤ offset < c.size. The search begins at the nearer end
// of c.
func (c *Chain) find(offset int) (piece, off int) {
	pieces := c.pieces()
	if offset < c.size/2 {
		for offset >= int(pieces[piece].n) {
			offset -= int(pieces[piece].n)
			piece++
		}
		return piece, offset
	}
	piece, start := len(pieces), c.size
	for start > offset {
		piece--
		start -= int(pieces[piece].n)
	}
	return piece, offset - start
}

func (c *Chain) inRange(op string, from, to int) {
	if from < 0 || to < from || to > c.size {
		panic(fmt.Sprintf("millrace: %s [%d:%d) of a Chain of %d bytes", op, from, to, c.size))
	}
}
