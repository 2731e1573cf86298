package millrace

import "fmt"

// A Draft is a block with one owner, who may write to it. Cut and Freeze turn the written bytes
// into Refs. Release returns the block.
//
// The zero Draft is empty. A Draft is a value; after a copy, only the copy may be used.
type Draft struct {
	// Invariants of a Draft that is not empty (a Draft is empty if blk == nil):
	//
	//	1 ≤ shares ≤ count(blk.state)
	//	off ≤ len(blk.buf), and blk.used == off: the Refs from Cut own the bytes before off

	token token // empty unless built with -tags invariants
	blk   *block
	loan
	off uint32
}

// Bytes returns the memory to write to, which is valid until Cut, Freeze or Release. Before the
// first Cut, it is at least as long as requested from [Pool.Get]. For an empty Draft, Bytes returns
// nil. With -tags invariants, it panics after Release.
func (d *Draft) Bytes() []byte {
	d.token.check()
	if d.blk == nil {
		return nil
	}
	d.blk.check(d.gen)
	return d.blk.buf[d.off:]
}

// Cut returns the first n bytes as a Ref that the caller owns. These bytes become read-only, and
// the rest stays in d. Consecutive pieces become one piece in a Chain. Cut panics if n is out of
// range or d is empty.
func (d *Draft) Cut(n int) Ref {
	d.inRange("Cut", n)
	if d.shares == 1 {
		d.blk.addShares(stock)
		d.shares += stock
	}
	d.shares--
	r := Ref{blk: d.blk, loan: loan{d.gen, 1}, span: span{d.off, uint32(n)}}
	r.token.open(d.blk, 0)
	d.off += uint32(n)
	d.blk.setUsed(int(d.off))
	return r
}

// Freeze returns the first n bytes as a Ref that the caller owns, and leaves d empty. The bytes
// become read-only. Freeze panics if n is out of range or d is empty.
func (d *Draft) Freeze(n int) Ref {
	d.inRange("Freeze", n)
	d.token.close()
	d.blk.setUsed(int(d.off) + n)
	r := Ref{blk: d.blk, loan: d.loan, span: span{d.off, uint32(n)}}
	r.token.open(d.blk, 0)
	*d = Draft{}
	return r
}

func (d *Draft) inRange(method string, n int) {
	d.token.check()
	if d.blk == nil {
		panic("millrace: " + method + " of an empty Draft")
	}
	d.blk.check(d.gen)
	if have := len(d.blk.buf) - int(d.off); n < 0 || n > have {
		panic(fmt.Sprintf("millrace: %s of %d bytes of a block of %d", method, n, have))
	}
}

// Release gives up the rest of d, and leaves d empty. The block returns to its Pool when all Refs
// to it are released as well. Releasing an empty Draft does nothing.
func (d *Draft) Release() {
	if d.blk == nil {
		return
	}
	d.token.close()
	blk, l := d.blk, d.loan
	// The token shows that the Draft was released.
	*d = Draft{token: d.token}
	blk.release(l.gen, l.shares)
}

// A Ref is one read-only share of part of a block. Its owner either calls Release once or passes
// the Ref on. The zero Ref is empty, and releasing it does nothing.
//
// A Ref is a value of 24 bytes; after a copy, only the copy may be used. Only one goroutine at a
// time may call its methods. Other shares of the same block may be used on any goroutine.
type Ref struct {
	// Invariants, unless the Ref is empty:
	//
	//	off + n ≤ len(blk.buf)
	//	1 ≤ shares ≤ count(blk.state)

	token token // empty unless built with -tags invariants
	blk   *block
	loan
	span
}

// A loan is the right to use a block, and a span is a range of the block's bytes. A Ref contains
// one of each. The compiler keeps a Ref in registers only if no struct has more than four fields,
// so the fields of a Ref are divided among these types. Without registers, appending a Ref to a
// Chain would cost ten times as much.
type (
	loan struct {
		gen    uint32 // generation of the block
		shares uint32
	}
	span struct {
		off, n uint32 // blk.buf[off : off+n]
	}
)

// check reports whether r has a block. It panics if the block has returned to its Pool. With -tags
// invariants, it also panics if r or a copy of it was released.
func (r *Ref) check() bool {
	r.token.check()
	if r.blk == nil {
		return false
	}
	r.blk.check(r.gen)
	return true
}

// Len returns the number of bytes, or 0 if r is empty. It panics if a copy of r was released and
// the block has returned to its Pool. With -tags invariants, it also panics after Release.
func (r *Ref) Len() int {
	r.check()
	return int(r.n)
}

// Bytes returns the bytes of r, which must only be read. They are valid, and do not change, until r
// is released. If r is empty, as after Release, Bytes returns nil.
//
// Bytes panics if a copy of r was released and the block has therefore returned to its Pool. With
// -tags invariants, Bytes also panics if r was released.
func (r *Ref) Bytes() []byte {
	if !r.check() {
		return nil
	}
	return r.bytes()
}

func (r *Ref) bytes() []byte {
	end := r.off + r.n
	return r.blk.buf[r.off:end:end]
}

// Clone returns a new Ref for the same bytes. The caller owns and releases the new Ref. Clone
// changes r. Most calls change nothing else, and touch no memory that other goroutines use.
func (r *Ref) Clone() Ref {
	if !r.check() {
		return Ref{}
	}
	return r.share(0, r.n)
}

// Slice returns a new Ref for the bytes [from, to) of r. The caller owns and releases the new Ref.
// Slice panics if the range is not within r.
func (r *Ref) Slice(from, to int) Ref {
	full := r.check()
	if from < 0 || to < from || to > int(r.n) {
		panic(fmt.Sprintf("millrace: Slice [%d:%d) of a Ref of %d bytes", from, to, r.n))
	}
	if !full {
		return Ref{}
	}
	return r.share(uint32(from), uint32(to-from))
}

// share returns a new Ref for n bytes of r that begin at offset off.
func (r *Ref) share(off, n uint32) Ref {
	if r.shares == 1 {
		r.blk.addShares(stock)
		r.shares += stock
	}
	r.shares--
	s := Ref{blk: r.blk, loan: loan{r.gen, 1}, span: span{r.off + off, n}}
	s.token.open(r.blk, 1)
	return s
}

// cut moves the first n bytes of r to a new Ref. It requires 0 < n < r.n.
func (r *Ref) cut(n uint32) Ref {
	s := r.share(0, n)
	r.off += n
	r.n -= n
	return s
}

// Release gives up r's share of the block, and leaves r empty. Releasing an empty Ref does nothing.
// A Ref and a copy of it must not both be released: Release panics if the block has already
// returned to its Pool.
func (r *Ref) Release() {
	if r.blk == nil {
		return
	}
	r.token.close()
	blk, gen, shares := r.blk, r.gen, r.shares
	*r = Ref{token: r.token} // the token shows that the Ref was released
	blk.release(gen, shares)
}

// join appends s to r if s directly follows it in the block. If so, s must not be used.
func (r *Ref) join(s Ref) bool {
	if r.blk != s.blk || r.off+r.n != s.off || r.gen != s.gen {
		return false
	}
	if r.shares > countLimit-s.shares {
		// Too many shares for one Ref: a caller has cloned a Ref billions of times.
		return false
	}
	s.token.close()
	r.n += s.n
	r.shares += s.shares
	return true
}
