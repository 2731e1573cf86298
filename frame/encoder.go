package frame

import (
	"fmt"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
)

// An Encoder builds frames. It belongs to one goroutine at a time.
type Encoder struct {
	f         headerAppender
	minHeader int // a header has minHeader to maxHeader bytes
	maxHeader int
	head      []byte
}

type headerAppender interface {
	AppendHeader(dst []byte, h Header) ([]byte, error)
}

// NewEncoder returns an Encoder for the format f. It borrows f until the Encoder's last use.
func NewEncoder(f Encoding) *Encoder {
	size := f.HeaderSize()
	return &Encoder{f: f, minHeader: size, maxHeader: size}
}

// NewVarEncoder is like [NewEncoder], for a format with headers that differ in size.
func NewVarEncoder(f VarEncoding) *Encoder {
	return &Encoder{f: f, minHeader: 1, maxHeader: f.MaxHeader()}
}

// Append appends a frame to dst: the header, with the payload's length filled in, and the payload
// by reference. It takes ownership of payload, even if it returns an error, and leaves payload
// empty. If the Encoding returns an error, Append returns that error and leaves dst unchanged.
func (e *Encoder) Append(dst *millrace.Chain, h Header, payload *millrace.Chain) error {
	h.Payload = payload.Len()
	if err := e.build(h); err != nil {
		payload.Release()
		return err
	}
	dst.AppendCopy(e.head)
	dst.Merge(payload)
	return nil
}

// Assemble builds a frame in buf and returns it as a Slice, which the caller owns. If buf already
// has bytes, they come before the frame in the Slice.
//
// The function writePayload is called once, and adds the payload with Write or Writable. It borrows
// buf and must not call Take. Assemble then adds the header, with the payload's length filled in.
//
// Assemble returns the errors of writePayload and of the Encoding. If buf has no room for the
// header, the error is arena.ErrFull. After an error, buf is unchanged.
func (e *Encoder) Assemble(buf arena.Buffer, h Header,
	writePayload func(buf arena.Buffer) error) (arena.Slice, error) {
	base, size := buf.Len(), e.maxHeader
	if buf.Writable(size) == nil {
		return arena.Slice{}, arena.ErrFull
	}
	err := writePayload(buf)
	if h.Payload = buf.Len() - base - size; h.Payload < 0 {
		panic(fmt.Sprintf(
			"frame: Assemble: %d bytes of the header are left after the payload was written",
			size+h.Payload))
	}
	if err == nil {
		err = e.build(h)
	}
	if err != nil {
		undo(buf, base)
		return arena.Slice{}, err
	}
	p := buf.Data(base + size + h.Payload)[base:]
	if n := copy(p, e.head); n < size { // the header is shorter than the room before the payload
		copy(p[n:], p[size:])
		buf.Truncate(base + n + h.Payload)
	}
	return buf.Take(), nil
}

func (e *Encoder) build(h Header) error {
	head, err := e.f.AppendHeader(e.head[:0], h)
	if err != nil {
		return err
	}
	if len(head) < e.minHeader || len(head) > e.maxHeader {
		panic(fmt.Sprintf("frame: AppendHeader appended %d bytes; headers have %d to %d", len(head),
			e.minHeader, e.maxHeader))
	}
	e.head = head
	return nil
}
