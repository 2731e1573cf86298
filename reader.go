package millrace

import (
	"bufio"
	"errors"
	"io"
	"time"
)

const (
	// defaultSize is what bufio.NewReader gives, so that Peek and ReadSlice reach just as far.
	defaultSize = 4096

	// minSize is the smallest size that bufio.NewReaderSize gives.
	minSize = 16

	// Blocks start at firstBlock, because most connections trickle, and grow to mostBlock with the traffic: a larger
	// one saves no system call that is worth its memory (a socket seldom has more than that to give at once).
	firstBlock = 4 << 10
	mostBlock  = 64 << 10

	// blockTime is how long a stretch of a stream one block should hold when the stream's packets are kept. A tenth of
	// a second of 2 Mbit/s is 25 KB; a stream of 100 kbit/s keeps blocks of 4 KiB and pins no more than it sends.
	blockTime = 100 * time.Millisecond

	// smallReads in a row that fill less than an eighth of the block make the next block half as large.
	smallReads = 64

	// minTail is the least room behind kept bytes that is worth another read into the same block.
	minTail = 512

	// handOut is how many shares ReadChain gives with a piece, so that whoever fans it out to a few need not buy
	// more; readerStock is how many the Reader buys at a time.
	handOut     = 32
	readerStock = 1 << 16

	// A source is taken for one that never waits, such as a file or a decoder, when probes reads in a row came back
	// within quickRead, which is less than a system call that waits takes. One read in probeEvery is timed, later one
	// in seldom, because looking at the clock costs as much as a read of such a source. quickBlock then holds many
	// packets and stays in the processor's first cache.
	quickRead  = 4 * time.Microsecond
	probes     = 4
	probeEvery = 64
	seldom     = 1023
	quickBlock = 16 << 10

	// maxEmptyReads is how often a source may return nothing and no error before io.ErrNoProgress, as in bufio.
	maxEmptyReads = 100
)

var (
	errBadCount = errors.New("millrace: reader returned an impossible count from Read")
	errReleased = errors.New("millrace: Reader used after Release")
)

// A Reader is a buffered reader that lends its memory instead of copying out of it. It has all of [bufio.Reader]'s
// methods with the same meaning and the same errors, so that bufio.NewReader can be replaced by NewReader and nothing
// else, and these besides:
//
//   - [Reader.ReadRange] lends the next n bytes to a function, wherever they lie: nothing is copied, and no counter and
//     no pool is touched but by a wait for a socket.
//   - [Reader.ReadChain] moves the next n bytes to a [Chain] that may be kept, shared and sent.
//   - Skip, and integers of any width in either byte order.
//
// Over a *net.TCPConn or a stream *net.UnixConn, a Reader holds no memory while it waits for data: it waits until the
// socket is readable and takes a block only then. Deadlines keep working.
//
// Blocks come from a [Pool] and are as large as the traffic deserves, from 4 KiB to 64 KiB; a size that was asked for
// moves the lower bound down or the upper one up. A Reader is for one goroutine at a time. Release gives its blocks
// back; a Reader that is dropped without Release is collected as garbage together with its block, which the Pool then
// counts as in use for ever.
//
// Invariants:
//
//	0 ≤ r ≤ w ≤ len(buf)
//	buf[r:w] has arrived and has not been read; ahead, if there is any, comes next; then what src gives
//	blk == nil: buf == nil
//	blk != nil: buf is blk.buf[base : base+len(buf)], and stock ≥ 1 shares of blk are the Reader's, unless parked
//	window: buf[w:] is not to be written, because it is part of a Ref that came from elsewhere
//	!lent: nobody else has a share of blk
//	steady: blk != nil, !lent, !window, sock == nil and more == nil, and 1 ≤ few ≤ len(buf)/8
//	quick: sock == nil and more == nil
//	onward > 0: quick, and err == nil
type Reader struct {
	buf  []byte
	r, w int

	err          error
	lastByte     int32 // last byte read for UnreadByte; -1 means invalid
	lastRuneSize int32 // size of the last rune read for UnreadRune; -1 means invalid

	blk    *block
	gen    uint32 // the loan of blk
	stock  uint32 // shares of blk that can be given away, but for the last
	base   uint32
	lent   bool
	window bool
	parked bool // waiting for the socket with no share of blk: it may go back, and is rejoined if it did not
	steady bool // nothing is in the way of reading from src into the whole of buf again
	quick  bool // src is taken for one that never waits
	small  uint8
	reads  uint16 // until the next one is timed
	onward uint16 // the same for those of ReadRange behind what is buffered; 0 when there is to be none
	probed uint8  // timed reads in a row that came back at once
	token  token

	size    int   // how far Peek and ReadSlice reach, as in bufio
	want    int   // size of the next block
	few     int   // a read of less counts as small; 1 if the block would not get smaller for it
	arrived int   // bytes since the size of a block was last chosen by the rate,
	since   int64 // and when that was, in Unix nanoseconds

	src  io.Reader
	sock *socket // src, when its readiness can be waited for
	more *supply // blocks that came from elsewhere
	pool *Pool
}

