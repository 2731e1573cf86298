package chunk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
)

const defaultMaxRecord = 1 << 20 // see MaxRecord

// A Reader reads a source in chunks of pooled memory, ahead of the code that processes them, and
// cuts the chunks where records end.
//
// Joined together, the chunks are the source, byte for byte. Each chunk begins where a record
// begins and ends where a record ends. It has as many whole records as fit into [Size]. A longer
// record, up to [MaxRecord], is a separate chunk. A Next that waits returns a chunk as soon as one
// whole record has arrived. If the source ends or fails within a record, the incomplete record is
// the last chunk, and the error is returned after it.
//
// If the source's Read may wait, a goroutine reads the source. The goroutine starts with the first
// Next, and from then on is at most [Depth] chunks ahead. Memory and regular files are read in Next
// itself, because the kernel reads a file ahead, and waking another goroutine costs more than
// copying from the page cache. (To have a file read by a goroutine, wrap it in a struct{ io.Reader
// }.)
//
// The goroutine ends when the source ends, when Close is called, or when the ctx of a Next or of
// Chunks ends. A Reader that has not reached the end of its source must be closed.
//
// Methods are for one goroutine at a time, except Close, which any goroutine may call at any time.
type Reader struct {
	size, depth, limit int
	cutter             Cutter
	pool               *millrace.Pool
	tuner              *Tuner // sets size and depth; or nil

	src     io.Reader
	waker   waker // the waker of src, or nil
	mayHang bool  // a goroutine reads src

	wake chan struct{} // signalled when a Next that waits should check again
	mu   sync.Mutex    // guards the fields below; src.Read is called without it
	room sync.Cond     // signalled when the goroutine may have to continue or end

	filling filling
	queue   []millrace.Ref // chunks that wait for Next, in order
	empty   int            // consecutive reads that returned nothing

	pendingErr error // error to return once, after the queue is empty
	finalErr   error // error to return forever, after the queue and pendingErr
	fault      any   // value of a panic of src.Read on the goroutine
	probe      [1]byte

	running  bool          // the goroutine exists
	done     chan struct{} // closed when the goroutine ends; nil if there was none
	stopping bool          // the goroutine has been told to end
	leaving  bool          // the goroutine returned normally, without a panic
	reading  bool          // a call of src.Read is running
	woken    bool          // the Reader has set a deadline in the past on src
	waiting  bool          // Next waits
	closed   bool
}

// A ReaderOption changes the Reader that [NewReader] returns. An option panics if its value is out
// of range.
type ReaderOption func(*Reader)

// Size sets the largest number of bytes in a chunk, unless a single record is longer. The maximum
// is 1 GiB. The default is 64 KiB. Reading that much costs less than processing it, and the bytes
// stay in the processor's second-level cache meanwhile. Choose a power of two: blocks have such
// sizes, so any other Size wastes the rest of each block.
func Size(bytes int) ReaderOption {
	inRange("Size", bytes, mostBytes)
	return func(r *Reader) { r.size = bytes }
}

// Depth sets how many chunks may be read ahead of those that Next has returned. The chunk that is
// being read counts, too. The chunks hold up to Depth blocks of Size, and larger ones for longer
// records. The default is 3. Next then waits for the source only if the source is late by more time
// than the work on three chunks takes. With the default sizes, a Reader holds up to 192 KiB.
func Depth(chunks int) ReaderOption {
	inRange("Depth", chunks, mostBytes)
	return func(r *Reader) { r.depth = chunks }
}

// At cuts the chunks where records end. c finds the ends. Without At the chunks are cut anywhere.
func At(c Cutter) ReaderOption {
	if c == nil {
		panic("chunk: At(nil)")
	}
	return func(r *Reader) { r.cutter = c }
}

// MaxRecord sets the largest number of bytes of a record, its end included. For a longer record the
// Reader fails with a [RecordError]. The maximum is 1 GiB. The default is 1 MiB, the largest block
// that a Pool keeps. No intended record is that long. A peer that sends more has forgotten the end,
// or wants to exhaust the memory. A record that fits into a chunk is never refused, so a limit
// below Size has the effect of Size.
func MaxRecord(bytes int) ReaderOption {
	inRange("MaxRecord", bytes, mostBytes)
	return func(r *Reader) { r.limit = bytes }
}

