package millrace

import "sync/atomic"

// block is one piece of a Pool's memory together with the number of shares of it.
//
// Invariants, while any share is held:
//
//	0 ≤ used ≤ len(buf)
//	count(state) = shares held by all Refs + shares held by the block's writer (a Draft or a Reader) > 0
//
// buf[:used] may be visible through shares and never changes. buf[used:] belongs to the writer, or,
// once no writer is left, to the holder of every share there is (see Chain.AppendCopy).
//
// state packs two numbers into one word. One atomic operation can then check a handle and change
// the count:
//
//	bits 63..32  generation: how often this memory has gone back to its Pool
//	bits 31..0   count: shares that are out; an idle block has the stock that its next owner will find
//
// Only a holder of shares subtracts. The holder whose subtraction leaves 0 is then the block's only
// owner, and advances the generation before the Pool can lend the block again. Go's atomics are
// sequentially consistent. Everything that other holders did with the bytes therefore happened
// before that.
//
// Shares are counted by weight: a Ref holds one or more counted shares. Clone usually splits the
// Ref's own shares and touches no shared word. Release returns all of the Ref's shares with one
// subtraction. (Weighted reference counting: D. I. Bevan, "Distributed garbage collection using
// reference counting", PARLE 1987.)
type block struct {
	state atomic.Uint64
	buf   []byte
	pool  *Pool
	class int8 // index into pool.classes, or oversize

	// used is written only by the writer or by the holder of every share. The write is atomic when
	// another holder may read used at the same time.
	used uint32
	_    [cacheLine - 48]byte // the counts of two blocks never share a cache line
}

const (
	// cacheLine is the number of bytes that the cores of x86-64 and of most ARM processors transfer
	// between their caches at a time. The allocator aligns an object of this size to it.
	cacheLine = 64

	// stock is the number of shares that a holder buys with one addition when it has none left to
	// give away.
	stock = 256

	// countLimit is the limit for the shares of one block. It is far below what the 32 bits of the
	// count can hold, so an overrun is detected before it reaches the generation. It leaves room
	// for eight million holders that each bought a stock.
	countLimit = 1 << 31
)

// oversize is the class of a block that is larger than the largest size class. Such a block is
// allocated on the heap and left to the garbage collector.
const oversize = -1

func generation(state uint64) uint32 { return uint32(state >> 32) }
func count(state uint64) uint32      { return uint32(state) }

// lend begins a loan of the block and returns its generation. The new owner holds a whole stock of
// shares.
func (b *block) lend() uint32 {
	b.used = 0
	return generation(b.state.Load())
}

// newBlock returns a block that is ready to be lent.
func newBlock(p *Pool, class int8, size int) *block {
	b := &block{buf: make([]byte, size), pool: p, class: class}
	b.state.Store(stock)
	return b
}

// advice ends the texts of panics that may hit an owner who made no mistake. It is needed because
// the count alone does not show which owner made the mistake.
const advice = "; build with -tags invariants to see where it was taken and released"

// check panics if the block was returned to its Pool since the loan of generation gen.
func (b *block) check(gen uint32) {
	if generation(b.state.Load()) != gen {
		panic("millrace: use of a share after its block went back to the pool" + advice)
	}
}

// buy adds n shares for a caller who holds at least one.
func (b *block) buy(n uint32) {
	if count(b.state.Add(uint64(n))) >= countLimit {
		panic("millrace: more than 2147483648 shares of one block")
	}
}

// rejoin adds n shares of the loan of generation gen, for a caller that has given up its own
// shares. It returns false if the block has gone back to its Pool since then.
func (b *block) rejoin(gen, n uint32) bool {
	for {
		s := b.state.Load()
		if generation(s) != gen || count(s) == 0 { // 0: the last holder is about to return it
			return false
		}
		if b.state.CompareAndSwap(s, s+uint64(n)) {
			return true
		}
	}
}

// setUsed sets used for a writer while others hold shares of the block as well.
func (b *block) setUsed(n int) { atomic.StoreUint32(&b.used, uint32(n)) }

// endsAt reports whether the visible bytes end at end. If they do, a caller who holds every share
// may write from end on. A Reader that gave up its shares to wait for a socket may rejoin the block
// later. It has marked the whole block as used, so that nobody else writes into the block
// meanwhile.
func (b *block) endsAt(end uint32) bool { return atomic.LoadUint32(&b.used) == end }

// sole reports whether the caller's n shares are all the shares of the block.
func (b *block) sole(n uint32) bool { return count(b.state.Load()) == n }

// release returns n shares. When the last share is returned, the block returns to its Pool.
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
