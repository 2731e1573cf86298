package millrace

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Access to private parts for tests in package millrace_test.

const Invariants = invariants

// Sole returns a function that reports whether c holds all shares of its last piece's block. The
// function may be called on any goroutine.
func Sole(c *Chain) func() bool {
	pieces := c.pieces()
	last := pieces[len(pieces)-1]
	return func() bool { return last.blk.isSoleOwner(last.shares) }
}

// BlockState returns the generation and the share count of r's block.
func BlockState(r *Reader) uint64 { return r.blk.state.Load() }

// TrimUnneeded trims p as a garbage collection at now does.
func TrimUnneeded(p *Pool, now time.Time) { p.trimUnneeded(now) }

// ForgetTrim lets the next garbage collection trim, even directly after another.
func ForgetTrim(p *Pool) {
	p.trimming.Lock()
	defer p.trimming.Unlock()
	p.lastTrim = time.Time{}
}

// KeptBytes returns the bytes that p keeps idle.
func KeptBytes(p *Pool) (n int64) {
	for i := range p.classes {
		c := &p.classes[i]
		c.mu.Lock()
		defer c.mu.Unlock() // locks all classes, for a consistent sum
		n += int64(len(c.free)) * int64(classSize(i))
	}
	return n
}

// AddShares adds n to the share count of r's block.
func AddShares(r *Ref, n int64) int64 {
	r.blk.state.Add(uint64(n))
	return n
}

// Broken returns an error that names the invariant of Chain that c violates.
func Broken(c *Chain) error {
	pieces := c.pieces()
	size := 0
	for i := range pieces {
		r := &pieces[i]
		switch {
		case r.blk == nil || r.n == 0:
			return fmt.Errorf("piece %d is empty", i)
		case int(r.off)+int(r.n) > len(r.blk.buf):
			return fmt.Errorf("piece %d is [%d:+%d) of a block of %d bytes", i, r.off, r.n,
				len(r.blk.buf))
		case r.shares == 0 || r.shares > count(r.blk.state.Load()):
			return fmt.Errorf("piece %d has %d of %d shares", i, r.shares,
				count(r.blk.state.Load()))
		case i > 0 && pieces[i-1].blk == r.blk && pieces[i-1].off+pieces[i-1].n == r.off:
			return fmt.Errorf("pieces %d and %d are neighbours", i-1, i)
		}
		size += int(r.n)
	}
	if size != c.size {
		return fmt.Errorf("the pieces have %d bytes, size is %d", size, c.size)
	}
	return stray(c)
}

// stray returns an error if there are Refs outside the pieces, which would keep blocks alive.
func stray(c *Chain) error {
	idle := slices.Concat(c.few[:], c.many[:cap(c.many)])
	if c.many == nil {
		clear(idle[c.head:c.tail])
	} else {
		clear(idle[len(c.few)+c.head : len(c.few)+len(c.many)])
	}
	for i := range idle {
		if idle[i] != (Ref{}) {
			return fmt.Errorf("a Ref is left at %d, outside of the pieces", i)
		}
	}
	return nil
}

// WriteVector is WriteTo for a socket.
func WriteVector(c *Chain, w io.Writer) (int64, error) { return c.writeVector(w) }
