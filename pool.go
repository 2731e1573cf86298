package millrace

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

const (
	// 512 bytes: below this size, a block's bookkeeping is no longer small compared with the block.
	minClassBits = 9
	// 1 MiB: above this size, allocating a block costs less than filling it, so keeping idle blocks
	// saves little.
	maxClassBits = 20
	numClasses   = maxClassBits - minClassBits + 1

	// defaultIdleLimit, in bytes, is enough for the 64 KiB blocks of a thousand connections. It is
	// little compared with the memory of a machine that has that many connections.
	defaultIdleLimit = 64 << 20

	// trimEvery is the minimum time between two garbage collections that trim. A program that makes
	// garbage may collect it a hundred times a second. Traffic, however, often comes in bursts that
	// are seconds apart (a segment of a stream, a poll). So only a block that has been idle for
	// longer than trimEvery shows that the traffic needs fewer blocks.
	trimEvery = 10 * time.Second

	// minTrimBytes is the minimum number of refused bytes before a trim. Looking through the
	// classes costs as much as allocating a few small blocks, so a trim for each refused block
	// would cost too much.
	minTrimBytes = 1 << 20
)

var defaultPool = NewPool()

// DefaultPool returns the Pool that is used wherever no other Pool was given. There is one in the
// program, with the default [IdleLimit].
func DefaultPool() *Pool { return defaultPool }

// A Pool lends blocks of memory in size classes, the powers of two from 512 bytes to 1 MiB. A
// larger block is allocated on the heap and counted. Blocks are not cleared between loans.
//
// A Pool's idle blocks are limited by [IdleLimit], and their number follows the traffic. A block
// that stayed idle from one garbage collection to the next is left to the collector (at most every
// ten seconds; the runtime collects at least every two minutes). The Pool also counts the bytes of
// released blocks that it refused to keep because of the limit. When they add up to a quarter of
// the limit, the Pool drops the blocks that have been idle since the last trim. This makes room for
// the sizes that are in use now.
//
// All methods may be called from any goroutine, and a block may be taken on one and released on
// another.
type Pool struct {
	parent *Pool // set if this Pool is an account, which uses only parent, out, peak and taken

	out, peak atomic.Int64 // bytes
	taken     atomic.Uint64

	idleLimit int64
	classes   [numClasses]class

	idle    atomic.Int64 // bytes; 0 ≤ idle ≤ idleLimit while no call is running
	refused atomic.Int64 // bytes of released blocks that idleLimit kept out since the last trim

	trimming sync.Mutex // locked before the mutex of a class
	lastTrim time.Time  // guarded by trimming

	large heapBlocks
}

// heapBlocks counts the blocks above the largest size class. They are never kept idle.
type heapBlocks struct {
	mu          sync.Mutex
	out         int64
	bytes, peak int64
	taken       uint64
}

// class holds the idle blocks of one size. The block that came back last is lent first, because it
// is still in the processor's cache.
//
// Invariants, under mu:
//
//	0 ≤ low ≤ len(free)
//	0 ≤ out ≤ peak
type class struct {
	mu    sync.Mutex
	free  []*block
	low   int // the lowest number of idle blocks since the last trim: that many were never needed
	out   int // blocks lent at present
	peak  int // the most that were ever lent at once
	taken uint64
	fresh uint64   // blocks allocated, a part of taken
	_     [64]byte // two classes never share a cache line
}

// A PoolOption changes the Pool that [NewPool] returns. An option panics if its value is out of
// range.
type PoolOption func(*Pool)

// IdleLimit limits the bytes that the Pool keeps idle. If a released block would exceed the limit,
// the Pool leaves it to the garbage collector and later allocates a new one. This happens in a
// program that releases more bytes than the limit at once. 0 keeps nothing. The default is 64 MiB.
func IdleLimit(bytes int64) PoolOption {
	if bytes < 0 {
		panic(fmt.Sprintf("millrace: IdleLimit(%d): the limit is 0 or more bytes", bytes))
	}
	return func(p *Pool) { p.idleLimit = bytes }
}

// NewPool returns an empty Pool.
func NewPool(opts ...PoolOption) *Pool {
	p := &Pool{idleLimit: defaultIdleLimit}
	for _, opt := range opts {
		opt(p)
	}
	trimAfterGC(p)
	return p
}

