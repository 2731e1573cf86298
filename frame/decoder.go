package frame

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
)

// defaultMaxPayload is the largest payload, in bytes, that a Decoder accepts unless MaxPayload or
// MaxKind sets another limit: 1 MiB. A thousand peers that each send the largest payload at the
// same time fill 1 GiB.
const defaultMaxPayload = 1 << 20

const (
	// maxLimit is the largest limit that an Option accepts: 1 GiB. With it, the size of a payload
	// and its header fits into an int on every machine. Longer payloads can be read from the
	// Reader, as a stream.
	maxLimit = 1 << 30

	// firstGrant is the memory, in bytes, that a payload gets before any of it has arrived. Most
	// frames fit into it, and a peer that sends only headers ties up no more. Whenever the memory
	// is full, the frame gets as much again as has arrived.
	firstGrant = 4 << 10

	// maxEmptyReads is how many consecutive reads may return neither bytes nor an error. After that
	// many, a read fails with io.ErrNoProgress, as in bufio.
	maxEmptyReads = 100

	// maxKept is the memory, in bytes, that a Decoder keeps from one frame to the next. It is
	// enough for a header.
	maxKept = 256
)

// Option changes how a Decoder reads. Options panic if a value is out of range.
type Option func(*Decoder)

// MaxPayload sets the largest payload that is accepted, in bytes, for kinds that MaxKind does not
// name. The default is 1 MiB.
func MaxPayload(n int) Option {
	checkLimit("MaxPayload", n)
	return func(d *Decoder) { d.maxPayload = n }
}

// MaxKind sets the largest payload that is accepted in frames of one kind, in bytes. It may be
// above MaxPayload.
func MaxKind(kind uint32, n int) Option {
	checkLimit("MaxKind", n)
	return func(d *Decoder) {
		if d.maxKind == nil {
			d.maxKind = make(map[uint32]int)
		}
		d.maxKind[kind] = n
	}
}

func checkLimit(option string, n int) {
	if n < 0 || n > maxLimit {
		panic(fmt.Sprintf("frame: %s(%d): a limit is from 0 to %d bytes", option, n, maxLimit))
	}
}

// Deadlines ends the stream with a *TimeoutError if a header or a payload is not complete within
// the given time. The time for a header starts with its first byte. 0 sets no limit. If the source
// returns an error in between, the time continues to run.
//
// conn is the connection that the Reader reads from. While the Decoder waits for the rest of a
// header or of a payload, it sets conn's read deadline. It clears the deadline afterwards. Between
// frames the deadline is the caller's. To end an idle connection, set it before each call of Next.
func Deadlines(conn interface{ SetReadDeadline(time.Time) error }, header,
	payload time.Duration) Option {
	if conn == nil {
		panic("frame: Deadlines without a connection")
	}
	if header < 0 || payload < 0 {
		panic(fmt.Sprintf("frame: Deadlines(%v, %v): a time is not negative", header, payload))
	}
	return func(d *Decoder) {
		d.deadline = partDeadline{conn: conn,
			limits: [...]time.Duration{InHeader: header, InPayload: payload}}
	}
}

// A Decoder splits a stream into frames. It belongs to one goroutine at a time. Next and NextInto
// may be mixed.
//
// A fault in the stream is final: a *LimitError, a *TimeoutError, or an error of the Format. Other
// errors are not: an error of the source, such as a deadline that the caller has set, and
// arena.ErrFull. After them nothing is lost, even inside a frame, and Next or NextInto may be
// called again.
type Decoder struct {
	r          *millrace.Reader
	f          Format
	sealed     Sealed // f, if f is a Sealed
	size       int    // f.HeaderSize()
	maxPayload int
	maxKind    map[uint32]int
	deadline   partDeadline

	begun  bool // the header has been parsed
	header Header
	kept   []byte // the part of the frame that earlier calls have read
	open   int    // number of decrypted bytes in kept
	err    error  // the fault that ended the stream

	// Invariants:
	//
	//	!begun: the next bytes of r are a header, and kept is empty
	//	begun, sealed == nil: kept, and then the next bytes of r, are the frame that header describes
	//	begun, sealed != nil: kept[:open] is plain, and the next chunk is kept[open:] and then the next bytes of r
}

