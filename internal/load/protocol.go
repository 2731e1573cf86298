package load

import (
	"context"
	"fmt"
	"time"
)

// Kinds of tag, with FLV's and RTMP's numbers.
const (
	Audio  byte = 8
	Video  byte = 9
	Script byte = 18
)

// Tag is one message of a stream. Payload is the data after the header of an FLV tag or of an RTMP
// message, which is the same in both.
type Tag struct {
	Kind      byte
	Timestamp uint32 // milliseconds
	Payload   []byte
}

// HeadLen is how many bytes of a payload a viewer looks at.
const HeadLen = 64

// Arrival is one tag as a viewer sees it.
type Arrival struct {
	Kind      byte
	Timestamp uint32
	Size      int       // of the payload
	Waited    bool      // the viewer had to wait for some byte of it
	At        time.Time // when the last byte was there; unset unless Waited
	// First bytes of the payload, at most HeadLen; valid until the next call of Next.
	Head []byte
}

// Protocol carries streams to a server and back. Its methods are called from many goroutines at
// once. A connection that it opens ends with ctx; one for publishing ends a moment later, so that
// the stream can have its end.
type Protocol interface {
	// Publish returns once the server is ready for the first tag, or, where the protocol has no
	// such answer, once the request is sent.
	Publish(ctx context.Context, name string) (Publication, error)
	// Watch returns once the server has agreed to send the stream.
	Watch(ctx context.Context, name string) (Subscription, error)
	// String names the server, for messages.
	String() string
}

// Publication is used by one goroutine.
type Publication interface {
	// WriteTag borrows t.Payload.
	WriteTag(t Tag) error
	Close() error
}

// Subscription is used by one goroutine.
type Subscription interface {
	// Next waits for the next tag and describes it in a.
	Next(a *Arrival) error
	Close() error
}

// RefusedError is an answer that is a refusal. Status begins with a number if the protocol has
// numbers, as in "409 Conflict".
type RefusedError struct{ Status string }

func (e *RefusedError) Error() string { return fmt.Sprintf("load: refused: %s", e.Status) }