// supply is where a Reader's bytes come from before, or instead of, its source.
type supply struct {
	ahead Chain              // arrived, not read
	next  func(*Chain) error // gives more; nil for a Reader over an io.Reader
}

// NewReader returns a Reader of src whose Peek and ReadSlice reach 4096 bytes. src is borrowed until the Reader is
// released or reset; closing src is left to the caller.
func NewReader(src io.Reader) *Reader { return NewReaderSize(src, defaultSize) }

// NewReaderSize returns a Reader of src whose Peek, ReadSlice and ReadLine reach size bytes, at least 16. How much
// memory it holds is decided by the traffic; size moves only the bounds of that. If src is a Reader that reaches as far
// already, it is returned as it is.
func NewReaderSize(src io.Reader, size int) *Reader { return DefaultPool.NewReader(src, size) }

// NewReader is [NewReaderSize] with blocks from p. A Reader that is returned as it is keeps its own Pool.
func (p *Pool) NewReader(src io.Reader, size int) *Reader {
	if r, ok := src.(*Reader); ok && r.size >= size {
		return r
	}
	b := &Reader{pool: p, size: max(size, minSize)}
	b.start(src)
	return b
}

// NewReaderFrom returns a Reader of blocks that come from elsewhere: a channel, another Reader, a decoder. next adds at
// least one byte to dst, which is empty and which the Reader owns, or returns an error. The Reader gives that error
// after whatever next has added. The bytes are lent and handed on without copying; only Peek, ReadSlice and integers
// that straddle two pieces copy.
func NewReaderFrom(next func(dst *Chain) error) *Reader {
	b := &Reader{pool: DefaultPool, size: defaultSize, more: &supply{next: next}}
	b.start(nil)
	return b
}

func (b *Reader) start(src io.Reader) {
	b.want = min(firstBlock, blockSize(b.size))
	b.src, b.sock = src, newSocket(b, src)
	b.err, b.lastByte, b.lastRuneSize = nil, -1, -1
	b.small, b.arrived, b.since = 0, 0, time.Now().UnixNano()
	b.steady, b.quick, b.reads, b.onward, b.probed = false, false, probeEvery, 0, 0
}

// Size returns how many bytes Peek can look ahead for certain. More may be buffered.
func (b *Reader) Size() int { return b.size }

// Buffered returns the number of bytes that can be read without waiting. Peek(Buffered()) always succeeds while that
// number does not exceed Size, or while the bytes lie in one block.
func (b *Reader) Buffered() int {
	n := b.w - b.r
	if b.more != nil {
		n += b.more.ahead.Len()
	}
	return n
}

// Reset drops what is buffered and makes b read from src, which is borrowed as by [NewReader], keeping a block that nobody
// else shares. Calling Reset on the zero Reader prepares it as NewReader does.
func (b *Reader) Reset(src io.Reader) {
	if b == src {
		return
	}
	if b.size == 0 {
		b.size, b.pool = defaultSize, DefaultPool
	}
	if b.window || b.parked || b.lent {
		b.retire()
	}
	b.r, b.w = 0, 0
	if b.more != nil {
		b.more.ahead.Release()
		b.more = nil
	}
	b.start(src)
}

// Release drops what is buffered and gives every block back. The source stays the caller's. Shares that ReadChain gave
// live on. After Release only Reset and Release may be called; a read fails.
func (b *Reader) Release() {
	b.retire()
	if b.more != nil {
		b.more.ahead.Release()
		b.more = nil
	}
	b.src, b.sock = nil, nil
	b.fail(errReleased)
	b.lastByte, b.lastRuneSize = -1, -1
}

// fail notes an error, or that there is none.
func (b *Reader) fail(err error) {
	b.err = err
	if err != nil {
		b.onward = 0
	}
}

// readErr returns the pending error and clears it, as bufio does: the next read tries the source again.
func (b *Reader) readErr() error {
	err := b.err
	if err != errReleased {
		b.err = nil
	}
	return err
}