// NewDecoder returns a Decoder of the frames in r. It borrows r and f while in use; there is
// nothing to close. r is positioned after the last returned frame, unless a call has failed since.
// NewDecoder panics if a header is larger than the Reader's Size.
func NewDecoder(r *millrace.Reader, f Format, opts ...Option) *Decoder {
	d := &Decoder{r: r, f: f, size: f.HeaderSize(), maxPayload: defaultMaxPayload}
	if d.size < 1 || d.size > r.Size() {
		panic(fmt.Sprintf("frame: header of %d bytes; 1 to %d can be, by the Reader's Size", d.size,
			r.Size()))
	}
	d.sealed, _ = f.(Sealed)
	for _, opt := range opts {
		opt(d)
	}
	return d
}

// Next appends the next frame, header and payload, to dst, which owns it from then on. Nothing is
// copied, and frames that arrived in one block are appended as one piece.
//
// The error is io.EOF if the stream ends between two frames, and io.ErrUnexpectedEOF if it ends
// inside one. On any error dst is unchanged. Next panics if the Format is a Sealed. Its frames must
// be decrypted with NextInto.
func (d *Decoder) Next(dst *millrace.Chain) (Header, error) {
	if d.sealed != nil {
		panic("frame: Next of a sealed format; it has NextInto")
	}
	if err := d.begin(); err != nil {
		return Header{}, err
	}
	n := d.size + d.header.Payload - len(d.kept)
	err := d.await(n)
	if err == nil {
		err = d.readChain(dst, n)
	}
	if err != nil {
		return Header{}, d.interrupted(err)
	}
	return d.finish(), nil
}

// readChain appends the frame, of which n bytes have not been read yet, to dst.
func (d *Decoder) readChain(dst *millrace.Chain, n int) error {
	if len(d.kept) == 0 {
		return d.r.ReadChain(dst, n)
	}
	var rest millrace.Chain
	if err := d.r.ReadChain(&rest, n); err != nil {
		return err
	}
	dst.AppendCopy(d.kept)
	dst.Merge(&rest)
	return nil
}

// NextInto reads the next frame, header and payload, into buf. It takes the frame out of buf as a
// Slice, which the caller owns and releases. The frame is contiguous. If the Format is a Sealed,
// the frame is decrypted. Bytes that were in buf already come before the frame in the Slice.
//
// Errors are as for [Decoder.Next], and arena.ErrFull if buf has no room. On any error buf is
// unchanged. The Decoder keeps the part of the frame that has arrived, and the next call continues
// with it, in this Buffer or another. A frame that is larger than the memory of a Pool with NoHeap
// never fits. With such a Pool, set MaxPayload to less.
//
// Large payloads are read from the source directly into buf's memory.
func (d *Decoder) NextInto(buf arena.Buffer) (arena.Slice, Header, error) {
	if err := d.begin(); err != nil {
		return arena.Slice{}, Header{}, err
	}
	base := buf.Len()
	if len(d.kept) > 0 {
		p := buf.Writable(len(d.kept))
		if p == nil {
			return arena.Slice{}, Header{}, arena.ErrFull
		}
		copy(p, d.kept)
	}
	if err := d.assemble(buf, base); err != nil {
		err = d.interrupted(err)
		if d.err == nil {
			d.kept = append(d.kept[:0], buf.Data(buf.Len())[base:]...)
		}
		undo(buf, base)
		return arena.Slice{}, Header{}, err
	}
	return buf.Take(), d.finish(), nil
}

// assemble reads the rest of the frame, which starts at base in buf.
func (d *Decoder) assemble(buf arena.Buffer, base int) error {
	if d.sealed == nil {
		return d.gather(buf, base, d.size+d.header.Payload)
	}
	for total := len(d.sealed.PlainHeader()) + d.header.Payload; d.open < total; {
		end := d.open + d.sealed.ChunkSize(total-d.open)
		if err := d.gather(buf, base, end); err != nil {
			return err
		}
		plain, err := d.sealed.Open(buf.Data(base + end)[base+d.open:])
		if err != nil {
			return d.fail(err)
		}
		d.open += len(plain)
		buf.Truncate(base + d.open)
	}
	return nil
}

