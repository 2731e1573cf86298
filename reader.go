package millrace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
)

const (
	// defaultSize is the default buffer size of package bufio.
	defaultSize = 4096

	// minSize is the minimum buffer size of bufio.NewReaderSize.
	minSize = 16

	// The blocks of a Reader grow from firstBlock to mostBlock with the traffic. A socket seldom
	// has more than mostBlock bytes available at once.
	firstBlock = 4 << 10
	mostBlock  = 64 << 10

	// blockReads is the number of reads of average size that fit into a block.
	blockReads = 8

	// keptReads replaces blockReads if the caller keeps bytes in Chains or Refs. Larger blocks
	// divide these bytes into fewer pieces, which cost less to send.
	keptReads = 16

	// If part of a block is in use elsewhere, the free end of the block is used only if it has at
	// least minTail bytes.
	minTail = 512

	// readerStock is the number of new shares that a Reader takes when few are left.
	readerStock = 1 << 16

	// pieceStock is the number of shares that a Reader gives to each Ref. The Ref can then be
	// cloned 31 times without changing the block's count.
	pieceStock = 32

	// maxEmptyReads limits the consecutive reads without bytes or an error, as in bufio.
	maxEmptyReads = 100
)

var (
	errBadCount = errors.New("millrace: reader returned an impossible count from Read")
	errReleased = errors.New("millrace: Reader used after Release")
)

// A Reader is a buffered reader that lends its memory instead of copying out of it. It has all
// methods of [bufio.Reader], with the same meaning and the same errors, and adds these methods:
//
//   - [Reader.ReadRange] lends the next n bytes to a function and copies nothing.
//   - [Reader.ReadChain] moves the next n bytes to a [Chain] that may be kept, shared and sent.
//   - [Reader.Skip] drops the next n bytes.
//   - [Reader.ReadBE], [Reader.ReadLE] and similar methods read integers.
//
// A Reader holds no block while it waits for data from a *net.TCPConn, from a stream *net.UnixConn,
// or from a source with a method NetConn() net.Conn, such as a *tls.Conn. In the last case, it
// waits in a read of a single byte. Deadlines keep working.
//
// Blocks come from a [Pool]. Their size follows the traffic, from 4 to 64 KiB, unless the caller
// requested a Reader of a smaller or larger size. A block has room for about eight reads of average
// size, or for sixteen if Chains or Refs keep the bytes.
//
// A Reader is for one goroutine at a time. [Reader.Release] returns its blocks. If a Reader is
// dropped without Release, the Pool counts its block as lost (see [PoolStats]).
type Reader struct {
	// buf is the buffer: memory of the block blk. A share is a right to use a block. The block
	// returns to its Pool when all shares are released. The fields of the Reader have these
	// invariants:
	//
	//   - 0 ≤ r ≤ w ≤ len(buf)
	//   - buf[r:w] is read first, then the bytes of more.ahead (a Chain of bytes that have
	//     arrived), and then the bytes that src returns.
	//   - If blk is nil, buf is nil. Otherwise buf is blk.buf[base : base+len(buf)].
	//   - stock is the number of the Reader's shares of blk. If blk is not nil, stock is at least
	//     1. If parked is set (the Reader waits for its socket), the Reader has released these
	//     shares.
	//   - If lent is not set, only the Reader has shares of blk.
	buf  []byte
	r, w int

	err          error
	lastByte     int32 // last byte read for UnreadByte; -1 means invalid
	lastRuneSize int32 // size of the last rune read for UnreadRune; -1 means invalid

	blk    *block
	gen    uint32 // generation of blk
	stock  uint32 // number of the Reader's shares of blk
	base   uint32
	lent   bool // blk may be in use outside the Reader
	window bool // buf is part of a Ref that the Reader did not fill: buf[w:] must not be written
	// parked is set while the Reader waits for its socket without a share of blk. If blk is still
	// in use elsewhere after the wait, the Reader gets new shares and fills the rest of blk.
	parked bool
	token  token

	size    int    // number of bytes that Peek and ReadSlice can reach, as in bufio
	want    int    // minimum size of the next block
	arrived int    // bytes that src has returned since want was last set
	reads   uint32 // number of reads that returned the arrived bytes

	// wrapped is set if src wraps a connection, as a *tls.Conn does. The Reader then waits for a
	// single byte without a block, and sets probed when the byte has arrived.
	wrapped, probed bool
	first           [1]byte // buffer for that single byte

	src  io.Reader
	sock *socket // src, if the Reader can wait for it without a block; else nil
	more *supply // bytes that were put back or come from NewReaderFrom; else nil
	pool *Pool
}