// ReadRange lends the next n bytes: it calls yield with one or more slices, in order, that add up to n. A slice is
// valid until yield returns, and yield must not use b. What has arrived is lent before b waits for more, so a range may
// be far larger than any buffer. (A source that has come back at once hundreds of times in a row, such as a decoder, and
// is neither an *io.PipeReader nor has a SetReadDeadline, is taken for one that never waits. From such a source b first
// reads on while the range fits into the block, which makes fewer, larger slices.)
//
// When the source ends early, ReadRange returns io.EOF if there were no bytes and io.ErrUnexpectedEOF if there were
// some. Those bytes, and the ones before any other error, have been lent and are gone. n < 0 is bufio.ErrNegativeCount.
func (b *Reader) ReadRange(n int, yield func([]byte)) error {
	if b.w-b.r < n {
		if b.r == b.w || n > len(b.buf)-b.r {
			return b.readRangeSlow(n, yield) // with nothing buffered, the start of the block is better
		}
		for { // readOn in place, which spares a call a packet
			if b.onward == 0 {
				return b.readRangeSlow(n, yield)
			}
			b.onward--
			m, err := b.src.Read(b.buf[b.w:])
			if room := len(b.buf) - b.w; err != nil || uint(m-1) >= uint(room) {
				b.received(m, room, err)
				if b.w-b.r < n {
					return b.readRangeSlow(n, yield)
				}
				break
			}
			if b.w += m; b.w-b.r >= n {
				break
			}
		}
	}
	if n > 0 {
		r := b.r
		b.r = r + n
		b.lastByte, b.lastRuneSize = -1, -1
		p := b.buf[r : r+n : r+n]
		yield(p)
		if invariants {
			b.spoil(p)
		}
		return nil
	}
	return b.readRangeSlow(n, yield)
}

// readRangeSlow lends what is buffered and then, again and again, what the next fill gives.
func (b *Reader) readRangeSlow(n int, yield func([]byte)) error {
	if n < 0 {
		return bufio.ErrNegativeCount
	}
	b.lastByte, b.lastRuneSize = -1, -1
	if b.quick && b.onward == 0 {
		b.reads = 0
	}
	left := n
	for left > 0 {
		if b.r == b.w {
			if err := b.fill(); err != nil {
				return midway(err, n-left)
			}
		}
		end := min(b.r+left, b.w)
		p := b.buf[b.r:end:end]
		left -= len(p)
		b.r = end
		yield(p)
		if invariants {
			b.spoil(p)
		}
	}
	return nil
}

// spoil overwrites bytes whose loan is over, unless they may belong to a piece that others see.
func (b *Reader) spoil(p []byte) {
	if !b.window && !b.lent {
		poison(p)
	}
}

// ReadChain moves the next n bytes to the end of dst, which owns them, without copying: they stay where the source put
// them. Bytes of one block become one piece.
//
// On an error nothing is added to dst and nothing is lost: what has arrived stays buffered, whatever its size, and a
// later call finds it. When the source ends early the error is io.EOF if nothing was left and io.ErrUnexpectedEOF
// otherwise. n < 0 is bufio.ErrNegativeCount.
func (b *Reader) ReadChain(dst *Chain, n int) error {
	b.lastByte, b.lastRuneSize = -1, -1
	if b.quick && b.w-b.r < n && n <= len(b.buf)-b.r && b.err == nil && (b.r < b.w || b.lent) {
		b.readOn(n)
	}
	if 0 < n && n <= b.w-b.r {
		b.give(dst, n)
		return nil
	}
	if n < 0 {
		return bufio.ErrNegativeCount
	}
	return b.readChainSlow(dst, n)
}

func (b *Reader) readChainSlow(dst *Chain, n int) error {
	before := dst.Len()
	for left := n; left > 0; {
		if b.r == b.w {
			if err := b.fill(); err != nil {
				err = midway(err, n-left)
				var kept Chain
				dst.Cut(&kept, before)
				b.putBack(dst) // all that is in dst now came from b
				dst.Merge(&kept)
				return err
			}
		}
		m := min(left, b.w-b.r)
		b.give(dst, m)
		left -= m
	}
	return nil
}

