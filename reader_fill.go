package millrace

import (
	"io"
	"time"
)

// fill makes at least one byte available when nothing is buffered, or returns the error that says why not.
// Whatever was in the block may be overwritten or given back, unless somebody has a share of it.
func (b *Reader) fill() error {
	tries := 0
	if b.steady && b.err == nil && b.reads > 0 {
		b.reads--
		n, err := b.src.Read(b.buf)
		b.r, b.w = 0, n
		if err == nil && uint(n-b.few) < uint(len(b.buf)-b.few) {
			b.small = 0
			return nil
		}
		b.w = 0
		b.received(n, len(b.buf), err)
		tries = 1
	}
	return b.fillSlow(tries)
}

// fillSlow is fill after so many reads that gave nothing, if nothing is buffered.
func (b *Reader) fillSlow(tries int) error {
	for ; b.r == b.w; tries++ {
		if b.err != nil && !b.behind() {
			return b.readErr()
		}
		if tries == maxEmptyReads {
			return io.ErrNoProgress
		}
		b.fillOnce()
	}
	return nil
}

// fillOnce asks the source once. Nothing is buffered; afterwards something is, or b.err is set, or the source gave
// nothing.
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
		b.more = nil // what was put back has been read
		b.receive()
	}
}

// advance makes the first piece of ahead the window.
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

// receive reads from the source once into the room that makeRoom finds. Nothing is buffered.
func (b *Reader) receive() {
	if b.sock != nil {
		b.sock.receive()
		return
	}
	b.readInto(b.makeRoom())
}

// readInto reads into p, which is buf[w:], once.
func (b *Reader) readInto(p []byte) {
	if b.reads == 0 {
		b.probe(p)
		return
	}
	b.reads--
	n, err := b.src.Read(p)
	b.received(n, len(p), err)
}

// probe is a read that is timed.
func (b *Reader) probe(p []byte) {
	b.reads = probeEvery
	began := time.Now()
	n, err := b.src.Read(p)
	switch slow := b.mayWait() || time.Since(began) > quickRead; {
	case slow && b.quick && b.probed == probes:
		b.probed, b.reads, b.onward = probes-1, 0, 0 // once may be the scheduler: look again
	case slow:
		b.probed, b.quick, b.onward, b.steady = 0, false, 0, false // another block size may be the right one now
	default:
		b.probed = min(b.probed+1, probes)
		if b.probed == probes && b.more == nil {
			b.quick, b.reads, b.onward = true, seldom, seldom
			b.want = max(b.want, quickBlock)
		}
	}
	b.received(n, len(p), err)
}

// mayWait reports whether src is of a kind that waits, however fast it has been: a connection, or a pipe between two
// goroutines.
func (b *Reader) mayWait() bool {
	switch b.src.(type) {
	case interface{ SetReadDeadline(time.Time) error }, *io.PipeReader:
		return true
	}
	return false
}

// readOn reads behind what is buffered until there are n bytes, for which there is room, as long as a source that never
// waits gives some each time. The read that is to be timed is left to fill.
func (b *Reader) readOn(n int) {
	src, buf, w, want := b.src, b.buf, b.w, b.r+n
	for w < want && b.reads > 0 {
		b.reads--
		p := buf[w:]
		m, err := src.Read(p)
		if err != nil || uint(m-1) >= uint(len(p)) {
			b.received(m, len(p), err)
			return
		}
		w += m
		b.w = w // each time, because the source may panic
	}
}

// received takes note of what one read into buf[w:] gave.
func (b *Reader) received(n, room int, err error) {
	if n < 0 || n > room {
		panic(errBadCount)
	}
	b.w += n
	b.fail(err)
	if n > 0 {
		b.observe(n, room)
	}
}

// makeRoom returns memory behind w to read into. Nothing is buffered. While nobody has a share of the block it is
// started over in place, which touches neither the pool nor a counter.
func (b *Reader) makeRoom() []byte {
	if b.parked {
		b.rejoin()
	}
	if b.blk != nil {
		if !b.window && b.lent && b.blk.sole(b.stock) {
			b.lent = false // all those who had shares have released them
			b.arrived += b.w
		}
		switch {
		case b.window, !b.lent && len(b.buf) < b.want, !b.lent && len(b.buf) > 2*b.want:
			b.retire()
		case !b.lent:
			if invariants {
				poison(b.buf[:b.w])
			}
			b.r, b.w = 0, 0
		case len(b.buf)-b.w < minTail:
			b.adapt()
			b.retire()
		}
	}
	if b.blk == nil {
		b.take(b.want)
	}
	b.few = len(b.buf) / 8
	if b.quick && len(b.buf) <= quickBlock {
		b.few = 1
	}
	b.steady = !invariants && !b.lent && b.sock == nil && b.more == nil
	return b.buf[b.w:]
}

// park gives up every share of the block before waiting for the socket. If others have shares, the block is
// remembered: when it is still theirs afterwards, the room behind their bytes is used instead of another block.
func (b *Reader) park() {
	if b.blk == nil || b.parked {
		return
	}
	if !b.lent || b.window {
		b.retire()
		return
	}
	b.blk.setUsed(len(b.buf)) // nobody else may write behind their bytes meanwhile
	b.parked = true
	b.token.close()
	b.blk.release(b.gen, b.stock)
}

// rejoin takes up a remembered block again, or forgets it.
func (b *Reader) rejoin() {
	if !b.blk.rejoin(b.gen, stock) {
		b.retire()
		return
	}
	b.stock = stock
	b.parked = false
	b.token.open(b.blk, 1)
}

// extend makes at least one more byte available, in one piece with those that are buffered and with room for n in all,
// or sets b.err. There are fewer than n, and no error is pending.
func (b *Reader) extend(n int) {
	for range maxEmptyReads {
		before := b.w - b.r
		b.extendOnce(n)
		if b.w-b.r > before || b.err != nil && !b.behind() {
			return
		}
	}
	b.fail(io.ErrNoProgress)
}

func (b *Reader) extendOnce(n int) {
	if b.r == b.w {
		b.fillOnce() // nothing to stay in one piece with
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

// need sees to it that n bytes are buffered in one piece, or returns the error that says why not and leaves what there
// is. n ≤ size.
func (b *Reader) need(n int) error {
	for b.w-b.r < n {
		if b.err != nil && !b.behind() {
			return midway(b.readErr(), b.w-b.r)
		}
		b.extend(n)
	}
	return nil
}

// gather copies bytes from ahead behind those that are buffered, so that there are n, or as many as have arrived.
func (b *Reader) gather(n int) {
	m := min(n-(b.w-b.r), b.more.ahead.Len())
	b.contiguous(n)
	b.more.ahead.CopyTo(b.buf[b.w : b.w+m])
	b.w += m
	b.more.ahead.Discard(m)
}

// contiguous sees to it that the block has room for n bytes from r on, moving what is buffered to the block's start or to
// another block where it must. Something is buffered, but fewer than n bytes.
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
	if n > 1<<maxClassBits { // which no size class rounds up: a line that grows by sliceStep would be moved for each
		n = max(n, min(2*len(left), b.size))
	}
	old := *b // holds the block whose bytes are moved until they have been
	b.token = token{}
	b.take(max(n, b.want))
	b.w = copy(b.buf, left)
	b.r, b.base = 0, 0
	b.lent, b.window, b.steady = false, false, false
	old.retire()
}
