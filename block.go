package millrace

import (
	"runtime"
	"sync/atomic"
	"weak"
)

// A block is a piece of a Pool's memory with a reference count. Each counted reference is a share.
// The Refs and the block's writer (a Draft or a Reader) hold the shares.
//
// Invariants, from the loan of the block until the release of its last share:
//
//	0 ≤ used ≤ len(buf)
//	count(state) = shares of all Refs + shares of the writer > 0
//
// The bytes buf[:used] never change. Only the writer may change buf[used:], or, if the writer holds
// no share, an owner of all shares. A Reader that waits for its socket is an exception; see endsAt.
//
// The field state packs two numbers, so that one atomic operation can handle both:
//
//	bits 63..32  generation: number of times that the block has returned to its Pool
//	bits 31..0   count: number of shares
//
// A Ref can hold several shares, so that Clone seldom changes the count. This is weighted reference
// counting: D. I. Bevan, "Distributed garbage collection using reference counting", PARLE 1987.
type block struct {
	state atomic.Uint64
	buf   []byte
	pool  *Pool
	class int8 // index into pool.classes, or oversize

	// used is the number of bytes in use at the start of buf. The block's writer sets it
	// atomically, because other holders of shares may read it. An owner of all shares may set it
	// without an atomic write.
	used uint32
	info *blockInfo
	_    [cacheLine - 56]byte // keeps the counts of two blocks on different cache lines
}

// A blockInfo outlives its block. After the garbage collector has freed the block, the blockInfo
// shows whether the Pool dropped the block on purpose, or the block was lost because it was never
// released.
type blockInfo struct {
	pool    weak.Pointer[Pool] // weak, because a Pool and its idle blocks may be freed together
	class   int8
	size    int64
	dropped atomic.Bool
	account atomic.Pointer[Pool] // the account that has lent the block, or nil
}

const (
	// cacheLine is the size in bytes of a cache line on x86-64 and most ARM processors.
	cacheLine = 64

	// stock is the number of shares of a newly lent block. The block's owner holds all of them. A
	// Draft or Ref that has only one share left takes this many new shares before it gives one
	// away.
	stock = 256

	// countLimit is the maximum number of shares. The program panics at this number, long before
	// the 32-bit count overflows.
	countLimit = 1 << 31
)

// oversize is the class of a block that is larger than the largest size class. The garbage
// collector frees such a block.
const oversize = -1

func generation(state uint64) uint32 { return uint32(state >> 32) }
func count(state uint64) uint32      { return uint32(state) }

// lend prepares an unused block for a new owner, and returns the block's generation. The new owner
// holds all shares of the block.
func (b *block) lend() uint32 {
	b.used = 0
	return generation(b.state.Load())
}

// newBlock allocates a block for the Pool p. The caller must call the block's lend method before it
// uses the block.
func newBlock(p *Pool, class int8, size int) *block {
	f := &blockInfo{pool: weak.Make(p), class: class, size: int64(size)}
	b := &block{buf: make([]byte, size), pool: p, class: class, info: f}
	b.state.Store(stock)
	runtime.AddCleanup(b, (*blockInfo).countLost, f)
	return b
}

// countLost is called after the garbage collector has freed a block. If the block was still lent,
// the Pool counts it as lost.
func (f *blockInfo) countLost() {
	p := f.pool.Value()
	if p == nil || f.dropped.Load() {
		return
	}
	if account := f.account.Load(); account != nil {
		account.out.Add(-f.size)
		account.lost.Add(1)
	}
	if f.class == oversize {
		p.large.count(-1, -f.size)
	} else {
		p.classes[f.class].forget()
	}
	p.lost.Add(1)
}

// invariantsHint is the last part of every panic message about misuse of a block. The mistake is
// often not in the code that panics.
const invariantsHint = "; build with -tags invariants to see where it was taken and released"

// check panics if the block's generation is no longer gen. The block has then returned to its Pool.
func (b *block) check(gen uint32) {
	if generation(b.state.Load()) != gen {
		panic("millrace: use of a share after its block went back to the pool" + invariantsHint)
	}
}

// addShares adds n shares to the count. The caller must already hold a share. The method panics if
// the count reaches countLimit.
func (b *block) addShares(n uint32) {
	if count(b.state.Add(uint64(n))) >= countLimit {
		panic("millrace: more than 2147483648 shares of one block")
	}
}

// rejoin adds n shares to the count, for a caller that holds no shares. If the block's generation
// is no longer gen, rejoin changes nothing and returns false.
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

// setUsed sets b.used. Only the block's writer may call it.
func (b *block) setUsed(n int) { atomic.StoreUint32(&b.used, uint32(n)) }

// endsAt reports whether the bytes in use end at offset off. A caller that holds all shares may
// then append bytes there.
//
// A Reader that waits for its socket holds no shares of its block, but may write to the block
// later. During the wait, used is 0, so no holder of shares may append bytes: a Reader sets used only
// when it gives up the block for good.
func (b *block) endsAt(off uint32) bool { return atomic.LoadUint32(&b.used) == off }

// isSoleOwner reports whether the block has no shares except the caller's n shares.
func (b *block) isSoleOwner(n uint32) bool { return count(b.state.Load()) == n }

// fill overwrites released memory, to reveal code that still uses the memory.
func fill(p []byte) {
	for i := range p {
		p[i] = 0xDB
	}
}

// release gives up n of the caller's shares. The last release returns the block to its Pool. The
// method panics if the block's generation is no longer gen, or if the block has fewer than n
// shares. In both cases, a share was released twice.
func (b *block) release(gen, n uint32) {
	s := b.state.Load()
	if generation(s) != gen {
		panic("millrace: release of a share whose block already went back to the pool (released twice?)" + invariantsHint)
	}
	idle := uint64(gen+1)<<32 | stock
	if count(s) != n || !b.state.CompareAndSwap(s, idle) {
		switch left := count(b.state.Add(-uint64(n))); {
		case left >= countLimit:
			panic("millrace: release of more shares of a block than were taken (released twice?)" + invariantsHint)
		case left > 0:
			return
		}
		b.state.Store(idle)
	}
	poison(b.buf)
	b.pool.put(b)
}
