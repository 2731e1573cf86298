package chunk

import (
	"errors"
	"io"

	"github.com/millrace-io/millrace"
)

const (
	// maxEmptyReads is how many reads may return neither bytes nor an error. After that many, a
	// read fails with io.ErrNoProgress, as in bufio.
	maxEmptyReads = 100

	// earlyPart decides which records are copied out of a block when they must be returned early.
	// Records are copied if they fill at most 1/earlyPart of the block. The Reader then continues
	// to fill the block. Without the copy, each small chunk of a slow source would keep a whole
	// block in use.
	earlyPart = 8
)

// read reads once from the source. r.mu is held, and released during the read.
func (r *Reader) read() {
	healthy := false
	defer func() {
		r.reading = false
		if !healthy {
			r.finalErr = errBroken
		}
		if r.closed || r.finalErr != nil {
			r.filling.release()
		}
	}()
	r.retune()
	p := r.target()
	n, err := r.readUnlocked(p)
	if n < 0 || n > len(p) {
		panic("chunk: the source returned an impossible count from Read")
	}
	if !r.closed {
		r.arrived(p, n, err)
	}
	healthy = true
}

func (r *Reader) readUnlocked(p []byte) (n int, err error) {
	r.reading = true
	r.mu.Unlock()
	defer r.mu.Lock()
	return r.src.Read(p)
}

// retune applies the Tuner's setting. r.mu is held. It does not change a block that is being
// filled.
func (r *Reader) retune() {
	if r.tuner != nil {
		now := r.tuner.setting.Load()
		r.size, r.depth = now.ChunkSize, now.Depth
	}
}

// target returns the memory for the source's next bytes, after those that have arrived. If those
// fill the block, target takes a larger block. If the record has reached its limit, target returns
// a byte outside of the block instead. overrun uses that byte to find out whether the record
// continues.
func (r *Reader) target() []byte {
	f := &r.filling
	if f.start == f.end {
		f.start, f.end = 0, 0
	}
	if have := f.end - f.start; f.full() {
		if have == r.limit {
			return r.probe[:]
		}
		f.carry(r.pool, f.data(), r.blockFor(have, f.need))
	}
	return f.buf[f.end:]
}

// blockFor returns the size of the block for a record. need is the record's length, if that is
// known. have is the number of its bytes that have arrived. If the length is not known, the size
// doubles until it is more than have. Because of the doubling, each byte of a record is copied at
// most twice on average, however long the record is.
func (r *Reader) blockFor(have, need int) int {
	if need > r.size {
		return need
	}
	size := r.size
	for size <= have {
		size *= 2
	}
	return min(size, r.limit)
}

// arrived processes the bytes that the source wrote to p.
func (r *Reader) arrived(p []byte, n int, err error) {
	f := &r.filling
	if r.empty++; n > 0 || err != nil {
		r.empty = 0
	}
	switch {
	case n > 0 && &p[0] == &r.probe[0]:
		r.overrun()
	case n > 0:
		f.end += n
	}
	if r.empty >= maxEmptyReads {
		err = io.ErrNoProgress
	}
	switch timeout := isTimeout(err); {
	case r.finalErr != nil:
	case err != nil && !timeout:
		r.giveAll(err)
	default:
		if timeout && !r.woken {
			r.pendingErr = err
		}
		hurry := r.waiting && len(r.queue) == 0 || r.pendingErr != nil
		if f.full() || hurry {
			r.give(hurry)
		}
	}
	if len(r.queue) > 0 || r.pendingErr != nil || r.finalErr != nil {
		r.notify()
	}
}

// overrun processes the byte in probe, the first byte beyond the limit. The record is then too
// long, with one exception: some Cutters need the next byte to see a record's end, as with a number
// in JSON. overrun therefore copies the record once, so that the Cutter sees it together with that
// byte. Usually the result is only an error.
func (r *Reader) overrun() {
	f := &r.filling
	f.carry(r.pool, f.data(), r.limit+1)
	f.buf[f.end] = r.probe[0]
	f.end++
	switch {
	case r.copyOut():
		rest := f.data()
		f.carry(r.pool, rest, r.blockFor(len(rest), f.need))
	case r.finalErr == nil:
		r.finalErr = &RecordError{f.offset, r.limit, ErrTooLong}
	}
}

