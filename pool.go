package millrace

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

const (
	// The smallest size class has blocks of 512 bytes.
	minClassBits = 9
	// The largest size class has blocks of 1 MiB. The Pool does not keep larger blocks, because
	// filling one costs more than allocating it.
	maxClassBits = 20
	numClasses   = maxClassBits - minClassBits + 1

	// defaultIdleLimit is enough for the 64 KiB blocks of a thousand connections.
	defaultIdleLimit = 64 << 20

	// trimEvery is the minimum time between two trims after garbage collections. More frequent
	// trims would drop blocks that the next burst of traffic needs.
	trimEvery = 10 * time.Second

	// minTrimBytes is the minimum number of bytes that a Pool drops because of IdleLimit before it
	// trims. A trim costs as much as allocating a few small blocks.
	minTrimBytes = 1 << 20
)

var defaultPool = NewPool()

// DefaultPool returns the Pool that is used if the caller chooses no other Pool. It has the default
// [IdleLimit].
func DefaultPool() *Pool { return defaultPool }

// A Pool lends blocks of memory in size classes, the powers of two from 512 bytes to 1 MiB. A
// larger block is allocated for each loan. Blocks are not cleared.
//
// A Pool keeps idle blocks up to [IdleLimit]. It drops the blocks that have been idle since the
// last trim:
//
//   - after a garbage collection, if the last trim was at least ten seconds ago
//   - when the blocks dropped because of IdleLimit reach 1 MiB and a quarter of the limit since the
//     last trim
//
// If the program uses more than three quarters of its memory limit (GOMEMLIMIT), every garbage
// collection drops all idle blocks.
//
// All methods may be called from any goroutine. A block may be released on another goroutine.
type Pool struct {
	parent *Pool // set if this Pool is an account, which uses only parent and the next four fields

	out, peak   atomic.Int64  // bytes
	taken, lost atomic.Uint64 // blocks

	idleLimit int64
	poisons   bool // see Poison
	classes   [numClasses]class

	idle    atomic.Int64 // bytes; 0 ≤ idle ≤ idleLimit while no call is running
	refused atomic.Int64 // bytes of released blocks dropped since the last trim

	trimming sync.Mutex // locked before the mutex of a class
	lastTrim time.Time  // guarded by trimming

	large heapBlocks
}

// heapBlocks counts the lent blocks that are larger than the largest size class.
type heapBlocks struct {
	mu          sync.Mutex
	out         int64
	bytes, peak int64
	taken       uint64
}

// class holds the idle blocks of one size. The block that was released last is lent first, because
// it is still in the processor's cache.
//
// Invariants while mu is not held:
//
//	0 ≤ low ≤ len(free)
//	0 ≤ out ≤ peak
type class struct {
	mu    sync.Mutex
	free  []*block
	low   int // lowest number of idle blocks since the last trim
	out   int // number of blocks lent
	peak  int
	taken uint64
	fresh uint64   // number of taken blocks that had to be allocated
	_     [64]byte // two classes are on different cache lines
}

// A PoolOption changes the Pool that [NewPool] returns. Options panic if a value is out of range.
type PoolOption func(*Pool)

// IdleLimit limits the bytes of the idle blocks that the Pool keeps. A released block that would
// exceed the limit is dropped, and the garbage collector frees it. With a limit of 0, the Pool
// keeps no idle blocks. The default is 64 MiB.
//
// If the memory in use rises and falls by more than the limit, a higher limit saves allocations.
func IdleLimit(bytes int64) PoolOption {
	if bytes < 0 {
		panic(fmt.Sprintf("millrace: IdleLimit(%d): the limit is 0 or more bytes", bytes))
	}
	return func(p *Pool) { p.idleLimit = bytes }
}

// Poison makes the Pool fill each returned block with the byte 0xDB, and never lend it again.
// Slices that were kept after the release then contain only 0xDB. Poison overrides [IdleLimit].
//
// Use Poison only in tests, because every Get then allocates a block.
func Poison() PoolOption {
	return func(p *Pool) { p.poisons = true }
}

// NewPool returns an empty Pool.
func NewPool(opts ...PoolOption) *Pool {
	p := &Pool{idleLimit: defaultIdleLimit}
	for _, opt := range opts {
		opt(p)
	}
	if p.poisons {
		p.idleLimit = 0
	}
	trimAfterGC(p)
	return p
}

// Account returns a Pool that takes its blocks from p and counts them separately. A lent block
// counts in both Pools. An account keeps no idle blocks. Account panics if p is an account.
func (p *Pool) Account() *Pool {
	if p.parent != nil {
		panic("millrace: an account of an account")
	}
	return &Pool{parent: p}
}

// Get lends a block of at least n bytes, which are not cleared. The caller owns the Draft, and must
// release it or turn it into a Ref with [Draft.Freeze].
//
// Get panics if n is negative or at least 4 GiB.
func (p *Pool) Get(n int) Draft {
	b := p.take(n)
	d := Draft{blk: b, loan: loan{b.lend(), stock}}
	d.token.open(b, 0)
	return d
}

