package chunk

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
)

// A Reader reads a source in chunks of pooled memory, ahead of whoever works on them, and cuts them where records end.
//
// Put together, the chunks are the source, byte for byte. Each begins where a record begins and ends where one ends,
// with as many whole records as fit into [Size]; a record that is longer is a chunk by itself, up to [MaxRecord]. While
// Next waits, a chunk is given as soon as one whole record has arrived, unless the Reader is [Full]. Only the last
// chunk may end within a record, when the source did or failed there; what is left of it then is a chunk of its own,
// and the error comes next.
//
// A source that may hang is read by a goroutine. It starts with the first Next, because a Reader that nobody reads should
// neither take from its source nor have anything to close, and from then on is at most [Depth] chunks ahead. A regular
// file or memory is read in Next itself, without one: waking another goroutine costs more than copying from the page
// cache. If both reading the file and working on a chunk prove slow, the file is read ahead as well. (Put it into a
// struct{ io.Reader } to have it read ahead from the start.)
//
// The goroutine ends with the source, with Close, and when the ctx of a Next or of Chunks ends. A Reader that has not
// reached the end of its source must be closed.
//
// Methods are for one goroutine at a time, except Close, which any goroutine may call at any time.
type Reader struct {
	size, depth, limit int
	cutter             Cutter
	pool               *millrace.Pool
	full, owned        bool
	tuner              *Tuner // moves size and depth; or nil

	src   io.Reader
	waker waker // src, or nil
	at    int64 // where the last chunk begins

	wake chan struct{} // has one after something was done for a Next that waits
	mu   sync.Mutex    // guards what follows; src.Read and src.Close are called without it
	room sync.Cond     // signalled when the goroutine may have to go on or to end

	filling filling
	queue   queue
	cur     item // what Read and WriteTo have begun
	used    int  // bytes of cur that are done with, 0 ≤ used ≤ cur.ref.Len()
	kind    sourceKind
	pace    pace
	empty   int // reads in a row that gave nothing

	passing error // comes after the queue, once
	final   error // comes after the queue and passing, for ever
	fault   any   // what src.Read panicked with on the goroutine
	probe   [1]byte

	running  bool          // the goroutine is there
	done     chan struct{} // closed when it is not, if it ever was
	stopping bool          // it is to end
	leaving  bool          // it ends as it should
	reading  bool          // src.Read is under way
	woken    bool          // src has a deadline in the past that is the Reader's
	waiting  bool          // Next waits
	closed   bool
}

// NewReader returns a Reader of src. It borrows src until Close, or, with [CloseSource], takes ownership of it.
// Nothing is read before the first call of Next, Chunks, Read or WriteTo.
func NewReader(src io.Reader, opts ...ReaderOption) *Reader {
	r := &Reader{
		size: defaultSize, depth: defaultDepth, limit: defaultMaxRecord,
		cutter: anywhere{}, pool: millrace.DefaultPool,
		src: src, waker: wakerOf(src), kind: kindOf(src),
		wake: make(chan struct{}, 1),
	}
	r.room.L = &r.mu
	for _, opt := range opts {
		opt(r)
	}
	r.retune()
	r.limit = max(r.limit, r.size, r.tuner.largest())
	if _, ok := src.(io.Closer); r.owned && !ok {
		panic("chunk: CloseSource of a source that is no io.Closer")
	}
	return r
}

// Next returns the next chunk, which the caller owns and releases. It is never empty.
//
// It waits no longer than until ctx ends, and then returns ctx's error. Nothing is lost: what has arrived stays, and
// the next Next goes on. An error of the source comes after all that arrived before it, and so does io.EOF; it is
// returned by every call from then on. But an error whose Timeout method reports true, such as that of a deadline, is
// returned once: the record that it interrupted is kept, and the next Next reads on. A record that cannot be cut is a
// [*RecordError]. If src.Read panics, Next panics with the same value. After an error there is nothing to release.
//
// A source that has SetReadDeadline is woken by a deadline in the past when ctx ends, and has none afterwards: set yours
// again.
func (r *Reader) Next(ctx context.Context) (millrace.Ref, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return millrace.Ref{}, err
	}
	it := r.cur
	r.at = it.offset + int64(r.used)
	if r.used > 0 {
		it.ref = r.cur.ref.Slice(r.used, r.cur.ref.Len())
		r.cur.ref.Release()
	}
	r.cur, r.used = item{}, 0
	return it.ref, nil
}

// Offset returns where in the source the chunk that Next or Chunks gave last begins, in bytes from where the Reader
// began to read. Read and WriteTo do not change it.
func (r *Reader) Offset() int64 { return r.at }

// load makes sure that cur has something. r.mu is held, and let go while it waits.
func (r *Reader) load(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			r.interrupt()
			return err
		}
		if v := r.fault; v != nil {
			r.fault = nil
			panic(v)
		}
		if r.closed {
			return ErrClosed
		}
		if r.kind == sourceWaits {
			r.readAhead()
		}
		switch {
		case r.cur.ref.Len() > 0:
			return nil
		case r.queue.len() > 0:
			r.cur = r.queue.pop()
			r.tuner.gave(r.cur.ref.Len())
			r.room.Signal()
			if r.kind == sourceFile {
				r.pace.leave()
			}
			return nil
		case r.passing != nil:
			err := r.passing
			r.passing = nil
			return err
		case r.final != nil:
			r.interrupt() // what Next has copied out may have shown it while the source is being read
			return r.final
		case r.kind != sourceWaits:
			r.readHere()
		case !r.full && r.copyOut():
		case r.final == nil:
			r.tuner.sourceLate()
			r.wait(ctx)
		}
	}
}

// readHere reads once, on the goroutine of Next. r.mu is held.
func (r *Reader) readHere() {
	if r.reading {
		panic("chunk: Next while another goroutine is in it")
	}
	if r.kind == sourceMemory || r.pace.left.IsZero() {
		r.read()
		return
	}
	begun := time.Now()
	work := begun.Sub(r.pace.left)
	r.pace.left = time.Time{}
	r.read()
	if r.pace.observe(time.Since(begun), work) {
		r.kind = sourceWaits
	}
}

// wait waits until there may be something to give, or until ctx ends. r.mu is held, and let go meanwhile.
func (r *Reader) wait(ctx context.Context) {
	if r.waiting {
		panic("chunk: Next while another goroutine is in it")
	}
	r.waiting = true
	r.mu.Unlock()
	select {
	case <-r.wake:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.waiting = false
}

// notify ends the wait of Next. One that comes too late makes the next wait look again, and does no more. r.mu is held.
func (r *Reader) notify() {
	if !r.waiting {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