func isTimeout(err error) bool {
	if err == nil {
		return false
	}
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// cut returns the number of arrived bytes that form a chunk, or 0.
func (r *Reader) cut() int {
	f := &r.filling
	have := f.end - f.start
	if have == f.asked || r.finalErr != nil {
		return 0
	}
	end := r.cutter.cut(f.look(r.size))
	switch {
	case end < 0:
		r.finalErr = &RecordError{f.offset, r.limit, ErrNoRecord}
	case end > r.limit:
		r.finalErr = &RecordError{f.offset, r.limit, ErrTooLong}
	case end > have:
		f.asked, f.need = have, end
	case end == 0:
		f.asked = have
	default:
		return end
	}
	return 0
}

// give puts whole records that have arrived into the queue. If hurry is set, it puts all of them
// there. Otherwise it stops when the rest no longer fills a chunk.
func (r *Reader) give(hurry bool) {
	f := &r.filling
	if f.end-f.start <= len(f.buf)/earlyPart && r.copyOut() {
		return
	}
	end := r.cut()
	if end == 0 {
		return
	}
	whole := f.block.Freeze(f.end)
	defer whole.Release()
	for end > 0 {
		r.push(&whole, end)
		if end = 0; hurry || f.end-f.start >= r.size {
			end = r.cut()
		}
	}
	if rest := f.data(); len(rest) > 0 {
		f.carry(r.pool, rest, r.blockFor(len(rest), f.need))
		return
	}
	f.release()
}

// giveAll puts all bytes that have arrived into the queue, whole records first. It is called when
// the source ended with err.
func (r *Reader) giveAll(err error) {
	f := &r.filling
	if f.start == f.end {
		r.finalErr = err
		return
	}
	whole := f.block.Freeze(f.end)
	defer whole.Release()
	for f.start < f.end {
		end, have := r.cut(), f.end-f.start
		if r.finalErr != nil {
			return
		}
		if end < have && (end == 0 || have <= r.size) && err == io.EOF {
			switch isWhole := r.cutter.whole(f.look(r.size)); {
			case isWhole:
				end = have
			case end == 0:
				err = &RecordError{f.offset, r.limit, io.ErrUnexpectedEOF}
			}
		}
		if end == 0 {
			end = have
		}
		r.push(&whole, end)
	}
	r.finalErr = err
}

// push makes the next n bytes of data, which lie in whole, a chunk of the queue.
func (r *Reader) push(whole *millrace.Ref, n int) {
	f := &r.filling
	r.queue = append(r.queue, whole.Slice(f.start, f.start+n))
	f.cut(n)
}

// copyOut copies the whole records that have arrived to a new chunk, without waiting for the block
// to be filled. Meanwhile the source may be writing to the block after these records. copyOut
// reports whether there were any.
func (r *Reader) copyOut() bool {
	f := &r.filling
	end := r.cut()
	if end == 0 {
		return false
	}
	block := r.pool.Get(end)
	r.queue = append(r.queue, block.Freeze(copy(block.Bytes(), f.data()[:end])))
	f.cut(end)
	return true
}

// filling is the block into which the source is read.
//
// Invariants:
//
//	0 ≤ start ≤ end ≤ len(buf)
//	buf[start:end] has arrived, begins where a record begins and has not been given
//	buf == nil: there is no block
//	buf != nil: buf is the start of the block's memory; buf[end:] is for the source to write to
type filling struct {
	block      millrace.Draft
	buf        []byte
	start, end int

	offset int64 // offset of buf[start] in the source
	scan   scan  // the Cutter's state of buf[start:end]
	// The number of bytes that had arrived when the Cutter last found no end. It is 0 if the Cutter
	// was not called since the last cut.
	asked int
	need  int // length of the first record; 0 while it is not known
}

// data returns the bytes that have arrived and have not been returned.
func (f *filling) data() []byte { return f.buf[f.start:f.end] }

// full reports whether the source has no room left to write to.
func (f *filling) full() bool { return f.end == len(f.buf) }

// look returns the scan with the current bytes and limit, for the Cutter.
func (f *filling) look(limit int) *scan {
	f.scan.data, f.scan.limit = f.data(), limit
	return &f.scan
}

// cut removes the first n bytes of data.
func (f *filling) cut(n int) {
	f.start += n
	f.offset += int64(n)
	f.scan.data, f.scan.seen = nil, max(f.scan.seen-n, 0)
	f.asked, f.need = 0, 0
}

// carry takes a block of size bytes, more than len(rest), and starts it with rest.
func (f *filling) carry(p *millrace.Pool, rest []byte, size int) {
	block := p.Get(size)
	f.buf = block.Bytes()[:size]
	f.start, f.end = 0, copy(f.buf, rest)
	f.block.Release()
	f.block = block
}

// release releases the block. Its bytes are lost.
func (f *filling) release() {
	f.block.Release()
	f.buf, f.start, f.end = nil, 0, 0
}