// take returns an unused block of at least n bytes. The caller must then call lend.
func (p *Pool) take(n int) *block {
	if n < 0 || uint64(n) > math.MaxUint32 {
		panic(fmt.Sprintf("millrace: Get of %d bytes; a block has 0 to %d", n,
			uint32(math.MaxUint32)))
	}
	if p.parent != nil {
		b := p.parent.take(n)
		b.pool = p
		b.info.account.Store(p)
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

func (p *Pool) put(b *block) {
	size := int64(len(b.buf))
	if p.parent != nil {
		p.out.Add(-size)
		b.pool = p.parent
		b.info.account.Store(nil)
		p.parent.put(b)
		return
	}
	if b.class == oversize {
		p.drop(b)
		p.large.count(-1, -size)
		return
	}
	keep := p.idle.Add(size) <= p.idleLimit
	if !keep {
		p.idle.Add(-size)
		p.drop(b)
	}
	p.classes[b.class].put(b, keep)
	if !keep {
		p.countDropped(size)
	}
}

func (p *Pool) drop(b *block) {
	b.info.dropped.Store(true)
	if p.poisons {
		fill(b.buf)
	}
}

// countDropped counts the bytes of a released block that the Pool dropped because of its idle
// limit. It trims the Pool when the bytes since the last trim reach both minTrimBytes and a quarter
// of the limit.
func (p *Pool) countDropped(size int64) {
	threshold := max(p.idleLimit/4, minTrimBytes)
	if p.refused.Add(size) < threshold || !p.trimming.TryLock() {
		return
	}
	defer p.trimming.Unlock()
	if p.refused.Load() >= threshold { // else another goroutine has just trimmed
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

func (c *class) take() *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken++
	c.out++
	c.peak = max(c.peak, c.out)
	last := len(c.free) - 1
	if last < 0 {
		c.fresh++
		// Grow the list now, so that put does not allocate when the new block returns.
		c.free = slices.Grow(c.free, c.out)
		return nil
	}
	b := c.free[last]
	c.free[last] = nil // do not keep a lent block reachable
	c.free = c.free[:last]
	c.low = min(c.low, last)
	return b
}

func (c *class) put(b *block, keep bool) {
	c.mu.Lock()
	c.out--
	if keep {
		c.free = append(c.free, b)
	}
	c.mu.Unlock()
}

func (c *class) forget() {
	c.mu.Lock()
	c.out--
	c.mu.Unlock()
}

// drop removes the n blocks that have been idle the longest, or all idle blocks if there are fewer.
// It returns the number of removed blocks. The caller must hold c.mu.
func (c *class) drop(n int) int {
	n = min(n, len(c.free))
	if n == 0 {
		return 0
	}
	for _, b := range c.free[:n] {
		b.info.dropped.Store(true)
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

// trimUnneeded drops the blocks that have been idle since the last trim. It does nothing if the
// last trim was less than trimEvery ago.
func (p *Pool) trimUnneeded(now time.Time) {
	p.trimming.Lock()
	defer p.trimming.Unlock()
	if now.Sub(p.lastTrim) >= trimEvery {
		p.dropUnneeded(now)
	}
}

// Trim drops all idle blocks, so that the garbage collector can free them.
func (p *Pool) Trim() {
	for i := range p.classes {
		c := &p.classes[i]
		c.mu.Lock()
		n := c.drop(len(c.free))
		c.mu.Unlock()
		p.idle.Add(-int64(n) * int64(classSize(i)))
	}
}

// dropUnneeded drops the blocks idle since the last trim. The caller must hold p.trimming.
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

// trimAfterGC makes the Pool drop unneeded idle blocks after each garbage collection, for as long
// as p is reachable.
//
// It uses a finalizer instead of a timer. A finalizer costs an idle program nothing, and
// testing/synctest does not affect it.
func trimAfterGC(p *Pool) {
	type sentinel struct{ pool weak.Pointer[Pool] }
	var rearm func(s *sentinel)
	rearm = func(s *sentinel) {
		if p := s.pool.Value(); p != nil {
			if nearMemoryLimit() {
				p.Trim()
			} else {
				p.trimUnneeded(time.Now())
			}
			runtime.SetFinalizer(s, rearm)
		}
	}
	runtime.SetFinalizer(&sentinel{weak.Make(p)}, rearm)
}

func nearMemoryLimit() bool {
	limit := debug.SetMemoryLimit(-1) // a negative limit changes nothing
	if limit == math.MaxInt64 {
		return false
	}
	m := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(m)
	return int64(m[0].Value.Uint64()-m[1].Value.Uint64()) > limit/4*3
}

// PoolStats describes the blocks that a Pool has lent or keeps idle.
type PoolStats struct {
	InUse       int64  // bytes of the blocks lent now
	InUseBlocks int64  // blocks lent now
	Idle        int64  // bytes of the idle blocks
	HighWater   int64  // sum, over all size classes, of the most bytes lent at once
	Taken       uint64 // blocks lent since NewPool
	Reused      uint64 // blocks of Taken that had been idle
	Oversize    uint64 // blocks of Taken that were larger than the largest size class
	Lost        uint64 // blocks of Taken that were garbage-collected without a release
}

// Stats returns a snapshot. The figures are exact if no other call to the Pool is running. If p is
// an account (see [Pool.Account]), Stats sets only InUse, Taken, Lost and HighWater. HighWater is
// then the largest InUse so far.
func (p *Pool) Stats() PoolStats {
	if p.parent != nil {
		return PoolStats{InUse: p.out.Load(), HighWater: p.peak.Load(), Taken: p.taken.Load(),
			Lost: p.lost.Load()}
	}
	p.large.mu.Lock()
	s := PoolStats{
		InUse:       p.large.bytes,
		InUseBlocks: p.large.out,
		HighWater:   p.large.peak,
		Taken:       p.large.taken,
		Oversize:    p.large.taken,
		Lost:        p.lost.Load(),
		Idle:        p.idle.Load(),
	}
	p.large.mu.Unlock()
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

// Leaks describes the unreleased shares of p's blocks, with the stacks of the calls that took them.
// Without -tags invariants, no stacks are recorded, and Leaks returns nil.
func (p *Pool) Leaks() []string { return leaks(p) }

// classFor returns the index of the smallest size class with room for n bytes, or oversize if there
// is none.
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