// gather reads until n bytes of the frame are in buf from base on. It requests memory from buf in
// steps. The first step is firstGrant. Each further step is as much again as has arrived.
func (d *Decoder) gather(buf arena.Buffer, base, n int) error {
	for have := buf.Len() - base; have < n; {
		if err := d.await(n - have); err != nil {
			return err
		}
		p := buf.Writable(min(n-have, max(firstGrant, have, d.r.Buffered())))
		if p == nil {
			d.deadline.complete() // waiting for room must not use up the peer's time
			return arena.ErrFull
		}
		m, err := d.readFull(p)
		have += m
		if err != nil {
			buf.Truncate(base + have)
			return err
		}
	}
	return nil
}

// readFull fills p, as io.ReadFull does. If the source keeps returning neither bytes nor an error,
// it fails with io.ErrNoProgress. Any other error is the source's.
func (d *Decoder) readFull(p []byte) (n int, err error) {
	for empty := 0; n < len(p) && err == nil; {
		var m int
		m, err = d.r.Read(p[n:])
		if n += m; m > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads && err == nil {
			err = io.ErrNoProgress
		}
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// undo truncates buf to base bytes.
func undo(buf arena.Buffer, base int) {
	buf.Truncate(base)
	if base == 0 {
		_ = buf.Take() // buf is empty: Take releases the frame's place
	}
}

// begin reads the header of the next frame, unless an earlier call has read it.
func (d *Decoder) begin() error {
	if d.begun || d.err != nil {
		return d.err
	}
	p, err := d.peekHeader()
	if err != nil {
		return err
	}
	h, err := d.f.Parse(p)
	if err != nil {
		return d.fail(err)
	}
	if h.Payload < 0 {
		panic(fmt.Sprintf("frame: Parse returned a payload of %d bytes", h.Payload))
	}
	limit, ok := d.maxKind[h.Kind]
	if !ok {
		limit = d.maxPayload
	}
	if h.Payload > limit {
		return d.fail(&LimitError{Kind: h.Kind, Have: h.Payload, Limit: limit})
	}
	d.header, d.begun = h, true
	if d.sealed != nil {
		d.kept = append(d.kept, d.sealed.PlainHeader()...)
		d.open = len(d.kept)
		return d.r.Skip(d.size)
	}
	return nil
}

// peekHeader returns the bytes of the next header, which are valid until r is read from.
func (d *Decoder) peekHeader() ([]byte, error) {
	if d.deadline.limits[InHeader] > 0 && d.r.Buffered() < d.size {
		if _, err := d.r.Peek(1); err != nil { // the wait for the first byte is not limited
			return nil, err
		}
		if d.r.Buffered() < d.size {
			if err := d.deadline.arm(InHeader); err != nil {
				return nil, err
			}
		}
	}
	p, err := d.r.Peek(d.size)
	if err == nil {
		d.deadline.complete()
		return p, nil
	}
	if len(p) == 0 && err == io.EOF {
		return nil, err
	}
	return nil, d.interrupted(err)
}

// await is called before n bytes of the payload are read. If fewer than n bytes are buffered, it
// arms the deadline for the payload.
func (d *Decoder) await(n int) error {
	if d.deadline.limits[InPayload] > 0 && !d.deadline.armed && d.r.Buffered() < n {
		return d.deadline.arm(InPayload)
	}
	return nil
}

// finish ends the frame and returns its Header. It is called when the frame has been handed over.
func (d *Decoder) finish() Header {
	d.deadline.complete()
	d.begun = false
	if d.kept = d.kept[:0]; cap(d.kept) > maxKept {
		d.kept = nil
	}
	return d.header
}

// interrupted returns the error of a call that failed inside a frame because of err.
func (d *Decoder) interrupted(err error) error {
	expired := d.deadline.expired(err)
	d.deadline.disarm()
	switch {
	case expired:
		part := d.deadline.part
		return d.fail(&TimeoutError{Part: part, After: d.deadline.limits[part]})
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// fail makes err the result of this call and of all that follow.
func (d *Decoder) fail(err error) error {
	d.err, d.begun, d.kept = err, false, nil
	return err
}
