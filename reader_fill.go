package millrace

import "io"

// fill makes at least one byte available or returns an error. buf must be empty. Bytes that were
// already read become invalid, unless they are in use outside the Reader.
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

// fillRange is like fill, but up to n-1 bytes may be in buf already. Over a plain io.Reader, and if
// the block has room, it reads until n bytes are buffered, or until an error or an empty read.
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

// fillOnce reads from the source once. buf must be empty. It may get no bytes and no error.
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

// advance releases the Reader's block and takes the first piece of b.more.ahead as the buffer.
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

// receive reads from src once. buf must be empty.
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

// probe waits for one byte from src without a block. The next read uses a block even if it waits,
// because a TLS record seldom contains a single byte.
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
	b.received(n, len(p), err)
}

// received records the results of a read into buf[w:w+size].
func (b *Reader) received(n, size int, err error) {
	if n < 0 || n > size {
		panic(errBadCount)
	}
	b.w += n
	b.err = err
	if n > 0 {
		b.measure(n)
	}
}

// makeRoom returns memory for the next read: the whole block if only the Reader uses it, its free
// end, or a new block if these do not suit. buf must be empty.
func (b *Reader) makeRoom() []byte {
	if b.parked {
		b.rejoin()
	}
	if b.lent && !b.window && b.blk.sole(b.stock) {
		b.lent = false // the others have released all their shares
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

// park releases the Reader's block before a wait for the source. If a Chain or Ref also uses the
// block, rejoin may take it back after the wait.
func (b *Reader) park() {
	if b.blk == nil || b.parked {
		return
	}
	if !b.lent || b.window {
		b.retire()
		return
	}
	b.blk.setUsed(len(b.buf)) // until then, holders of shares must not append to their bytes
	b.parked = true
	b.token.close()
	b.blk.release(b.gen, b.stock)
}

// rejoin takes back the block that park released, if it is still in use. Otherwise b.blk is nil.
func (b *Reader) rejoin() {
	if !b.blk.rejoin(b.gen, stock) {
		b.retire()
		return
	}
	b.stock = stock
	b.parked = false
	b.token.open(b.blk, 1)
}

// extend appends at least one byte to buf, or sets b.err. Repeated calls buffer n contiguous bytes.
// It requires b.w-b.r < n, and that b.err is nil or b.behind() is true.
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

// ensure buffers n contiguous bytes, at most b.size. After an error, the buffered bytes stay.
func (b *Reader) ensure(n int) error {
	for b.w-b.r < n {
		if b.err != nil && !b.behind() {
			return midway(b.readErr(), b.w-b.r)
		}
		b.extend(n)
	}
	return nil
}

// gather moves bytes from b.more.ahead to buf, until n bytes are buffered or no more are ahead.
func (b *Reader) gather(n int) {
	m := min(n-(b.w-b.r), b.more.ahead.Len())
	b.contiguous(n)
	b.more.ahead.CopyTo(b.buf[b.w : b.w+m])
	b.w += m
	b.more.ahead.Discard(m)
}

// contiguous makes room for n bytes, with the buffered ones. It requires 0 < b.w-b.r < n.
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
	// A block above the largest size class has exactly the requested size. Request more than n
	// bytes. Otherwise, ReadSlice would copy a long line to another block each time it adds
	// sliceStep bytes.
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