// A supply holds bytes that a Reader returns before, or instead of, the bytes of src.
type supply struct {
	ahead Chain              // bytes that have arrived and have not been read
	next  func(*Chain) error // appends bytes to the Chain; nil for a Reader over an io.Reader
}

// NewReader returns a Reader of src with a Size of 4096 bytes. It borrows src until the Reader is
// released or reset. The caller must close src.
func NewReader(src io.Reader) *Reader { return NewReaderSize(src, defaultSize) }

// NewReaderSize returns a Reader of src whose Peek, ReadSlice and ReadLine can return up to size
// bytes. The minimum size is 16. The memory that the Reader uses depends on the traffic (see
// [Reader]). If src is a Reader with at least that size, NewReaderSize returns src.
func NewReaderSize(src io.Reader, size int) *Reader { return defaultPool.NewReader(src, size) }

// NewReader is like [NewReaderSize], but the Reader takes its blocks from p. If src is a Reader
// with at least that size, NewReader returns src, which keeps its own Pool.
func (p *Pool) NewReader(src io.Reader, size int) *Reader {
	if r, ok := src.(*Reader); ok && r.size >= size {
		return r
	}
	b := &Reader{pool: p, size: max(size, minSize)}
	b.start(src)
	return b
}

// SetPool makes the Reader take its next blocks from p, for example from a [Pool.Account].
func (b *Reader) SetPool(p *Pool) { b.pool = p }

// NewReaderFrom returns a Reader that gets its bytes from the function next.
//
// The function next must add at least one byte to dst or return an error. The Reader owns dst,
// which is empty at each call. Bytes that next adds are read before its error.
//
// Only Peek, ReadSlice and the integer methods may copy the bytes, to make them contiguous.
func NewReaderFrom(next func(dst *Chain) error) *Reader {
	b := &Reader{pool: defaultPool, size: defaultSize, more: &supply{next: next}}
	b.start(nil)
	return b
}

func (b *Reader) start(src io.Reader) {
	b.want = b.smallest()
	b.src, b.sock = src, newSocket(b, src)
	_, b.wrapped = src.(interface{ NetConn() net.Conn })
	b.probed = false
	b.err, b.lastByte, b.lastRuneSize = nil, -1, -1
	b.arrived, b.reads = 0, 0
}

// Size returns the number of bytes that Peek can always look ahead. More bytes may be buffered.
func (b *Reader) Size() int { return b.size }

// Buffered returns the number of bytes that can be read without waiting. Peek can return them all
// if they are at most [Reader.Size] bytes or lie in one block.
func (b *Reader) Buffered() int {
	n := b.w - b.r
	if b.more != nil {
		n += b.more.ahead.Len()
	}
	return n
}

