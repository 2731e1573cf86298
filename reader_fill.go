package millrace

import "io"

// fill puts at least one byte into the buffer or returns an error. It must be called only if
// buf[r:w] is empty. It may overwrite or release bytes that were already read, but not if a Chain
// or Ref uses them.
func (b *Reader) fill() error {
	for range maxEmptyReads {
		if b.err != nil && !b.hasAhead() {
			return b.readErr()
		}
		b.fillOnce()
		if b.r < b.w {
			return nil
		}
	}
	if b.err != nil {
		return b.readErr()
	}
	return io.ErrNoProgress
}

// fillRange buffers bytes for a caller that needs n bytes. After the call, buf[r:w] has at least
// one byte, or fillRange returns an error. It must be called only if buf[r:w] has fewer than n
// bytes.
//
// Usually fillRange waits only for the first byte. If the source is an io.Reader that is not a
// socket, and the block has room for n bytes, fillRange reads until n bytes are buffered. An error,
// or a read that returns no bytes, ends this loop early.
func (b *Reader) fillRange(n int) error {
	if b.r == b.w {
		if err := b.fill(); err != nil {
			return err
		}
	}
	if b.sock != nil || b.more != nil {
		return nil
	}
	for b.w-b.r < n && n <= len(b.buf)-b.r && b.err == nil {
		before := b.w
		b.readInto(b.buf[b.w:])
		if b.w == before {
			break
		}
	}
	return nil
}

// fillOnce fills the empty buffer with bytes that have already arrived, or reads from the source
// once. It must be called only if buf[r:w] is empty. If the source returns neither bytes nor an
// error, the buffer stays empty.
func (b *Reader) fillOnce() {
	switch {
	case b.hasAhead():
		b.advance()
	case b.more != nil && b.more.next != nil:
		b.err = b.more.next(&b.more.ahead)
		if b.hasAhead() {
			b.advance()
		}
	default:
		b.more = nil // the bytes that were put back have been read
		b.receive()
	}
}

// advance releases the Reader's block, and makes the first piece of b.more.ahead the buffer.
func (b *Reader) advance() {
	b.retire()
	r := b.more.ahead.pop()
	r.token.close()
	r.blk.check(r.gen)
	b.blk, b.gen, b.stock, b.base = r.blk, r.gen, r.shares, r.off
	b.buf = r.bytes()
	b.w = len(b.buf)
	b.lent, b.window = true, true
	b.token.open(b.blk, 1)
}

// receive reads from the source once, into free memory. It must be called only if no bytes are
// buffered.
func (b *Reader) receive() {
	switch {
	case b.sock != nil:
		b.sock.receive()
	case b.wrapped && !b.probed:
		b.probe()
	default:
		b.readInto(b.makeRoom())
	}
}

// probe reads one byte from src. The Reader holds no block while probe waits. After the byte, probe
// sets b.probed, so that the next read uses a block. More bytes usually follow at once.
func (b *Reader) probe() {
	b.park()
	n, err := b.src.Read(b.first[:])
	if n < 0 || n > 1 {
		panic(errBadCount)
	}
	b.err = err
	if n > 0 {
		b.makeRoom()[0] = b.first[0]
		b.w++
		b.probed = true
	}
}

// readInto reads from src once into p, which must begin at buf[w].
func (b *Reader) readInto(p []byte) {
	n, err := b.src.Read(p)
	b.probed = false
	b.recordRead(n, len(p), err)
}

// recordRead records the results of a read into buf[w:w+size]. It panics if n is out of range.
func (b *Reader) recordRead(n, size int, err error) {
	if n < 0 || n > size {
		panic(errBadCount)
	}
	b.w += n
	b.err = err
	if n > 0 {
		b.adaptBlockSize(n)
	}
}

