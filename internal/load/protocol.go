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
// message. The data is the same in both.
type Tag struct {
	Kind      byte
	Timestamp uint32 // milliseconds
	Payload   []byte
}

// HeadLen is how many bytes at the start of a payload a viewer keeps for its checks.
const HeadLen = 64

// Arrival describes one tag that a viewer received.
type Arrival struct {
	Kind      byte
	Timestamp uint32
	Size      int       // size of the payload in bytes
	Waited    bool      // the viewer had to wait for at least one byte of the tag
	At        time.Time // arrival time of the last byte; not set unless Waited is
	// First bytes of the payload, at most HeadLen; valid until the next call of Next.
	Head []byte
}

// Protocol transfers streams to a server and back. Its methods are called from many goroutines at
// once. When ctx ends, it closes the connections that it has opened. It closes a connection for
// publishing a moment later, so that the end of the stream can be sent.
type Protocol interface {
	// Publish returns when the server is ready for the first tag. If the protocol has no such
	// answer, it returns when the request has been sent.
	Publish(ctx context.Context, name string) (Publication, error)
	// Watch returns when the server has agreed to send the stream.
	Watch(ctx context.Context, name string) (Subscription, error)
	// String returns the name of the server, for messages.
	String() string
}

// Publication is a stream that is being published. One goroutine uses it.
type Publication interface {
	// WriteTag sends a tag. It borrows t.Payload.
	WriteTag(t Tag) error
	Close() error
}

// Subscription is a stream that is being watched. One goroutine uses it.
type Subscription interface {
	// Next waits for the next tag and sets a to its description.
	Next(a *Arrival) error
	Close() error
}

// RefusedError reports that the server refused a request. Status begins with a number if the
// protocol has numbers, as in "409 Conflict".
type RefusedError struct{ Status string }

func (e *RefusedError) Error() string { return fmt.Sprintf("load: refused: %s", e.Status) }