// Reset drops the buffered bytes and makes b read from src. It borrows src until the next Reset or
// Release. A zero Reader gets the size and Pool of a Reader from [NewReader].
func (b *Reader) Reset(src io.Reader) {
	if b == src {
		return
	}
	if b.size == 0 {
		b.size, b.pool = defaultSize, defaultPool
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

// Release drops the buffered bytes and returns all blocks. It does not close the source. A Chain
// that ReadChain has filled stays valid. After Release, every read fails until Reset.
func (b *Reader) Release() {
	b.retire()
	if b.more != nil {
		b.more.ahead.Release()
		b.more = nil
	}
	b.src, b.sock = nil, nil
	b.err = errReleased
	b.lastByte, b.lastRuneSize = -1, -1
}

// readErr returns and clears the pending error, as bufio does.
func (b *Reader) readErr() error {
	err := b.err
	if err != errReleased {
		b.err = nil
	}
	return err
}

// ReadRange passes the next n bytes to yield, in one or more slices. A slice is valid until yield
// returns, and yield must not use b. The range may be far larger than any buffer.
//
// If the source is a socket (see [Reader]), ReadRange passes bytes on as they arrive. With another
// io.Reader, it first reads the whole range, if the range fits into the current block.
//
// If the source ends before the first byte, the error is io.EOF. If it ends later, the error is
// io.ErrUnexpectedEOF. The bytes before an error are consumed. A negative n gives
// bufio.ErrNegativeCount.
func (b *Reader) ReadRange(n int, yield func([]byte)) error {
	if n < 0 {
		return bufio.ErrNegativeCount
	}
	b.lastByte, b.lastRuneSize = -1, -1
	for left := n; left > 0; {
		if b.w-b.r < left {
			if err := b.fillRange(left); err != nil {
				return unexpectedEOF(err, n-left)
			}
		}
		end := min(b.r+left, b.w)
		p := b.buf[b.r:end:end]
		left -= len(p)
		b.r = end
		yield(p)
		b.spoil(p)
	}
	return nil
}

// With -tags invariants, spoil overwrites p, unless its block may be in use elsewhere.
func (b *Reader) spoil(p []byte) {
	if !b.window && !b.lent {
		poison(p)
	}
}

// ReadChain moves the next n bytes to the end of dst, which then owns them. It does not copy. Bytes
// that lie in one block become one piece of dst.
//
// After an error, dst is unchanged, and the bytes that have arrived stay buffered. The errors are:
//
//   - io.EOF: the source ended, and no bytes were left.
//   - io.ErrUnexpectedEOF: the source ended after some of the n bytes.
//   - bufio.ErrNegativeCount: n is negative.
//   - Any other error of the source.
func (b *Reader) ReadChain(dst *Chain, n int) error {
	b.lastByte, b.lastRuneSize = -1, -1
	if n < 0 {
		return bufio.ErrNegativeCount
	}
	before := dst.Len()
	left, err := b.giveRange(dst, n)
	if err != nil {
		b.takeBack(dst, before)
	}
	return unexpectedEOF(err, n-left)
}

// readPart is like ReadChain, but if the source ends after fewer than n bytes, it moves these bytes
// and returns no error. The Chain dst must be empty.
func (b *Reader) readPart(dst *Chain, n int) error {
	b.lastByte, b.lastRuneSize = -1, -1
	left, err := b.giveRange(dst, n)
	if err == io.EOF && left < n {
		return nil
	}
	if err != nil {
		b.takeBack(dst, 0)
	}
	return err
}

// giveRange moves the next n bytes to dst. If the source fails, it returns the error and the number
// of missing bytes.
func (b *Reader) giveRange(dst *Chain, n int) (left int, err error) {
	for left = n; left > 0; {
		if b.w-b.r < left {
			if err := b.fillRange(left); err != nil {
				return left, err
			}
		}
		m := min(left, b.w-b.r)
		b.moveTo(dst, m)
		left -= m
	}
	return 0, nil
}

// ReadChainDelim moves the bytes up to and including the first delimiter delim to the end of dst,
// which then owns them. It does not copy. It moves at most limit bytes, which may be more than
// [Reader.Size].
//
// After an error, dst is unchanged, and the bytes that have arrived stay buffered. The errors are:
//
//   - *DelimError: the next limit bytes do not contain the delimiter.
//   - io.EOF: the source ended, and no bytes were left.
//   - io.ErrUnexpectedEOF: the source ended after some bytes, without the delimiter. To get these
//     bytes, call b.ReadChain(dst, b.Buffered()).
//   - Any other error of the source.
func (b *Reader) ReadChainDelim(dst *Chain, delim byte, limit int) error {
	b.lastByte, b.lastRuneSize = -1, -1
	before, got := dst.Len(), 0
	for {
		if b.r == b.w {
			if err := b.fill(); err != nil {
				b.takeBack(dst, before)
				return unexpectedEOF(err, got)
			}
		}
		p := b.buf[b.r:min(b.w, b.r+max(limit-got, 0))]
		if i := bytes.IndexByte(p, delim); i >= 0 {
			b.moveTo(dst, i+1)
			return nil
		}
		if got+len(p) >= limit {
			if got > 0 {
				b.moveTo(dst, b.w-b.r) // takeBack requires that buf is empty
				b.takeBack(dst, before)
			}
			return &DelimError{delim, limit}
		}
		got += len(p)
		b.moveTo(dst, len(p))
	}
}

// DelimError reports that the next Limit bytes do not contain the delimiter Delim.
type DelimError struct {
	Delim byte
	Limit int
}

func (e *DelimError) Error() string {
	return fmt.Sprintf("millrace: no delimiter %q within the limit of %d bytes", e.Delim, e.Limit)
}

// takeBack shortens dst to n bytes, and puts the removed bytes back into b. These bytes must have
// come from b, and buf must be empty.
func (b *Reader) takeBack(dst *Chain, n int) {
	var kept Chain
	dst.CutTo(&kept, n)
	b.putBack(dst)
	dst.Merge(&kept)
}

// ReadRef moves the next n bytes to a Ref, which the caller owns. The bytes of a Ref are
// contiguous, so ReadRef copies them if they are in several blocks.
//
// If ReadRef returns an error, it consumes nothing. If n is above [Reader.Size], the error is
// bufio.ErrBufferFull. The other errors are those of [Reader.ReadChain].
func (b *Reader) ReadRef(n int) (Ref, error) {
	b.lastByte, b.lastRuneSize = -1, -1
	switch {
	case n < 0:
		return Ref{}, bufio.ErrNegativeCount
	case n == 0:
		return Ref{}, nil
	case n > b.size:
		return Ref{}, bufio.ErrBufferFull
	}
	if err := b.ensure(n); err != nil {
		return Ref{}, err
	}
	return b.share(n), nil
}

// moveTo moves the next n bytes of buf to dst. It requires 1 ≤ n ≤ b.w-b.r.
func (b *Reader) moveTo(dst *Chain, n int) { dst.push(b.share(n)) }

// share moves the next n bytes of buf to a Ref. It requires 1 ≤ n ≤ b.w-b.r.
func (b *Reader) share(n int) Ref {
	off := b.base + uint32(b.r)
	if b.window && b.r+n == b.w {
		// the Reader did not fill this block: pass on all shares
		r := Ref{blk: b.blk, loan: loan{b.gen, b.stock}, span: span{off, uint32(n)}}
		b.token.close()
		b.forget()
		r.token.open(r.blk, 1)
		return r
	}
	if b.stock <= pieceStock {
		b.blk.addShares(readerStock)
		b.stock += readerStock
	}
	b.stock -= pieceStock
	b.lent = true
	b.r += n
	r := Ref{blk: b.blk, loan: loan{b.gen, pieceStock}, span: span{off, uint32(n)}}
	r.token.open(r.blk, 1)
	return r
}

// putBack makes the bytes of c the next bytes to be read. buf must be empty.
func (b *Reader) putBack(c *Chain) {
	if c.Len() == 0 {
		return
	}
	if b.more == nil {
		b.more = &supply{}
	}
	c.Merge(&b.more.ahead)
	b.more.ahead.Merge(c)
}

// hasAhead reports whether b.more.ahead has bytes. The Reader returns them before b.err.
func (b *Reader) hasAhead() bool { return b.more != nil && b.more.ahead.Len() > 0 }

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
		b.moveTo(dst, b.w-b.r)
	}
}