// TunedBy lets t control the Reader, instead of [Size] and [Depth]. Each block has the chunk size
// that t has set when the block is allocated. The bytes that the Reader returns count as work done.
func TunedBy(t *Tuner) ReaderOption {
	if t == nil {
		panic("chunk: TunedBy(nil)")
	}
	return func(r *Reader) { r.tuner = t }
}

func inRange(name string, n, most int) {
	if n < 1 {
		panic(fmt.Sprintf("chunk: %s(%d) is below 1", name, n))
	}
	if n > most {
		panic(fmt.Sprintf("chunk: %s(%d) is above %d", name, n, most))
	}
}

// NewReader returns a Reader of src, which it borrows until Close. Nothing is read before the first
// call of Next or Chunks.
func NewReader(src io.Reader, opts ...ReaderOption) *Reader {
	r := &Reader{
		size: defaultSize, depth: defaultDepth, limit: defaultMaxRecord, cutter: anywhere{},
		pool: millrace.DefaultPool(),
		src:  src, waker: wakerOf(src), mayHang: mayHang(src),
		wake: make(chan struct{}, 1),
	}
	r.room.L = &r.mu
	for _, opt := range opts {
		opt(r)
	}
	r.retune()
	r.limit = max(r.limit, r.size)
	if r.tuner != nil {
		r.limit = max(r.limit, r.tuner.rules.most.ChunkSize)
	}
	return r
}

// Next returns the next chunk, which the caller owns and releases. It is never empty.
//
// Next waits at most until ctx ends, and then returns ctx's error. Nothing is lost: bytes that have
// arrived stay, and the next call continues. An error of the source, like io.EOF, is returned after
// all bytes that arrived before it. Every later call returns it again. An error whose Timeout
// method reports true, such as that of a deadline, is an exception: it is returned once. The Reader
// then keeps the incomplete record, and the next Next continues to read. A record that cannot be
// cut is a [*RecordError]. If src.Read panics, Next panics with the same value. After an error
// there is nothing to release.
//
// If ctx ends while the source's Read is blocked, the Reader ends that Read with a deadline in the
// past, if the source has SetReadDeadline. Afterwards it removes the deadline, so the caller must
// set its own again.
func (r *Reader) Next(ctx context.Context) (millrace.Ref, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			r.interrupt()
			return millrace.Ref{}, err
		}
		if v := r.fault; v != nil {
			r.fault = nil
			panic(v)
		}
		if r.closed {
			return millrace.Ref{}, ErrClosed
		}
		if r.mayHang {
			r.readAhead()
		}
		switch {
		case len(r.queue) > 0:
			return r.takeFirst(), nil
		case r.pendingErr != nil:
			err := r.pendingErr
			r.pendingErr = nil
			return millrace.Ref{}, err
		case r.finalErr != nil:
			r.interrupt() // copyOut may set finalErr while the source is being read
			return millrace.Ref{}, r.finalErr
		case !r.mayHang:
			if r.reading {
				panic("chunk: Next while another goroutine is in it")
			}
			r.read()
		case r.copyOut():
		case r.finalErr == nil:
			if r.tuner != nil {
				r.tuner.starved.Add(1)
			}
			r.wait(ctx)
		}
	}
}

// takeFirst removes and returns the first chunk of the queue, which must have one. r.mu is held.
func (r *Reader) takeFirst() millrace.Ref {
	first := r.queue[0]
	r.queue = slices.Delete(r.queue, 0, 1)
	if r.tuner != nil {
		r.tuner.moved.Add(int64(first.Len()))
	}
	r.room.Signal()
	return first
}

// Chunks lends the chunks one after the other. Each is valid until the loop's body ends. At the end
// of the source, the sequence ends. After any other error, it ends with a nil chunk and that error.
// Errors are as for [Reader.Next]. When ctx ends, the goroutine that reads ahead ends at once, even
// while the loop's body runs. If the loop is left early, another loop or Next continues after the
// last chunk.
func (r *Reader) Chunks(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stop := context.AfterFunc(ctx, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.interrupt()
		})
		defer stop()
		for {
			ref, err := r.Next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !lend(ref, yield) {
				return
			}
		}
	}
}

// lend passes the bytes of ref to yield. It takes ownership of ref.
func lend(ref millrace.Ref, yield func([]byte, error) bool) bool {
	defer ref.Release()
	return yield(ref.Bytes(), nil)
}

// wait waits until there may be something to return, or until ctx ends. r.mu is held, and released
// while waiting.
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

