package frame

import (
	"fmt"
	"io"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
)

// defaultMaxPayload is the default of MaxPayload: 1 MiB. The payloads of a thousand peers then need
// at most 1 GiB.
const defaultMaxPayload = 1 << 20

const (
	// maxLimit is the largest limit, so that a frame's size fits into an int on every machine.
	maxLimit = 1 << 30

	// firstGrant is the memory, in bytes, that a Decoder allocates for a frame before any of the
	// payload has arrived. When the memory is full, the Decoder doubles it.
	firstGrant = 4 << 10

	// maxEmptyReads limits the consecutive reads without bytes or an error, as in bufio.
	maxEmptyReads = 100

	// maxKept is the maximum capacity, in bytes, of a buffer that a Decoder keeps for its next
	// frame. It is enough for a header.
	maxKept = 256
)

// Option changes how a Decoder reads. Options panic if a value is out of range.
type Option func(*Decoder)

// MaxPayload limits the size of a payload to n bytes. The default is 1 MiB.
func MaxPayload(n int) Option {
	checkLimit("MaxPayload", n)
	return func(d *Decoder) { d.maxPayload = n }
}

// MaxKind limits the size of a payload to n bytes in frames of the given kind. For these frames, it
// replaces the limit of MaxPayload, which may be smaller or larger.
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

// Deadlines limits the time for each header and each payload. If a header or a payload is not
// complete in time, the stream ends with a *TimeoutError. A duration of 0 means no limit.
//
// The time for a header starts with its first byte. If a read fails and the caller calls Next or
// NextInto again, the time between the two calls also counts.
//
// The argument conn is the connection that the Reader reads from. The Decoder sets conn's read
// deadline while it waits for the rest of a header or payload, and then clears the deadline.
// Between frames, the caller may set the read deadline. To end an idle connection, set it before
// each call to Next or NextInto.
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
// A *LimitError, a *TimeoutError or an error of the Format ends the stream. Every later call
// returns the same error. After any other error, such as arena.ErrFull or an expired deadline of
// the caller, Next or NextInto may be called again. No bytes are lost, even inside a frame.
type Decoder struct {
	r          *millrace.Reader
	f          Format    // nil if v is set
	v          VarFormat // nil if f is set
	sealed     Sealed    // f, if f is a Sealed
	minHeader  int       // a header has minHeader to maxHeader bytes
	maxHeader  int
	maxPayload int
	maxKind    map[uint32]int
	deadline   partDeadline

	begun  bool // the header has been parsed and the frame has not been returned
	header Header
	size   int    // size of the header in bytes
	kept   []byte // bytes of the frame that earlier calls have read
	open   int    // number of decrypted bytes in kept
	err    error  // the error that ended the stream

	// Invariants:
	//
	//	!begun: the next bytes of r are a header, and kept is empty
	//	begun, sealed == nil: kept, and then the next bytes of r, are the frame that header describes
	//	begun, sealed != nil: kept[:open] is plain, and the next chunk is kept[open:] and then the next bytes of r
}

// NewDecoder returns a Decoder that reads frames of the format f from r. The Decoder borrows r and
// f, and needs no Close. It reads no byte after the frame that it returns. After an error, r may be
// inside a frame. NewDecoder panics if headers are larger than the Reader's Size.
func NewDecoder(r *millrace.Reader, f Format, opts ...Option) *Decoder {
	size := f.HeaderSize()
	d := newDecoder(r, size, size, opts)
	d.f = f
	d.sealed, _ = f.(Sealed)
	return d
}

// NewVarDecoder is like [NewDecoder], for a format with headers that differ in size. It panics if
// the longest header is larger than the Reader's Size.
func NewVarDecoder(r *millrace.Reader, f VarFormat, opts ...Option) *Decoder {
	d := newDecoder(r, 1, f.MaxHeader(), opts)
	d.v = f
	return d
}

func newDecoder(r *millrace.Reader, minHeader, maxHeader int, opts []Option) *Decoder {
	if maxHeader < 1 || maxHeader > r.Size() {
		panic(fmt.Sprintf("frame: header of %d bytes; 1 to %d can be, by the Reader's Size",
			maxHeader, r.Size()))
	}
	d := &Decoder{r: r, minHeader: minHeader, maxHeader: maxHeader, maxPayload: defaultMaxPayload}
	for _, opt := range opts {
		opt(d)
	}
	return d
}

// Next appends the next frame, header and payload, to dst, which owns the bytes. It copies nothing.
//
// The error is io.EOF if the stream ends between two frames, and io.ErrUnexpectedEOF if it ends
// inside one. If Next returns an error, dst is unchanged.
//
// Next panics if the Format is a [Sealed]. Use NextInto, which decrypts the frames.
func (d *Decoder) Next(dst *millrace.Chain) (Header, error) {
	if d.sealed != nil {
		panic("frame: Next of a sealed format; it has NextInto")
	}
	if err := d.begin(); err != nil {
		return Header{}, err
	}
	n := d.size + d.header.Payload - len(d.kept)
	err := d.armPayloadDeadline(n)
	if err == nil {
		err = d.readChain(dst, n)
	}
	if err != nil {
		return Header{}, d.interrupted(err)
	}
	return d.finish(), nil
}

