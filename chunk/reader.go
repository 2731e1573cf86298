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

// A Reader reads a source in chunks of pooled memory, ahead of the code that processes them. It
// cuts the chunks at the ends of records.
//
// Joined together, the chunks are the source, byte for byte. Each chunk begins where a record
// begins and ends where a record ends. It has up to [Size] bytes of whole records. A longer record,
// up to [MaxRecord], forms a separate chunk. If Next has to wait, it returns as soon as one whole
// record has arrived. If the source ends or fails within a record, the last chunk is the incomplete
// record, and Next then returns the error.
//
// If the source's Read may block, a goroutine reads the source. The goroutine starts with the first
// Next and stays at most [Depth] chunks ahead. Next itself reads memory and regular files, because
// waking another goroutine would cost more than copying from the page cache. (To have a file read
// by a goroutine, wrap it in a struct{ io.Reader }.)
//
// The goroutine ends when the source ends, when Close is called, or when the context of a call to
// Next or Chunks ends. A Reader that has not reached the end of its source must be closed.
//
// All methods are for one goroutine at a time, except Close, which any goroutine may call at any
// time.
type Reader struct {
	size, depth, limit int
	cutter             Cutter
	pool               *millrace.Pool
	tuner              *Tuner // sets size and depth; may be nil

	src     io.Reader
	waker   waker // src, if it has SetReadDeadline; else nil
	mayHang bool  // Read may block, so a goroutine reads src

	wake chan struct{} // wakes a waiting Next
	mu   sync.Mutex    // guards the fields below; not held during src.Read
	room sync.Cond     // wakes the goroutine to read or to end

	filling filling
	queue   []millrace.Ref // chunks that Next has not returned, in order
	empty   int            // consecutive reads that returned nothing

	pendingErr error // error that Next returns once, after the queue
	finalErr   error // error that Next returns forever, after the queue and pendingErr
	fault      any   // panic value of src.Read on the goroutine
	probe      [1]byte
	offset     int64 // number of bytes in the chunks that Next has returned

	running  bool          // the goroutine exists
	done     chan struct{} // closed when the goroutine ends; nil if there was none
	stopping bool          // the goroutine must end
	leaving  bool          // the goroutine ends without a panic
	reading  bool          // a call to src.Read is running
	woken    bool          // the Reader has set a deadline in the past on src
	waiting  bool          // Next is waiting
	closed   bool
}

// A ReaderOption changes the Reader that [NewReader] returns. An option panics if its value is out
// of range.
type ReaderOption func(*Reader)

// Size sets the maximum number of bytes in a chunk. A chunk is longer only if it holds a single
// longer record. The default is 64 KiB: reading this many bytes costs less than processing them,
// and the bytes stay in the processor's second-level cache until they are processed. The maximum is
// 1 MiB, the largest block that a millrace.Pool keeps for reuse. For larger parts, such as the
// parts of an upload, append chunks to a millrace.Chain, or use a millrace.Spool.
//
// Choose a power of two. The Reader reads each chunk into a block of memory, and the length of a
// block is a power of two. Any other Size wastes the rest of the block.
func Size(bytes int) ReaderOption {
	inRange("Size", bytes, mostChunk)
	return func(r *Reader) { r.size = bytes }
}

// Depth sets the number of chunks that the Reader may read ahead of Next, including the chunk that
// is being read. The default is 3. The chunks take up to Depth times Size bytes of memory, and more
// if records are longer.
func Depth(chunks int) ReaderOption {
	inRange("Depth", chunks, mostBytes)
	return func(r *Reader) { r.depth = chunks }
}

// At makes the Reader cut chunks only where a record ends. The Cutter c finds the ends of the
// records. Without At, the Reader may cut after any byte.
func At(c Cutter) ReaderOption {
	if c == nil {
		panic("chunk: At(nil)")
	}
	return func(r *Reader) { r.cutter = c }
}

// MaxRecord sets the maximum length of a record in bytes, including its end. The default is 1 MiB,
// and the maximum is 1 GiB. If a record is longer, the Reader fails with a [RecordError]. The limit
// keeps a peer that never ends a record from exhausting the memory.
//
// A record that fits into one chunk is always accepted, even if it is longer than MaxRecord. The
// size of a chunk is Size or, with [TunedBy], the Tuner's largest chunk.
//
// A record is contiguous in memory. The memory of a record longer than 1 MiB comes from the heap,
// and the garbage collector frees it.
func MaxRecord(bytes int) ReaderOption {
	inRange("MaxRecord", bytes, mostBytes)
	return func(r *Reader) { r.limit = bytes }
}

// TunedBy makes the Tuner t control the Reader's chunk size and depth, instead of [Size] and
// [Depth]. A new chunk size applies to the next block. The Tuner counts the bytes that Next
// returns, to measure the speed of the program.
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

// NewReader returns a Reader that reads from src. The Reader borrows src until Close is called. It
// does not read before the first call to Next or Chunks.
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

