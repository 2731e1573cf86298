package millrace

import (
	"errors"
	"io"
	"sync"
)

var errWriterReleased = errors.New("millrace: Writer used after Release")

// A Writer is a buffered writer that holds memory only while it has bytes to send. It has all
// methods of [bufio.Writer], with the same meaning and the same errors, and adds
// [Writer.WriteChain], which sends a [Chain] by reference.
//
// The Writer takes a block from its [Pool] for the first byte, and returns it in [Writer.Flush]. A
// Flush to a *net.TCPConn or *net.UnixConn sends buffered bytes and Chains with one writev. For
// other destinations see [Chain.WriteTo].
//
// After a failed write, the Writer holds no memory and returns the same error until Reset.
//
// A Writer is for one goroutine at a time. A Writer with unsent bytes must be flushed or released.
type Writer struct {
	// Invariants:
	//
	//   - If the Writer has no block, buf is nil. Otherwise buf is the usable part of draft, and
	//     len(buf) = size − queued().
	//   - The unsent bytes are the bytes of queue, followed by buf[:n].
	//   - If err is nil, 0 ≤ n ≤ len(buf) and Buffered() ≤ size.
	//   - If err is not nil, the Writer has no block and no queue, and n is the number of bytes
	//     that were not sent.
	buf []byte
	n   int
	err error

	dst   io.Writer
	size  int
	draft Draft
	queue *Chain // bytes before buf; nil if there are none
	pool  *Pool
}

// chainPool holds Chains for Writer.queue. An idle Writer holds no Chain.
var chainPool = sync.Pool{New: func() any { return new(Chain) }}

// NewWriter returns a Writer to dst that buffers up to 4096 bytes. The Writer borrows dst until it
// is released or reset. The caller must close dst.
func NewWriter(dst io.Writer) *Writer { return NewWriterSize(dst, defaultSize) }

// NewWriterSize returns a Writer to dst that buffers up to size bytes, or 4096 if size is not
// positive. If dst is a Writer with at least that size, NewWriterSize returns dst.
func NewWriterSize(dst io.Writer, size int) *Writer { return defaultPool.NewWriter(dst, size) }

// NewWriter is like [NewWriterSize], but the Writer takes its blocks from p. If dst is a Writer
// with at least that size, NewWriter returns dst, which keeps its own Pool.
func (p *Pool) NewWriter(dst io.Writer, size int) *Writer {
	if w, ok := dst.(*Writer); ok && w.size >= size {
		return w
	}
	if size <= 0 {
		size = defaultSize
	}
	return &Writer{dst: dst, size: size, pool: p}
}

// SetPool makes the Writer take its next blocks from p, as [Reader.SetPool] does.
func (w *Writer) SetPool(p *Pool) { w.pool = p }

// Reset drops the unsent bytes and the error, and makes w write to dst. It borrows dst until the
// next Reset or Release. After Reset, a zero Writer has the same size and Pool as a Writer from
// [NewWriter].
func (w *Writer) Reset(dst io.Writer) {
	if dst == w {
		return
	}
	w.drop()
	if w.size == 0 {
		w.size, w.pool = defaultSize, defaultPool
	}
	w.dst, w.n, w.err = dst, 0, nil
}

// Release drops the unsent bytes and returns the Writer's memory. It does not close the
// destination. After Release, every write fails, and only Reset makes w usable again. A Writer
// needs no Release after a Flush, even if the Flush failed.
func (w *Writer) Release() {
	w.drop()
	w.dst, w.n, w.err = nil, 0, errWriterReleased
}

func (w *Writer) drop() {
	w.buf = nil
	w.draft.Release()
	if w.queue != nil {
		w.queue.Release()
		chainPool.Put(w.queue)
		w.queue = nil
	}
}

func (w *Writer) queued() int {
	if w.queue == nil {
		return 0
	}
	return w.queue.Len()
}

func (w *Writer) reserve() {
	if w.buf == nil && w.err == nil {
		w.draft = w.pool.Get(w.size)
		w.buf = w.draft.Bytes()[:w.Available()]
	}
}

// Flush sends the unsent bytes, and returns the Writer's memory to its Pool.
func (w *Writer) Flush() error {
	if w.err != nil {
		return w.err
	}
	unsent := w.Buffered()
	var n int
	switch {
	case unsent == 0:
	case w.queue == nil:
		n, w.err = w.send(w.buf[:w.n])
	default:
		w.seal()
		var sent int64
		sent, w.err = w.queue.WriteTo(w.dst)
		n = int(sent)
	}
	w.drop()
	w.n = unsent - n
	return w.err
}

func (w *Writer) send(p []byte) (int, error) {
	n, err := w.dst.Write(p)
	return n, checkCount(n, len(p), err)
}

// checkCount checks the results n and err of a write of size bytes. For a short write without an
// error, it returns io.ErrShortWrite. It panics if n is negative or above size.
func checkCount(n, size int, err error) error {
	if n < 0 || n > size {
		panic(errNegativeWrite)
	}
	if n < size && err == nil {
		return io.ErrShortWrite
	}
	return err
}

// seal moves the bytes of buf to the queue.
func (w *Writer) seal() {
	if w.queue == nil {
		w.queue = chainPool.Get().(*Chain)
	}
	if w.n > 0 {
		r := w.draft.Cut(w.n)
		w.queue.Append(&r)
		w.buf, w.n = w.buf[w.n:], 0
	}
}

// copyMost is the maximum length in bytes of a Chain that WriteChain copies. A longer copy costs
// more than a separate piece of a writev.
const copyMost = 2 << 10

// WriteChain writes the bytes of c. It takes ownership of them and leaves c empty. The bytes are
// released when they have been sent or a write has failed.
//
// WriteChain copies c if c has at most 2 KiB and fits into the buffer. Such a copy costs less than
// sending the bytes separately.
//
// If the Writer then has at least [Writer.Size] unsent bytes, WriteChain flushes them.
func (w *Writer) WriteChain(c *Chain) error {
	if w.err != nil {
		c.Release()
		return w.err
	}
	n := c.Len()
	if n == 0 {
		return nil
	}
	if n <= min(copyMost, w.Available()) {
		w.reserve()
		w.n += c.CopyTo(w.buf[w.n:])
		c.Release()
		return nil
	}
	w.seal()
	w.queue.Merge(c)
	if w.Available() <= 0 {
		return w.Flush()
	}
	if w.buf != nil {
		w.buf = w.buf[:w.Available()]
	}
	return nil
}