// Account returns a Pool that counts a part of p's blocks. Its blocks come from p and return to p.
// Both Pools count a block as long as a share of it is held. An account adds two additions to the
// cost of each block. It keeps no block idle and cannot have accounts itself.
func (p *Pool) Account() *Pool {
	if p.parent != nil {
		panic("millrace: an account of an account")
	}
	return &Pool{parent: p}
}

// Get lends a block with room for at least n bytes. The caller owns the Draft and ends the loan
// with [Draft.Freeze] (and the Ref's Release) or [Draft.Release]. The memory is not cleared.
//
// Get panics if n is negative or at least 4 GiB, because a block is smaller than that.
func (p *Pool) Get(n int) Draft {
	b := p.take(n)
	d := Draft{blk: b, loan: loan{b.lend(), stock}}
	d.token.open(b, 0)
	return d
}

// take returns an idle block of at least n bytes. The caller starts the loan by calling lend.
func (p *Pool) take(n int) *block {
	if n < 0 || uint64(n) > math.MaxUint32 {
		panic(fmt.Sprintf("millrace: Get of %d bytes; a block has 0 to %d", n,
			uint32(math.MaxUint32)))
	}
	if p.parent != nil {
		b := p.parent.take(n)
		b.pool = p
		p.taken.Add(1)
		for out, peak := p.out.Add(int64(len(b.buf))), p.peak.Load(); out > peak &&
			!p.peak.CompareAndSwap(peak, out); {
			peak = p.peak.Load()
		}
		return b
	}
	i := classFor(n)
	if i == oversize {
		p.large.count(1, int64(n))
		return newBlock(p, oversize, n)
	}
	b := p.classes[i].take()
	if b == nil {
		return newBlock(p, int8(i), classSize(i))
	}
	p.idle.Add(-int64(len(b.buf)))
	return b
}

// put takes a block back after the release of its last share.
func (p *Pool) put(b *block) {
	size := int64(len(b.buf))
	if p.parent != nil {
		p.out.Add(-size)
		b.pool = p.parent
		p.parent.put(b)
		return
	}
	if b.class == oversize {
		p.large.count(-1, -size)
		return
	}
	keep := p.idle.Add(size) <= p.idleLimit
	if !keep {
		p.idle.Add(-size)
	}
	p.classes[b.class].put(b, keep)
	if !keep {
		p.refuse(size)
	}
}

// refuse counts a block that is not kept because of the limit, and trims when such blocks add up to
// a quarter of the limit. A block that was needed since the last trim survives the next one. After
// a change of traffic, it therefore takes two trims to drop the blocks of the old sizes. Until
// then, blocks of half the limit are refused and allocated anew. With a smaller threshold, a size
// that is needed now and then would be dropped as well.
func (p *Pool) refuse(size int64) {
	most := max(p.idleLimit/4, minTrimBytes)
	if p.refused.Add(size) < most || !p.trimming.TryLock() {
		return
	}
	defer p.trimming.Unlock()
	if p.refused.Load() >= most { // no other goroutine has trimmed in between
		p.dropUnneeded(time.Now())
	}
}

func (h *heapBlocks) count(blocks, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out += blocks
	h.bytes += bytes
	h.peak = max(h.peak, h.bytes)
	if blocks > 0 {
		h.taken++
	}
}

// take returns the idle block that was used last, or nil.
func (c *class) take() *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken++
	c.out++
	c.peak = max(c.peak, c.out)
	last := len(c.free) - 1
	if last < 0 {
		c.fresh++
		// The caller is about to allocate a block. Grow the list for that block now, so that put
		// need not allocate when the block returns.
		c.free = slices.Grow(c.free, c.out)
		return nil
	}
	b := c.free[last]
	c.free[last] = nil // the pool must not keep a reference to a lent block
	c.free = c.free[:last]
	c.low = min(c.low, last)
	return b
}

// put counts a block as returned, and keeps it if there is room.
func (c *class) put(b *block, keep bool) {
	c.mu.Lock()
	c.out--
	if keep {
		c.free = append(c.free, b)
	}
	c.mu.Unlock()
}

