package millrace

import (
	"context"
	"fmt"
)

// A Spool divides streams of unknown length into parts, and limits the memory of all parts. For
// example, an upload to S3 needs parts, because each request must state its length and may have to
// be repeated.
//
// Several goroutines may use one Spool, each with its own Reader. They share the limit.
type Spool struct {
	size  int
	slots chan struct{} // one value for each part in memory
}

// NewSpool returns a Spool that makes parts of up to size bytes. At most maxParts parts are in
// memory at the same time, for all streams together. NewSpool panics if size or maxParts is not
// positive.
func NewSpool(size, maxParts int) *Spool {
	if size <= 0 || maxParts <= 0 {
		panic(fmt.Sprintf("millrace: NewSpool(%d, %d): both numbers are positive", size, maxParts))
	}
	return &Spool{size, make(chan struct{}, maxParts)}
}

// Next returns the next part of the stream from src. Only the last part of a stream may be shorter
// than the Spool's size. The caller owns the Body and must close it. A part is in memory until the
// Body and all its Clones are closed.
//
// Next first waits until src has a byte. If the maximum number of parts is in memory, Next then
// waits until a part is closed or ctx ends. If the caller has set a deadline on the source, the
// deadline keeps running during this wait.
//
// At the end of the stream, and for an empty stream, Next returns io.EOF. After any other error,
// the bytes that have arrived stay in src for the next call.
func (s *Spool) Next(ctx context.Context, src *Reader) (*Body, error) {
	if _, err := src.Peek(1); err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b := newBody()
	b.place = &place{spool: s}
	b.place.add()
	if err := src.readPart(b.chain, s.size); err != nil {
		b.Close()
		return nil, err
	}
	b.size = b.chain.Len()
	return b, nil
}
