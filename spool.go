package millrace

import (
	"context"
	"fmt"
)

// A Spool divides streams of unknown length into parts, and limits the memory of all parts. An
// upload to S3 needs such parts: each of its requests states its length, and may be repeated.
//
// Several goroutines may use one Spool, each with its own Reader. They share the limit.
type Spool struct {
	size  int
	slots chan struct{} // one value for each part in memory
}

// NewSpool returns a Spool whose parts have up to size bytes. At most the given number of parts is
// in memory at the same time, for all streams together. It panics if a number is not positive.
func NewSpool(size, parts int) *Spool {
	if size <= 0 || parts <= 0 {
		panic(fmt.Sprintf("millrace: NewSpool(%d, %d): both numbers are positive", size, parts))
	}
	return &Spool{size, make(chan struct{}, parts)}
}

// Next returns the next part of the stream that src reads. Only the last part of a stream is
// shorter than the Spool's size. The caller owns the Body. The part counts until Body.Close.
//
// Next first waits until src has a byte. If too many parts are in memory, Next then waits until one
// of them is closed, or until ctx ends.
//
// At the end of the stream, the error is io.EOF. After any other error, the bytes of the part that
// have arrived stay in src, for another call of Next.
func (s *Spool) Next(ctx context.Context, src *Reader) (*Body, error) {
	if _, err := src.Peek(1); err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b := &Body{onDone: func() { <-s.slots }}
	if err := src.readPart(&b.chain, s.size); err != nil {
		b.Close()
		return nil, err
	}
	b.size = b.chain.Len()
	b.reader.c = &b.chain
	return b, nil
}
