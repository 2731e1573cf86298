package chunk

import (
	"errors"
	"io"

	"github.com/millrace-io/millrace"
)

const (
	// maxEmptyReads is how often a source may return nothing and no error before io.ErrNoProgress, as in bufio.
	maxEmptyReads = 100

	// earlyPart of a block is copied out of it when it must be given early, so that a source that trickles does not
	// have the block of each chunk pinned, and the block is filled further.
	earlyPart = 8
)

// read reads once from the source. r.mu is held, and let go meanwhile.
func (r *Reader) read() {
	healthy := false
	defer func() {
		r.reading = false
		if !healthy {
			r.final = errBroken
		}
		if r.closed || r.final != nil {
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

// target returns where the source is to write: behind what has arrived, in a larger block if that fills this one. When
// the record is as long as it may be, target returns a byte outside the block, to see whether there is more: see
// overrun.
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

// blockFor returns the size of the block for a record of which have bytes are there, if its length is not known, or need.
// Doubling it bounds the copies of a record, however long it is, to two of each byte on the average.
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

// arrived takes in what the source wrote to p.
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
	case r.final != nil:
	case err != nil && !timeout:
		r.giveAll(err)
	default:
		if timeout && !r.woken {
			r.passing = err
		}
		hurry := r.waiting && !r.full && r.queue.len() == 0 || r.passing != nil
		if f.full() || hurry {
			r.give(hurry)
		}
	}
	if r.queue.len() > 0 || r.passing != nil || r.final != nil {
		r.notify()
	}
}

// overrun takes in the byte in probe. The record is too long then, unless it is one whose end shows only in what
// follows it, as that of a number in JSON does. For the Cutter to see both, the record is copied, once, at a point
// where most often nothing but an error is to come.
func (r *Reader) overrun() {
	f := &r.filling
	f.carry(r.pool, f.data(), r.limit+1)
	f.buf[f.end] = r.probe[0]
	f.end++
	switch {
	case r.copyOut():
		rest := f.data()
		f.carry(r.pool, rest, r.blockFor(len(rest), f.need))
	case r.final == nil:
		r.final = &RecordError{f.offset, r.limit, ErrTooLong}
	}
}

func isTimeout(err error) bool {
	if err == nil {
		return false
	}
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// cut returns how many bytes of what has arrived are a chunk, or 0.
func (r *Reader) cut() int {
	f := &r.filling
	have := f.end - f.start
	if have == f.asked || r.final != nil {
		return 0
	}
	end := r.cutter.Cut(f.look(r.size))
	switch {
	case end < 0:
		r.final = &RecordError{f.offset, r.limit, ErrNoRecord}
	case end > r.limit:
		r.final = &RecordError{f.offset, r.limit, ErrTooLong}
	case end > have:
		f.asked, f.need = have, end
	case end == 0:
		f.asked = have
	default:
		return end
	}
	return 0
}

// give hands over the whole records that have arrived: in a hurry all of them, and otherwise only as long as they fill
// chunks.
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

// giveAll hands over all that has arrived, because the source ended with err: whole records first.
func (r *Reader) giveAll(err error) {
	f := &r.filling
	if f.start == f.end {
		r.final = err
		return
	}
	whole := f.block.Freeze(f.end)
	defer whole.Release()
	for f.start < f.end {
		end, have := r.cut(), f.end-f.start
		if r.final != nil {
			return
		}
		if end < have && (end == 0 || have <= r.size) && err == io.EOF {
			switch isWhole := r.cutter.Whole(f.look(r.size)); {
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
	r.final = err
}

// push makes the next n bytes of data, which lie in whole, a chunk.
func (r *Reader) push(whole *millrace.Ref, n int) {
	f := &r.filling
	r.queue.push(whole.Slice(f.start, f.start+n), f.offset)
	f.cut(n)
}

// copyOut makes a chunk of the whole records that have arrived, without waiting for the block to be filled, by copying
// them. The source may be writing behind them meanwhile. It reports whether there were any.
func (r *Reader) copyOut() bool {
	f := &r.filling
	end := r.cut()
	if end == 0 {
		return false
	}
	block := r.pool.Get(end)
	r.queue.push(block.Freeze(copy(block.Bytes(), f.data()[:end])), f.offset)
	f.cut(end)
	return true
}
