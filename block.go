package millrace

import "sync/atomic"

// block is one piece of a Pool's memory, with a reference count. The references are called shares.
//
// Invariants, while at least one share is held:
//
//	0 ≤ used ≤ len(buf)
//	count(state) = shares held by all Refs + shares held by the block's writer (a Draft or a Reader) > 0
//
// buf[:used] may be visible through shares and never changes. buf[used:] belongs to the writer. If
// there is no writer any more, it belongs to the holder of all the shares (see Chain.AppendCopy).
//
// state packs two numbers into one word, so that one atomic operation can check the generation and
// change the count:
//
//	bits 63..32  generation: how often this memory has gone back to its Pool
//	bits 31..0   count: shares that are held; in an idle block, the shares of its next owner
//
// Only a holder of shares subtracts. The holder that brings the count to 0 is the block's only
// owner, and advances the generation before the Pool can lend the block again. Because Go's atomics
// are sequentially consistent, every access by an earlier holder happens before the next loan.
//
// Clone and Release rarely touch the count, because a Ref holds one or more of the counted shares.
// Clone usually gives one of the Ref's shares to the new Ref. Release returns all shares of the Ref
// with one subtraction. (Weighted reference counting: D. I. Bevan, "Distributed garbage collection
// using reference counting", PARLE 1987.)
type block struct {
	state atomic.Uint64
	buf   []byte
	pool  *Pool
	class int8 // index into pool.classes, or oversize

	// used is the number of bytes in use at the start of buf. Only the block's writer sets it, or
	// an owner that holds all shares of the block. The write is atomic if another holder of shares
	// may read used at the same time.
	used uint32
	_    [cacheLine - 48]byte // the counts of two blocks are on different cache lines
}

const (
	// cacheLine is the size of a cache line on x86-64 and on most ARM processors, in bytes. The
	// allocator aligns an object of this size to it.
	cacheLine = 64

	// stock is the number of shares that are added to a block's share count at once. A Ref, Draft
	// or Reader that needs more shares gets this many.
	stock = 256

	// countLimit is the maximum number of shares (references) of one block. It is half of the range
	// of the 32-bit share count. buy panics at this limit, long before the count overflows. Eight
	// million owners can each have added 256 shares (stock).
	countLimit = 1 << 31
)

// oversize is the class of a block that is larger than the largest size class. Such a block is
// allocated on the heap, and the garbage collector frees it.
const oversize = -1

func generation(state uint64) uint32 { return uint32(state >> 32) }
func count(state uint64) uint32      { return uint32(state) }

// lend prepares the block for a new owner, who may write to all of it and holds its first 256
// shares (stock). It returns the block's generation, which counts how often the block has returned
// to its Pool.
func (b *block) lend() uint32 {
	b.used = 0
	return generation(b.state.Load())
}

// newBlock allocates a block for p. The caller must call lend before the block is used.
func newBlock(p *Pool, class int8, size int) *block {
	b := &block{buf: make([]byte, size), pool: p, class: class}
	b.state.Store(stock)
	return b
}

// advice is the end of the panic messages for blocks that were released too often. The panic may
// occur in correct code, because the share count does not show which code released a block twice.
const advice = "; build with -tags invariants to see where it was taken and released"

// check panics if the block has returned to its Pool since lend returned the generation gen.
func (b *block) check(gen uint32) {
	if generation(b.state.Load()) != gen {
		panic("millrace: use of a share after its block went back to the pool" + advice)
	}
}

// buy adds n to the share count. The caller must hold at least one share.
func (b *block) buy(n uint32) {
	if count(b.state.Add(uint64(n))) >= countLimit {
		panic("millrace: more than 2147483648 shares of one block")
	}
}

// rejoin adds n to the share count of the block, for a caller that holds no share. gen is the
// block's generation, which lend returned. If the block has returned to its Pool since lend was
// called, rejoin returns false.
func (b *block) rejoin(gen, n uint32) bool {
	for {
		s := b.state.Load()
		if generation(s) != gen || count(s) == 0 { // 0: the last holder is returning the block
			return false
		}
		if b.state.CompareAndSwap(s, s+uint64(n)) {
			return true
		}
	}
}

// setUsed atomically sets the number of bytes of the block that are in use. The block's writer
// calls setUsed when other holders of shares may read the number at the same time.
func (b *block) setUsed(n int) { atomic.StoreUint32(&b.used, uint32(n)) }

// endsAt reports whether the bytes in use end at offset end. If they do, a caller that holds all
// shares of the block may write to buf[end:]. (A Reader that waits for a socket without holding a
// share marks all of buf as in use, so that no other holder writes to it.)
func (b *block) endsAt(end uint32) bool { return atomic.LoadUint32(&b.used) == end }

// sole reports whether the caller's n shares are all the shares of the block.
func (b *block) sole(n uint32) bool { return count(b.state.Load()) == n }

// release gives back n shares of the block. When the last share is given back, the block returns to
// its Pool. If the block has already returned to its Pool since lend returned the generation gen,
// release panics.
func (b *block) release(gen, n uint32) {
	s := b.state.Load()
	if generation(s) != gen {
		panic("millrace: release of a share whose block already went back to the pool (released twice?)" + advice)
	}
	idle := uint64(gen+1)<<32 | stock
	if count(s) != n || !b.state.CompareAndSwap(s, idle) {
		switch left := count(b.state.Add(-uint64(n))); {
		case left >= countLimit:
			panic("millrace: release of more shares of a block than were taken (released twice?)" + advice)
		case left > 0:
			return
		}
		b.state.Store(idle)
	}
	poison(b.buf)
	b.pool.put(b)
}