// Skip drops the next n bytes. If the source ends before the first byte, Skip returns io.EOF. If it
// ends later, Skip returns io.ErrUnexpectedEOF. If n is negative, the error is
// bufio.ErrNegativeCount.
func (b *Reader) Skip(n int) error {
	got, err := b.Discard(n)
	return unexpectedEOF(err, got)
}

// unexpectedEOF turns io.EOF after n > 0 bytes into io.ErrUnexpectedEOF.
func unexpectedEOF(err error, n int) error {
	if err == io.EOF && n > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// blockSize returns the size of the block that the Pool lends for n bytes.
func blockSize(n int) int {
	if i := classFor(n); i != oversize {
		return classSize(i)
	}
	return n
}

// retire gives up the Reader's block, and drops the bytes that are buffered in it.
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

// forget clears the fields that describe the Reader's block. The caller must release the Reader's
// shares of the block or pass them on.
func (b *Reader) forget() {
	b.blk, b.buf, b.r, b.w = nil, nil, 0, 0
	b.base, b.stock = 0, 0
	b.lent, b.window, b.parked = false, false, false
}

func (b *Reader) take(n int) {
	b.blk = b.pool.take(n)
	b.gen, b.stock = b.blk.lend(), stock
	b.buf = b.blk.buf
	b.token.open(b.blk, 1)
}

// adaptBlockSize records a read of n bytes. When the recorded reads add up to b.want bytes, it sets
// b.want to a new block size, with room for several reads of average size.
//
// The new size is at most twice the old size. It is smaller only if less than half of the old size
// is needed.
func (b *Reader) adaptBlockSize(n int) {
	b.arrived += n
	b.reads++
	if b.arrived < b.want {
		return
	}
	held := blockReads
	if b.lent {
		held = keptReads
	}
	ideal := blockSize(min(held*(b.arrived/int(b.reads)), 2*b.want))
	if ideal > b.want || ideal < b.want/2 {
		b.want = min(max(ideal, b.smallest()), b.largest())
	}
	b.arrived, b.reads = 0, 0
}

func (b *Reader) smallest() int { return min(firstBlock, blockSize(b.size)) }
func (b *Reader) largest() int  { return max(mostBlock, blockSize(b.size)) }