// give moves the next n bytes of buf to dst, 0 < n ≤ w-r.
func (b *Reader) give(dst *Chain, n int) {
	off := b.base + uint32(b.r)
	if b.window && b.r+n == b.w {
		// All that is left of a piece that came from elsewhere: hand it on whole.
		r := Ref{blk: b.blk, loan: loan{b.gen, b.stock}, span: span{off, uint32(n)}}
		b.token.close()
		b.forget()
		r.token.open(r.blk, 1)
		dst.push(r)
		return
	}
	if b.stock <= handOut {
		b.blk.buy(readerStock)
		b.stock += readerStock
	}
	b.stock -= handOut
	b.lent, b.steady = true, false
	b.r += n
	r := Ref{blk: b.blk, loan: loan{b.gen, handOut}, span: span{off, uint32(n)}}
	r.token.open(r.blk, 1)
	dst.push(r)
}

// putBack makes the bytes of c the next ones to be read. Nothing is buffered.
func (b *Reader) putBack(c *Chain) {
	if c.Len() == 0 {
		return
	}
	if b.more == nil {
		b.more = &supply{}
	}
	b.steady, b.quick, b.onward = false, false, 0
	c.Merge(&b.more.ahead)
	b.more.ahead.Merge(c)
}

// behind reports whether bytes have arrived that are not in buf yet. They come before b.err.
func (b *Reader) behind() bool { return b.more != nil && b.more.ahead.Len() > 0 }

// drainTo moves everything up to io.EOF to dst.
func (b *Reader) drainTo(dst *Chain) (total int64, err error) {
	b.lastByte, b.lastRuneSize = -1, -1
	for {
		if b.r == b.w {
			if err := b.fill(); err == io.EOF {
				return total, nil
			} else if err != nil {
				return total, err
			}
		}
		total += int64(b.w - b.r)
		b.give(dst, b.w-b.r)
	}
}

// Skip drops the next n bytes. Errors are those of [Reader.ReadRange].
func (b *Reader) Skip(n int) error {
	got, err := b.Discard(n)
	return midway(err, got)
}

// midway turns the end of the source into io.ErrUnexpectedEOF when it came after some of the bytes.
func midway(err error, got int) error {
	if err == io.EOF && got > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// blockSize returns the size of the block that the Pool gives for n bytes.
func blockSize(n int) int {
	if i := classFor(n); i != oversize {
		return classSize(i)
	}
	return n
}

// retire gives up the block. What is buffered in it is lost.
func (b *Reader) retire() {
	if b.blk == nil {
		return
	}
	blk, gen, stock, parked := b.blk, b.gen, b.stock, b.parked
	if !b.window && !parked {
		blk.setUsed(b.w)
	}
	if !parked {
		b.token.close()
	}
	b.forget()
	if !parked {
		blk.release(gen, stock)
	}
}

// forget leaves b without a block. Its shares have been given away or are about to be.
func (b *Reader) forget() {
	b.blk, b.buf, b.r, b.w = nil, nil, 0, 0
	b.base, b.stock = 0, 0
	b.lent, b.window, b.parked, b.steady = false, false, false, false
}

// take takes an empty block with room for at least n bytes.
func (b *Reader) take(n int) {
	b.blk = b.pool.take(n)
	b.gen, b.stock = b.blk.lend(), stock
	b.buf = b.blk.buf
	b.token.open(b.blk, 1)
}

// adapt chooses the size of the next block when one whose bytes are kept is full: as much as arrives in blockTime,
// but no more than twice as much as this time, and no less than half.
func (b *Reader) adapt() {
	b.arrived += b.w
	now := time.Now().UnixNano()
	elapsed, size := now-b.since, len(b.buf)
	ideal := b.largest()
	if elapsed > 0 {
		ideal = int(min(int64(ideal), int64(b.arrived)*int64(blockTime)/elapsed))
	}
	ideal = blockSize(min(max(ideal, size/2), 2*size))
	b.want = min(max(ideal, b.smallest()), b.largest())
	b.arrived, b.since = 0, now
}

// observe chooses the size of the next block by how much of the room the source filled.
func (b *Reader) observe(n, room int) {
	switch {
	case n == room && room >= b.want/2:
		b.want = min(2*b.want, b.largest())
		b.small, b.steady = 0, false
	case n < room/8:
		if b.small++; b.small >= smallReads {
			b.want = max(b.want/2, b.smallest())
			b.small, b.steady = 0, false
		}
	default:
		b.small = 0
	}
}

func (b *Reader) smallest() int {
	if b.quick {
		return quickBlock
	}
	return min(firstBlock, blockSize(b.size))
}

func (b *Reader) largest() int { return max(mostBlock, blockSize(b.size)) }
