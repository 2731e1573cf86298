package chunk

import (
	"errors"
	"io"

	"github.com/millrace-io/millrace"
)

const (
	// maxEmptyReads is the number of consecutive reads without bytes or an error after which the
	// Reader fails with io.ErrNoProgress, as in bufio.
	maxEmptyReads = 100

	// If the complete records fill at most 1/earlyPart of a block, the Reader copies them to a
	// small block and continues to fill the large block. Small chunks from a slow source therefore
	// do not keep large blocks in use.
	earlyPart = 8
)

// read calls src.Read once. The caller must hold r.mu, but r.mu is unlocked during src.Read.
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
	p := r.readTarget()
	n, err := r.readUnlocked(p)
	if n < 0 || n > len(p) {
		panic("chunk: the source returned an impossible count from Read")
	}
	if !r.closed {
		r.handleRead(p, n, err)
	}
	healthy = true
}

func (r *Reader) readUnlocked(p []byte) (n int, err error) {
	r.reading = true
	r.mu.Unlock()
	defer r.mu.Lock()
	return r.src.Read(p)
}

func (r *Reader) retune() {
	if r.tuner != nil {
		now := r.tuner.setting.Load()
		r.size, r.depth = now.ChunkSize, now.Depth
	}
}

// readTarget returns the memory for the next Read of the source. If the block is full, readTarget
// first copies the incomplete record to a new block with room for more bytes.
//
// If the incomplete record already has the maximum length (r.limit), readTarget returns r.probe
// instead, which has room for one byte.
func (r *Reader) readTarget() []byte {
	f := &r.filling
	if f.start == f.end {
		f.start, f.end = 0, 0
	}
	if have := f.end - f.start; f.full() {
		if have == r.limit {
			return r.probe[:]
		}
		f.replaceBlock(r.pool, f.data(), r.blockFor(have, f.need))
	}
	return f.buf[f.end:]
}

// blockFor returns the size of a new block for an incomplete record with n bytes so far. The
// argument length is the record's complete length, or 0 if it is unknown.
func (r *Reader) blockFor(n, length int) int {
	if length > r.size {
		return length
	}
	size := r.size
	for size <= n {
		size *= 2
	}
	return min(size, r.limit)
}

func (r *Reader) handleRead(p []byte, n int, err error) {
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
		r.enqueueAll(err)
	default:
		if timeout && !r.woken {
			r.pendingErr = err
		}
		hurry := r.waiting && len(r.queue) == 0 || r.pendingErr != nil
		if f.full() || hurry {
			r.enqueue(hurry)
		}
	}
	if len(r.queue) > 0 || r.pendingErr != nil || r.finalErr != nil {
		r.notify()
	}
}

// overrun handles the byte in r.probe, the first byte after a record of the maximum length. Usually
// the record is too long, which is an error.
//
// But some Cutters need the next byte to find the end of a record: JSON must see the byte after a
// number. overrun therefore first passes the record and the byte to the Cutter.
func (r *Reader) overrun() {
	f := &r.filling
	f.replaceBlock(r.pool, f.data(), r.limit+1)
	f.buf[f.end] = r.probe[0]
	f.end++
	switch {
	case r.copyOut():
		rest := f.data()
		f.replaceBlock(r.pool, rest, r.blockFor(len(rest), f.need))
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

// cut returns the length of the next chunk, or 0 if no whole record has arrived. If the record is
// invalid or too long, it sets r.finalErr.
func (r *Reader) cut() int {
	f := &r.filling
	have := f.end - f.start
	if have == f.asked || r.finalErr != nil {
		return 0
	}
	end := r.cutter.cut(f.cutterInput(r.size))
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

// enqueue cuts chunks of whole records from the block and adds them to the queue. If hurry is
// false, enqueue stops when fewer than r.size bytes are left in the block.
func (r *Reader) enqueue(hurry bool) {
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
		f.replaceBlock(r.pool, rest, r.blockFor(len(rest), f.need))
		return
	}
	f.release()
}

// enqueueAll adds all bytes in the block to the queue, after the source has returned the error err.
func (r *Reader) enqueueAll(err error) {
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
			switch isWhole := r.cutter.whole(f.cutterInput(r.size)); {
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

// push adds the next n bytes of the block to the queue. The argument frozen is a Ref for the whole
// block.
func (r *Reader) push(frozen *millrace.Ref, n int) {
	f := &r.filling
	r.queue = append(r.queue, frozen.Slice(f.start, f.start+n))
	f.cut(n)
}

// copyOut copies the next chunk to a new block and adds it to the queue. It returns false if no
// whole record has arrived. A Read into the old block may be running.
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

// A filling is the block of memory into which the Reader reads the source.
//
// Invariants:
//
//	0 ≤ start ≤ end ≤ len(buf)
//	buf[start:end] has the bytes that are not in a chunk yet; it begins with the start of a record
//	buf == nil: there is no block
//	buf != nil: buf is the memory of the block; the source writes to buf[end:]
type filling struct {
	block      millrace.Draft
	buf        []byte
	start, end int

	offset int64 // offset of buf[start] in the source
	scan   scan
	// The number of bytes in which the Cutter has found no whole record, or 0. The Reader calls the
	// Cutter again after more bytes have arrived.
	asked int
	need  int // length of the first record, or 0 if it is not known
}

func (f *filling) data() []byte { return f.buf[f.start:f.end] }

func (f *filling) full() bool { return f.end == len(f.buf) }

func (f *filling) cutterInput(limit int) *scan {
	f.scan.data, f.scan.limit = f.data(), limit
	return &f.scan
}

func (f *filling) cut(n int) {
	f.start += n
	f.offset += int64(n)
	f.scan.data, f.scan.seen = nil, max(f.scan.seen-n, 0)
	f.asked, f.need = 0, 0
}

// replaceBlock replaces the block with a new one that begins with rest. size must be greater than
// len(rest).
func (f *filling) replaceBlock(p *millrace.Pool, rest []byte, size int) {
	block := p.Get(size)
	f.buf = block.Bytes()[:size]
	f.start, f.end = 0, copy(f.buf, rest)
	f.block.Release()
	f.block = block
}

func (f *filling) release() {
	f.block.Release()
	f.buf, f.start, f.end = nil, 0, 0
}