// notify ends the wait of Next. If the notification comes too late for that, the next wait returns
// at once, and Next checks again. r.mu is held.
func (r *Reader) notify() {
	if !r.waiting {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// closeGrace is the longest time that Close waits for a Read that a deadline should have ended.
const closeGrace = time.Second

// readAhead starts the goroutine. If the goroutine was told to end but has not ended yet, readAhead
// cancels that. r.mu is held.
func (r *Reader) readAhead() {
	r.stopping = false
	if r.running || r.pendingErr != nil || r.finalErr != nil {
		return
	}
	r.running, r.leaving = true, false
	r.done = make(chan struct{})
	go r.run()
}

// run is the goroutine: it reads until it is told to end.
func (r *Reader) run() {
	r.mu.Lock()
	defer r.ended()
	for {
		for len(r.queue) >= r.depth && !r.stopping && !r.closed {
			if r.tuner != nil {
				r.tuner.stuffed.Add(1)
			}
			r.room.Wait()
		}
		if r.stopping || r.closed || r.pendingErr != nil || r.finalErr != nil {
			r.leaving = true
			return
		}
		r.unwake()
		r.read()
	}
}

// ended records the end of the goroutine. It also runs if src.Read panicked or ended the goroutine.
// r.mu is held; ended unlocks it.
func (r *Reader) ended() {
	v := recover()
	if !r.leaving {
		if r.fault = v; v == nil {
			r.fault = "chunk: the source's Read ended its goroutine"
		}
	}
	r.running = false
	r.unwake()
	r.notify()
	close(r.done)
	r.mu.Unlock()
}

// interrupt tells the goroutine to end, and ends its Read with a deadline if the source has one.
// r.mu is held.
func (r *Reader) interrupt() {
	if !r.running {
		return
	}
	r.stopping = true
	r.room.Signal()
	if r.reading && !r.woken && r.waker != nil {
		r.woken = r.waker.SetReadDeadline(longAgo) == nil
	}
}

// unwake removes the deadline that ended a Read. r.mu is held, and the source must not be being
// read.
func (r *Reader) unwake() {
	if r.woken {
		r.woken = false
		// This fails if the source is closed, which the next Read reports.
		_ = r.waker.SetReadDeadline(noDeadline)
	}
}

// Close ends the goroutine that reads and releases the chunks that were read ahead. From then on
// each reading method returns [ErrClosed], even a Next that is waiting in another goroutine. Chunks
// that Next returned stay valid. Closing again does nothing. Close returns nil.
//
// If the source has SetReadDeadline, as connections and pipes do, Close ends a blocked Read with a
// deadline in the past. It waits at most a second for the Read to end, and leaves the source
// without a read deadline. Any other source must be closed by its owner. Close does not wait for
// its Read: until the Read returns, the goroutine and its block stay.
func (r *Reader) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	for i := range r.queue {
		r.queue[i].Release()
	}
	r.queue = nil
	r.interrupt()
	if !r.reading {
		r.filling.release()
	}
	r.notify()
	done, soon := r.done, r.running && (!r.reading || r.woken)
	r.mu.Unlock()
	if soon {
		timer := time.NewTimer(closeGrace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
	return nil
}

// A waker is a source whose waiting Read can be ended from another goroutine.
type waker interface {
	SetReadDeadline(t time.Time) error
}

var (
	longAgo    = time.Unix(1, 0)
	noDeadline time.Time
)

// wakerOf returns the waker that src is, or that src reads from, or nil.
func wakerOf(src io.Reader) waker {
	if l, ok := src.(*io.LimitedReader); ok {
		return wakerOf(l.R)
	}
	w, _ := src.(waker)
	return w
}

// mayHang reports whether a Read of src may wait for something other than memory or a disk.
func mayHang(src io.Reader) bool {
	switch s := src.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader, *millrace.ChainReader:
		return false
	case *os.File:
		// Files that the kernel generates, such as those in /proc, report that they are regular and
		// empty. Reading some of them may wait.
		info, err := s.Stat()
		return err != nil || !info.Mode().IsRegular() || info.Size() == 0
	case *io.LimitedReader:
		return mayHang(s.R)
	case *io.SectionReader:
		outer, _, _ := s.Outer()
		if o, ok := outer.(io.Reader); ok {
			return mayHang(o)
		}
	}
	return true
}
