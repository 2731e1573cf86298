package millrace

import (
	"runtime"
	"sync/atomic"
	"weak"
)

// A block is a piece of a Pool's memory with a reference count. The counted references are called
// shares. They are held by Refs and by the block's writer, which is the Draft or Reader that fills
// the block.
//
// Invariants, while at least one share is held:
//
//	0 ≤ used ≤ len(buf)
//	count(state) = shares held by all Refs + shares held by the block's writer > 0
//
// The bytes buf[:used] may be visible through shares and never change. Only the writer may change
// buf[used:]. After the writer has given up its shares, an owner of all shares may write there (see
// Chain.AppendCopy). A Reader that waits for its socket is an exception; see endsAt.
//
// The field state packs two numbers into one word, so that one atomic operation can check the
// generation and change the count:
//
//	bits 63..32  generation: number of times that the block has returned to its Pool
//	bits 31..0   count: number of shares; already set for the next owner while the block is idle
//
// Only a holder of shares lowers the count. The holder that brings it to 0 is then the only owner.
// It increments the generation before the Pool can lend the block again. Because Go's atomics are
// sequentially consistent, every access by an earlier holder happens before the next loan.
//
// Clone rarely changes the count, because a Ref can hold several shares and give one of them to the
// new Ref. Release returns all of the Ref's shares with one subtraction. (Weighted reference
// counting: D. I. Bevan, "Distributed garbage collection using reference counting", PARLE 1987.)
type block struct {
	state atomic.Uint64
	buf   []byte
	pool  *Pool
	class int8 // index into pool.classes, or oversize

	// used is the number of bytes in use at the start of buf.
	//
	//   - The Draft or Reader that writes the block sets used atomically, because other holders of
	//     references may read it at the same time.
	//   - Later, an owner that holds all references to the block may set used without an atomic
	//     write.
	used uint32
	fate *fate
	_    [cacheLine - 56]byte // the counts of two blocks are on different cache lines
}

// A fate tells the cleanup function of a block why the garbage collector has freed the block: the
// Pool has dropped it, or its last owner has forgotten to release it.
type fate struct {
	pool    weak.Pointer[Pool] // weak, because a Pool and its idle blocks may be freed together
	class   int8
	size    int64
	dropped atomic.Bool          // the Pool has dropped the block
	account atomic.Pointer[Pool] // the account that has lent the block; nil if there is none
}

const (
	// cacheLine is the size in bytes of a cache line on x86-64 and most ARM processors. Go's
	// allocator aligns objects of this size to cache lines.
	cacheLine = 64

	// stock is the reference count of a newly lent block. A Ref or Draft that needs further
	// references also adds this number at once.
	stock = 256

	// countLimit is the number of references to one block at which the program panics. The
	// reference count has 32 bits. The limit is half of its range, so the panic comes long before
	// an overflow.
	countLimit = 1 << 31
)

// oversize is the class of a block that is larger than the largest size class. Such a block is
// allocated on the heap, and the garbage collector frees it.
const oversize = -1

func generation(state uint64) uint32 { return uint32(state >> 32) }
func count(state uint64) uint32      { return uint32(state) }

// lend prepares an unused block for a new owner, and returns the block's generation. The reference
// count is already set, and the owner holds all of these references.
func (b *block) lend() uint32 {
	b.used = 0
	return generation(b.state.Load())
}

// newBlock allocates a block for p. The caller must call lend before the block is used.
func newBlock(p *Pool, class int8, size int) *block {
	f := &fate{pool: weak.Make(p), class: class, size: int64(size)}
	b := &block{buf: make([]byte, size), pool: p, class: class, fate: f}
	b.state.Store(stock)
	runtime.AddCleanup(b, (*fate).collected, f)
	return b
}

// collected counts a block as lost, if the garbage collector has freed it while it was lent.
func (f *fate) collected() {
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

// invariantsHint ends the panic messages about misuse of a block. The code that panics may be
// correct, because the mistake may be in other code.
const invariantsHint = "; build with -tags invariants to see where it was taken and released"

// check panics if the block's generation is no longer gen, because the block has returned to its
// Pool.
func (b *block) check(gen uint32) {
	if generation(b.state.Load()) != gen {
		panic("millrace: use of a share after its block went back to the pool" + invariantsHint)
	}
}

// buy adds n to the block's reference count. The caller must already hold a reference. buy panics
// if the count reaches countLimit.
func (b *block) buy(n uint32) {
	if count(b.state.Add(uint64(n))) >= countLimit {
		panic("millrace: more than 2147483648 shares of one block")
	}
}

// rejoin adds n to the block's reference count, for a caller that holds no reference. It returns
// false if the block's generation is no longer gen, because the block has returned to its Pool.
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

// setUsed sets b.used. Only the block's writer calls it. The write is atomic, because other holders
// of references may read b.used at the same time.
func (b *block) setUsed(n int) { atomic.StoreUint32(&b.used, uint32(n)) }

// endsAt reports whether the bytes in use end at offset off. If they do, a caller that holds all
// references to the block may append bytes there.
//
// A Reader that waits for its socket holds no reference to its block, but may write to the block
// later. It therefore marks the whole block as in use before it waits, so that no other owner
// appends bytes.
func (b *block) endsAt(off uint32) bool { return atomic.LoadUint32(&b.used) == off }

// sole reports whether the caller's n references are all the references to the block.
func (b *block) sole(n uint32) bool { return count(b.state.Load()) == n }

// release gives up n references to the block. The last release returns the block to its Pool. If
// the block's generation is no longer gen, or if the block has fewer than n references, a share was
// released twice, and release panics.
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