// makeRoom returns memory for the next read. It must be called only if no bytes are buffered.
//
// If only the Reader uses its block, makeRoom returns the whole block. If a Chain or Ref also uses
// the block, makeRoom returns the free end of the block. It takes another block if the free end is
// too short or must not be written, or if the size of the block no longer suits the traffic.
func (b *Reader) makeRoom() []byte {
	if b.parked {
		b.rejoin()
	}
	if b.lent && !b.window && b.blk.isSoleOwner(b.stock) {
		b.lent = false // all Chains and Refs have released their shares
	}
	switch {
	case b.blk == nil:
	case b.lent && (b.window || len(b.buf)-b.w < minTail),
		!b.lent && (len(b.buf) < b.want || len(b.buf) > 2*b.want):
		b.retire()
	case !b.lent:
		poison(b.buf[:b.w])
		b.r, b.w = 0, 0
	}
	if b.blk == nil {
		b.take(b.want)
	}
	return b.buf[b.w:]
}

// park releases the Reader's block before a wait. If a Chain or Ref still uses the block, rejoin
// later takes new shares of it, to fill its free end.
func (b *Reader) park() {
	if b.blk == nil || b.parked {
		return
	}
	if !b.lent || b.window {
		b.retire()
		return
	}
	b.parked = true
	b.token.close()
	b.blk.release(b.gen, b.stock)
}

// rejoin takes new shares of the Reader's block after park. If the block has returned to its Pool
// in the meantime, rejoin sets b.blk to nil.
func (b *Reader) rejoin() {
	if !b.blk.rejoin(b.gen, stock) {
		b.retire()
		return
	}
	b.stock = stock
	b.parked = false
	b.token.open(b.blk, 1)
}

// extend appends at least one byte to the buffered bytes, or sets b.err. The caller repeats the
// call until n contiguous bytes are buffered.
//
// It requires b.w-b.r < n. It also requires that b.err is nil or b.hasAhead() is true.
func (b *Reader) extend(n int) {
	for range maxEmptyReads {
		before := b.w - b.r
		b.extendOnce(n)
		if b.w-b.r > before || b.err != nil && !b.hasAhead() {
			return
		}
	}
	b.err = io.ErrNoProgress
}

func (b *Reader) extendOnce(n int) {
	if b.r == b.w {
		b.fillOnce() // No bytes are buffered, so the new bytes need not be contiguous with others.
		return
	}
	if b.more != nil {
		if !b.hasAhead() && b.more.next != nil {
			b.err = b.more.next(&b.more.ahead)
		}
		if b.hasAhead() {
			b.gather(n)
			return
		}
		if b.more.next != nil {
			return
		}
	}
	b.makeContiguous(n)
	b.readInto(b.buf[b.w:])
}

// ensure reads until buf[r:w] has at least n bytes. After an error, the bytes that have arrived
// stay buffered. It requires n ≤ b.size.
func (b *Reader) ensure(n int) error {
	for b.w-b.r < n {
		if b.err != nil && !b.hasAhead() {
			return unexpectedEOF(b.readErr(), b.w-b.r)
		}
		b.extend(n)
	}
	return nil
}

// gather moves bytes from b.more.ahead to the end of the buffer, until the buffer holds n bytes or
// b.more.ahead is empty.
func (b *Reader) gather(n int) {
	m := min(n-(b.w-b.r), b.more.ahead.Len())
	b.makeContiguous(n)
	b.more.ahead.CopyTo(b.buf[b.w : b.w+m])
	b.w += m
	b.more.ahead.Discard(m)
}

// makeContiguous makes room for n contiguous bytes, including the buffered bytes. If necessary, it
// moves the buffered bytes to the block's start or to another block. It requires 0 < b.w-b.r < n.
func (b *Reader) makeContiguous(n int) {
	if !b.window && len(b.buf)-b.r >= n {
		return
	}
	left := b.buf[b.r:b.w]
	if !b.window && !b.lent && len(b.buf) >= n {
		b.w = copy(b.buf, left)
		b.r = 0
		return
	}
	// Above the largest size class, request more than n bytes. Otherwise ReadSlice would copy a
	// long line for every sliceStep bytes.
	if n > 1<<maxClassBits {
		n = max(n, min(2*len(left), b.size))
	}
	old := *b // keeps the old block until the buffered bytes have been copied
	b.token = token{}
	b.take(max(n, b.want))
	b.w = copy(b.buf, left)
	b.r, b.base = 0, 0
	b.lent, b.window = false, false
	old.retire()
}