// readChain appends the frame to dst: first d.kept, and then the next n bytes of d.r.
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

// NextInto reads the next frame, header and payload, into buf, and decrypts it if the Format is a
// [Sealed]. It returns the frame as a contiguous Slice, which the caller owns. If buf already has
// bytes, they come before the frame in the Slice.
//
// The error is io.EOF if the stream ends between two frames, io.ErrUnexpectedEOF if it ends inside
// one, and arena.ErrFull if buf has no room. After any error, buf is unchanged. If the error does
// not end the stream (see [Decoder]), the next call may use another Buffer.
//
// If buf is a Pool with NoHeap, set MaxPayload below the Pool's capacity, because a larger frame
// never fits.
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

// assemble reads the rest of a frame into buf, and decrypts the frame if the Format is Sealed. The
// frame begins at offset base in buf.
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

// gather reads until buf has n bytes of the frame, which begins at offset base in buf. It requests
// memory from buf in growing steps, because the peer may never send the whole frame.
func (d *Decoder) gather(buf arena.Buffer, base, n int) error {
	for have := buf.Len() - base; have < n; {
		if err := d.armPayloadDeadline(n - have); err != nil {
			return err
		}
		p := buf.Writable(min(n-have, max(firstGrant, have, d.r.Buffered())))
		if p == nil {
			d.deadline.complete() // waiting for room in buf does not count as the peer's time
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

// readFull reads from d.r until p is full or a read fails. After maxEmptyReads consecutive reads
// without bytes or an error, it returns io.ErrNoProgress.
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

// undo removes the bytes of buf from offset base to the end.
func undo(buf arena.Buffer, base int) {
	buf.Truncate(base)
	if base == 0 {
		_ = buf.Take() // frees the memory of the frame
	}
}

// begin reads the header of the next frame, unless an earlier call has read it.
func (d *Decoder) begin() error {
	if d.begun || d.err != nil {
		return d.err
	}
	h, size, err := d.readHeader()
	if err != nil {
		return err
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
	d.header, d.size, d.begun = h, size, true
	if d.sealed != nil {
		d.kept = append(d.kept, d.sealed.PlainHeader()...)
		d.open = len(d.kept)
		return d.r.Skip(d.size)
	}
	return nil
}

// readHeader waits for the next header and parses it. It also returns the header's size. The bytes
// of the header stay in d.r.
func (d *Decoder) readHeader() (h Header, size int, err error) {
	p, err := d.peekHeader(d.minHeader)
	if err != nil {
		return Header{}, 0, err
	}
	if d.f != nil {
		d.deadline.complete()
		if h, err = d.f.Parse(p); err != nil {
			return Header{}, 0, d.fail(err)
		}
		return h, d.minHeader, nil
	}
	for {
		h, size, err = d.v.ParseVar(p)
		if size != 0 || err != nil || len(p) == d.maxHeader {
			break
		}
		if p, err = d.peekHeader(len(p) + 1); err != nil {
			return Header{}, 0, err
		}
	}
	d.deadline.complete()
	if err == nil && (size < 1 || size > len(p)) {
		err = &HeaderError{d.maxHeader}
	}
	if err != nil {
		return Header{}, 0, d.fail(err)
	}
	return h, size, nil
}

// peekHeader waits for n bytes of the next header. It returns all bytes that have arrived, up to
// the size of the longest header. The slice is valid until the next read from d.r.
func (d *Decoder) peekHeader(n int) ([]byte, error) {
	if d.deadline.limits[InHeader] > 0 && d.r.Buffered() < n {
		if _, err := d.r.Peek(1); err != nil { // this wait has no limit
			return nil, err
		}
		if d.r.Buffered() < n {
			if err := d.deadline.arm(InHeader); err != nil {
				return nil, err
			}
		}
	}
	p, err := d.r.Peek(n)
	switch {
	case err == nil && n < d.maxHeader:
		return d.r.Peek(min(d.r.Buffered(), d.maxHeader))
	case err == nil:
		return p, nil
	case len(p) == 0 && err == io.EOF:
		return nil, err
	}
	return nil, d.interrupted(err)
}

// armPayloadDeadline sets the deadline for the payload if a read of n bytes may have to wait.
func (d *Decoder) armPayloadDeadline(n int) error {
	if d.deadline.limits[InPayload] > 0 && !d.deadline.armed && d.r.Buffered() < n {
		return d.deadline.arm(InPayload)
	}
	return nil
}

// finish prepares d for the next frame, and returns the Header of the finished frame.
func (d *Decoder) finish() Header {
	d.deadline.complete()
	d.begun = false
	if d.kept = d.kept[:0]; cap(d.kept) > maxKept {
		d.kept = nil
	}
	return d.header
}

// interrupted converts an error within a frame to the error that Next or NextInto returns.
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

// fail stores and returns err, the error that ends the stream.
func (d *Decoder) fail(err error) error {
	d.err, d.begun, d.kept = err, false, nil
	return err
}
