package load

import (
	"context"
	"fmt"
	"time"
)

// The kinds of tags, with their values in FLV and RTMP.
const (
	Audio  byte = 8
	Video  byte = 9
	Script byte = 18
)

// Tag is one message of a stream. Payload is the data after the header, which is the same in FLV
// and RTMP.
type Tag struct {
	Kind      byte
	Timestamp uint32 // milliseconds
	Payload   []byte
}

// HeadLen is the number of bytes at the start of a tag's payload that an Arrival keeps in its field
// Head.
const HeadLen = 64

// Arrival describes one tag that a viewer has received.
type Arrival struct {
	Kind      byte
	Timestamp uint32
	Size      int       // size of the payload in bytes
	Waited    bool      // the viewer had to wait for at least one byte of the tag
	At        time.Time // arrival time of the last byte; only set if Waited is set
	// Head is the first HeadLen bytes of the payload, or all of it. It is valid until the next call
	// to Next.
	Head []byte
}

// Protocol transfers streams to a server and back. Its methods may be called from many goroutines
// at once. When ctx ends, the Protocol closes its Subscriptions at once. It closes its Publications
// a moment later, so that it can send the end of the stream.
type Protocol interface {
	// Publish starts a publication. It returns when the server is ready for the first tag. If the
	// protocol has no answer to the request, Publish returns when the request has been sent.
	Publish(ctx context.Context, name string) (Publication, error)
	// Watch starts a subscription, and returns when the server has accepted it.
	Watch(ctx context.Context, name string) (Subscription, error)
	// String returns the name of the server, for messages.
	String() string
}

// Publication is a stream that is being published. Only one goroutine at a time may use it.
type Publication interface {
	// WriteTag sends a tag. It borrows t.Payload.
	WriteTag(t Tag) error
	Close() error
}

// Subscription is a stream that is being watched. Only one goroutine at a time may use it.
type Subscription interface {
	// Next waits for the next tag and describes it in *a.
	Next(a *Arrival) error
	Close() error
}

// RefusedError reports that the server refused a request. Status begins with the status number, if
// any, such as "409 Conflict".
type RefusedError struct{ Status string }

func (e *RefusedError) Error() string { return fmt.Sprintf("load: refused: %s", e.Status) }
