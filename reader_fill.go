package millrace

import "io"

// If nothing is buffered, fill makes at least one byte available or returns the error. The bytes
// that were already read from the block may be overwritten or released, unless others have shares
// of it.
func (b *Reader) fill() error {
	for range maxEmptyReads {
		if b.err != nil && !b.behind() {
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

// fillRange makes at least one byte available, or returns the error. If src is a socket or b.more
// is set, it then returns. Otherwise it reads on until n bytes are buffered, if n bytes fit into
// the block. It stops when src gives nothing. The caller has fewer than n buffered.
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

// fillOnce reads from the source once. The caller has nothing buffered. Afterwards something is
// buffered, or b.err is set, or the source gave nothing.
func (b *Reader) fillOnce() {
	switch {
	case b.behind():
		b.advance()
	case b.more != nil && b.more.next != nil:
		b.err = b.more.next(&b.more.ahead)
		if b.behind() {
			b.advance()
		}
	default:
		b.more = nil // the bytes that were put back have been read
		b.receive()
	}
}

// advance makes the first piece of ahead the buffer (window).
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

// receive reads from the source once into the room that makeRoom finds. The caller has nothing
// buffered.
func (b *Reader) receive() {
	if b.sock != nil {
		b.sock.receive()
		return
	}
	b.readInto(b.makeRoom())
}

// readInto reads once into p, which is buf[w:].
func (b *Reader) readInto(p []byte) {
	n, err := b.src.Read(p)
	b.received(n, len(p), err)
}

// received processes the result of one read into buf[w:].
func (b *Reader) received(n, room int, err error) {
	if n < 0 || n > room {
		panic(errBadCount)
	}
	b.w += n
	b.err = err
	if n > 0 {
		b.measure(n)
	}
}

// makeRoom returns memory after w to read into. The caller has nothing buffered. If others have no
// share of the block, makeRoom usually reuses the block from its start, because that touches
// neither the pool nor a counter.
func (b *Reader) makeRoom() []byte {
	if b.parked {
		b.rejoin()
	}
	if b.lent && !b.window && b.blk.sole(b.stock) {
		b.lent = false // all the shares that were given away have been released
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

// park gives up every share of the block before the Reader waits for the socket. If other owners
// have shares of the block, the Reader keeps a reference to it. After the wait, if they still hold
// it, the Reader fills the room after their bytes instead of taking another block.
func (b *Reader) park() {
	if b.blk == nil || b.parked {
		return
	}
	if !b.lent || b.window {
		b.retire()
		return
	}
	b.blk.setUsed(len(b.buf)) // holders of shares must not append to their bytes meanwhile
	b.parked = true
	b.token.close()
	b.blk.release(b.gen, b.stock)
}

// rejoin takes shares of the block that park gave up, if other holders still keep the block in use.
// Otherwise the block is back in its Pool, and rejoin clears b.blk.
func (b *Reader) rejoin() {
	if !b.blk.rejoin(b.gen, stock) {
		b.retire()
		return
	}
	b.stock = stock
	b.parked = false
	b.token.open(b.blk, 1)
}

// extend makes at least one more byte available, or sets b.err. The bytes are contiguous with the
// buffered bytes, in memory with room for n in total. The caller has fewer than n bytes buffered
// and no error pending.
func (b *Reader) extend(n int) {
	for range maxEmptyReads {
		before := b.w - b.r
		b.extendOnce(n)
		if b.w-b.r > before || b.err != nil && !b.behind() {
			return
		}
	}
	b.err = io.ErrNoProgress
}

func (b *Reader) extendOnce(n int) {
	if b.r == b.w {
		b.fillOnce() // there are no buffered bytes to be contiguous with
		return
	}
	if b.more != nil {
		if !b.behind() && b.more.next != nil {
			b.err = b.more.next(&b.more.ahead)
		}
		if b.behind() {
			b.gather(n)
			return
		}
		if b.more.next != nil {
			return
		}
	}
	b.contiguous(n)
	b.readInto(b.buf[b.w:])
}

// need buffers n contiguous bytes, or returns an error and keeps the buffered bytes. n ≤ size.
func (b *Reader) need(n int) error {
	for b.w-b.r < n {
		if b.err != nil && !b.behind() {
			return midway(b.readErr(), b.w-b.r)
		}
		b.extend(n)
	}
	return nil
}

// gather copies bytes from ahead to the end of the buffer. It stops when the buffer holds n bytes
// or ahead is empty.
func (b *Reader) gather(n int) {
	m := min(n-(b.w-b.r), b.more.ahead.Len())
	b.contiguous(n)
	b.more.ahead.CopyTo(b.buf[b.w : b.w+m])
	b.w += m
	b.more.ahead.Discard(m)
}

// contiguous makes room in the block for n bytes from r on. If necessary, it moves the buffered
// bytes to the block's start or to another block. At least one and fewer than n bytes are buffered.
func (b *Reader) contiguous(n int) {
	if !b.window && len(b.buf)-b.r >= n {
		return
	}
	left := b.buf[b.r:b.w]
	if !b.window && !b.lent && len(b.buf) >= n {
		b.w = copy(b.buf, left)
		b.r = 0
		return
	}
	// Above the largest size class, nothing rounds n up. Ask for more than n, because a line that
	// grows by sliceStep would otherwise be moved at each step.
	if n > 1<<maxClassBits {
		n = max(n, min(2*len(left), b.size))
	}
	old := *b // old keeps the old block until the buffered bytes have been moved
	b.token = token{}
	b.take(max(n, b.want))
	b.w = copy(b.buf, left)
	b.r, b.base = 0, 0
	b.lent, b.window = false, false
	old.retire()
}