// Next returns the next chunk, which the caller owns and releases. The chunk is never empty. If
// Next returns an error, there is nothing to release.
//
// If the source returns an error, such as io.EOF, Next first returns all bytes that arrived before
// the error. Every later call returns the error.
//
// A timeout, such as an expired read deadline, does not end the stream. Next returns this error
// once, and the following call continues. The Reader keeps the bytes of an incomplete record. An
// error is a timeout if its Timeout method returns true.
//
// With the option [At], chunks end where a record ends. If a record is too long, incomplete or
// invalid, the error is a [*RecordError].
//
// If src.Read panics, Next panics with the same value.
//
// If ctx ends, Next returns ctx's error. The bytes that have arrived are kept for the next call. If
// the source's Read is blocked and the source has SetReadDeadline, the Reader ends the Read with a
// deadline in the past. The Reader later removes this deadline, so the caller must set its own
// deadline again.
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
			r.interrupt() // copyOut may set finalErr during a Read
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

func (r *Reader) takeFirst() millrace.Ref {
	first := r.queue[0]
	r.queue = slices.Delete(r.queue, 0, 1)
	r.offset += int64(first.Len())
	if r.tuner != nil {
		r.tuner.moved.Add(int64(first.Len()))
	}
	r.room.Signal()
	return first
}

// Offset returns the offset in the source directly after the last chunk that Next or Chunks has
// returned, in bytes from the first byte that the Reader read. Before the first chunk, Offset
// returns 0.
//
// The offset can serve as a checkpoint. The program stores it after it has processed all chunks
// that Next has returned. A new Reader that begins at this offset of the same source continues with
// the next record. If the source is a [Tail], [Tail.Position] converts the offset to a Position.
func (r *Reader) Offset() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.offset
}

// Chunks returns the chunks as a sequence. Each chunk is valid until the body of the loop ends.
// After a break, another loop or Next continues with the next chunk.
//
// The sequence ends when Next would return io.EOF. For any other error, the last element is a nil
// chunk and the error. When ctx ends, reading ahead stops at once, even while the body of the loop
// runs.
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

func lend(ref millrace.Ref, yield func([]byte, error) bool) bool {
	defer ref.Release()
	return yield(ref.Bytes(), nil)
}

// wait blocks until notify is called or ctx ends. The caller must hold r.mu, but r.mu is unlocked
// meanwhile.
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

// notify wakes a waiting Next. The caller must hold r.mu. Next may also wake without a new chunk or
// error, because an earlier signal may still be in r.wake.
func (r *Reader) notify() {
	if !r.waiting {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

const closeGrace = time.Second

// readAhead starts the goroutine that reads ahead, if the source has returned no error. If the
// goroutine is running, readAhead cancels an earlier interrupt instead. The caller must hold r.mu.
func (r *Reader) readAhead() {
	r.stopping = false
	if r.running || r.pendingErr != nil || r.finalErr != nil {
		return
	}
	r.running, r.leaving = true, false
	r.done = make(chan struct{})
	go r.run()
}

func (r *Reader) run() {
	r.mu.Lock()
	defer r.endGoroutine()
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
		r.clearDeadline()
		r.read()
	}
}

// endGoroutine runs at the end of the goroutine that reads ahead, even if src.Read panics or calls
// runtime.Goexit. It requires a locked r.mu, and unlocks it.
func (r *Reader) endGoroutine() {
	v := recover()
	if !r.leaving {
		if r.fault = v; v == nil {
			r.fault = "chunk: the source's Read ended its goroutine"
		}
	}
	r.running = false
	r.clearDeadline()
	r.notify()
	close(r.done)
	r.mu.Unlock()
}

// interrupt tells the goroutine that reads ahead to end. If the source has deadlines, interrupt
// also ends a blocked Read. The caller must hold r.mu.
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

// clearDeadline removes the read deadline if interrupt has set one. The caller must hold r.mu, and
// no Read may be running.
func (r *Reader) clearDeadline() {
	if r.woken {
		r.woken = false
		// This fails if the source is closed, which the next Read reports.
		_ = r.waker.SetReadDeadline(noDeadline)
	}
}

// Close stops the goroutine that reads ahead, and releases the chunks that Next has not returned.
// From then on, Next and Chunks return [ErrClosed], even a Next that is waiting in another
// goroutine. Chunks that Next has returned stay valid. A second call does nothing. Close always
// returns nil.
//
// If the source has SetReadDeadline, as connections and pipes do, Close ends a blocked Read with a
// deadline in the past, which it then removes. It waits at most a second for the Read to end. For
// any other source, Close does not wait: the goroutine and its block of memory stay until the Read
// returns, for example because the owner closes the source.
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

type waker interface {
	SetReadDeadline(t time.Time) error
}

var (
	longAgo    = time.Unix(1, 0)
	noDeadline time.Time
)

// wakerOf returns src if it has SetReadDeadline, and nil otherwise. If src is an io.LimitedReader,
// wakerOf checks the Reader in it instead.
func wakerOf(src io.Reader) waker {
	if l, ok := src.(*io.LimitedReader); ok {
		return wakerOf(l.R)
	}
	w, _ := src.(waker)
	return w
}

// mayHang reports whether a Read of src may block for longer than an access to memory or a disk.
func mayHang(src io.Reader) bool {
	switch s := src.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader, *millrace.ChainReader:
		return false
	case *os.File:
		// A file in /proc reports that it is regular and empty. Its Read may wait.
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