// drop removes the n blocks that have been idle the longest and returns the number removed.
func (c *class) drop(n int) int {
	n = min(n, len(c.free))
	if n == 0 {
		return 0
	}
	kept := copy(c.free, c.free[n:])
	clear(c.free[kept:])
	c.free = c.free[:kept]
	if room := kept + c.out; cap(c.free) > 64 && cap(c.free) > 4*room {
		c.free = append(make([]*block, 0, room), c.free...) // shrink the list itself too
	}
	c.low = len(c.free)
	return n
}

// trimUnneeded drops the blocks that were idle ever since the last trim, if trimEvery has passed
// since then.
func (p *Pool) trimUnneeded(now time.Time) {
	p.trimming.Lock()
	defer p.trimming.Unlock()
	if now.Sub(p.lastTrim) >= trimEvery {
		p.dropUnneeded(now)
	}
}

// Trim leaves every idle block to the garbage collector now.
func (p *Pool) Trim() {
	for i := range p.classes {
		c := &p.classes[i]
		c.mu.Lock()
		n := c.drop(len(c.free))
		c.mu.Unlock()
		p.idle.Add(-int64(n) * int64(classSize(i)))
	}
}

// dropUnneeded drops the blocks that were idle ever since the last call. The caller holds
// p.trimming.
func (p *Pool) dropUnneeded(now time.Time) {
	p.lastTrim = now
	p.refused.Store(0)
	for i := range p.classes {
		c := &p.classes[i]
		c.mu.Lock()
		n := c.drop(c.low)
		c.low = len(c.free)
		c.mu.Unlock()
		p.idle.Add(-int64(n) * int64(classSize(i)))
	}
}

// trimAfterGC calls p.trimUnneeded after each garbage collection for as long as p is reachable. A
// timer could not return memory any earlier, because only a collection frees dropped blocks. Unlike
// a timer, this costs an idle program nothing and belongs to no synctest bubble.
func trimAfterGC(p *Pool) {
	type sentinel struct{ pool weak.Pointer[Pool] }
	var rearm func(s *sentinel)
	rearm = func(s *sentinel) {
		if p := s.pool.Value(); p != nil {
			p.trimUnneeded(time.Now())
			runtime.SetFinalizer(s, rearm)
		}
	}
	runtime.SetFinalizer(&sentinel{weak.Make(p)}, rearm)
}

// PoolStats describes the blocks that a Pool has lent or keeps idle.
type PoolStats struct {
	InUse       int64  // bytes lent at present, by block size
	InUseBlocks int64  // blocks lent at present
	Idle        int64  // bytes kept for the next loan
	HighWater   int64  // bytes: the peaks of lent bytes of each size class, added up
	Taken       uint64 // loans since NewPool
	Reused      uint64 // of Taken, those served by an idle block
	Oversize    uint64 // of Taken, those above the largest size class, served from the heap
}

// Stats returns a snapshot. The figures are exact if no other call is running. For an account only
// InUse, HighWater (its largest InUse) and Taken are set.
func (p *Pool) Stats() PoolStats {
	if p.parent != nil {
		return PoolStats{InUse: p.out.Load(), HighWater: p.peak.Load(), Taken: p.taken.Load()}
	}
	p.large.mu.Lock()
	s := PoolStats{
		InUse:       p.large.bytes,
		InUseBlocks: p.large.out,
		HighWater:   p.large.peak,
		Taken:       p.large.taken,
		Oversize:    p.large.taken,
	}
	p.large.mu.Unlock()
	s.Idle = p.idle.Load()
	for i := range p.classes {
		c := &p.classes[i]
		size := int64(classSize(i))
		c.mu.Lock()
		s.InUse += int64(c.out) * size
		s.InUseBlocks += int64(c.out)
		s.HighWater += int64(c.peak) * size
		s.Taken += c.taken
		s.Reused += c.taken - c.fresh
		c.mu.Unlock()
	}
	return s
}

// Leaks describes the shares of p's blocks that have not been released: for each, the size of its
// block and the stack of the call that took it. Only a program built with -tags invariants records
// stacks. In any other build Leaks returns nil, and [Pool.Stats] shows how much memory is lent.
func (p *Pool) Leaks() []string { return leaks(p) }

// classFor returns the index of the smallest size class with room for n bytes, or oversize.
func classFor(n int) int {
	if n > 1<<maxClassBits {
		return oversize
	}
	if n <= 1<<minClassBits {
		return 0
	}
	return bits.Len(uint(n-1)) - minClassBits
}

func classSize(i int) int { return 1 << (i + minClassBits) }
