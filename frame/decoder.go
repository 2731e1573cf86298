package frame

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace"
)

// A Decoder cuts a stream into frames. It belongs to one goroutine at a time. Next and NextInto may be mixed.
//
// A fault in the stream is final: a *LimitError, a *TimeoutError, or what the Format returns. An error of the source, such as
// a deadline of the caller's, and arena.ErrFull lose nothing, even inside a frame: the call may be repeated.
//
// Invariants:
//
//	size = f.HeaderSize() ≥ 1
//	!begun: the next bytes of r are a header, and kept is empty
//	begun, sealed == nil: kept, and then the next bytes of r, are the frame that header describes
//	begun, sealed != nil: kept[:open] is plain, and the next chunk is kept[open:] and then the next bytes of r
type Decoder struct {
	r          *millrace.Reader
	f          Format
	sealed     Sealed // f, if it is one
	size       int
	maxPayload int
	maxKind    map[uint32]int
	patience   patience

	begun  bool
	header Header
	kept   []byte // what an earlier call has read of the frame
	open   int
	err    error // a fault in the stream, for good
}

// NewDecoder returns a Decoder of the frames that come from r. It borrows r and f for as long as it is used, and there
// is nothing to close. r stands right after the last frame that was returned, unless a call has failed since.
func NewDecoder(r *millrace.Reader, f Format, opts ...Option) *Decoder {
	d := &Decoder{r: r, f: f, size: f.HeaderSize(), maxPayload: DefaultMaxPayload}
	if d.size < 1 || d.size > r.Size() {
		panic(fmt.Sprintf("frame: header of %d bytes; 1 to %d can be, by the Reader's Size", d.size, r.Size()))
	}
	d.sealed, _ = f.(Sealed)
	for _, opt := range opts {
		opt(d)
	}
	return d
}

// Next appends the next frame as it came, header and payload, to dst, which owns it from then on. Nothing is copied, and
// frames that arrived in one block come as one piece.
//
// At the end of the stream the error is io.EOF if it ends between two frames, io.ErrUnexpectedEOF if it ends inside one. With
// any error dst is as it was. Next panics if the Format is a Sealed, whose frames cannot be given as they came.
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
		return Header{}, d.stopped(err)
	}
	return d.end(), nil
}

// readChain appends the frame, of which n bytes are still to be read, to dst.
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

// begin reads the header of the next frame, unless that has been done.
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
	if limit := d.limit(h.Kind); h.Payload > limit {
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
	if d.patience.limits[InHeader] > 0 && d.r.Buffered() < d.size {
		// The first byte may take as long as it likes.
		if _, err := d.r.Peek(1); err != nil {
			return nil, err
		}
		if d.r.Buffered() < d.size {
			if err := d.patience.arm(InHeader); err != nil {
				return nil, err
			}
		}
	}
	p, err := d.r.Peek(d.size)
	if err == nil {
		d.patience.complete()
		return p, nil
	}
	if len(p) == 0 && err == io.EOF {
		return nil, err
	}
	return nil, d.stopped(err)
}

func (d *Decoder) limit(kind uint32) int {
	if d.maxKind != nil {
		if n, ok := d.maxKind[kind]; ok {
			return n
		}
	}
	return d.maxPayload
}

// await is called before n bytes of the payload are read.
func (d *Decoder) await(n int) error {
	if d.patience.limits[InPayload] > 0 && !d.patience.armed && d.r.Buffered() < n {
		return d.patience.arm(InPayload)
	}
	return nil
}

// keptMost is how much memory for kept is held from one frame to the next, which is enough for a header.
const keptMost = 256

// end is called when the frame has been handed over.
func (d *Decoder) end() Header {
	d.patience.complete()
	d.begun = false
	if d.kept = d.kept[:0]; cap(d.kept) > keptMost {
		d.kept = nil
	}
	return d.header
}

// stopped says what has become of the frame, if err is why the next bytes of it did not come.
func (d *Decoder) stopped(err error) error {
	over := d.patience.over(err)
	d.patience.disarm()
	switch {
	case over:
		part := d.patience.part
		return d.fail(&TimeoutError{Part: part, After: d.patience.limits[part]})
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// fail makes err the Decoder's last word.
func (d *Decoder) fail(err error) error {
	d.err, d.begun, d.kept = err, false, nil
	return err
}
