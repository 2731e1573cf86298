package frame

import (
	"fmt"
	"time"
)

// LimitError reports a header that announces a payload above the limit for its kind. A Decoder
// returns it before the payload arrives.
type LimitError struct {
	Kind  uint32
	Have  int // bytes announced
	Limit int // bytes allowed
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("frame: payload of %d bytes announced in a frame of kind %#x, limit %d",
		e.Have, e.Kind, e.Limit)
}

// HeaderError reports that the first Limit bytes of a frame do not contain a whole header. Limit is
// the format's MaxHeader.
type HeaderError struct{ Limit int }

func (e *HeaderError) Error() string {
	return fmt.Sprintf("frame: no complete header in %d bytes, the limit", e.Limit)
}

// Part is a part of a frame: the header or the payload.
type Part uint8

// The parts of a frame.
const (
	InHeader Part = iota
	InPayload

	parts // number of parts
)

var partNames = [parts]string{"header", "payload"}

// String returns "header" or "payload".
func (p Part) String() string {
	if p < parts {
		return partNames[p]
	}
	return fmt.Sprintf("Part(%d)", uint8(p))
}

// TimeoutError reports that a header or a payload was not complete in time (see [Deadlines]). This
// error ends the stream.
//
// A TimeoutError does not match os.ErrDeadlineExceeded. If a deadline that the caller has set
// expires, Next instead returns an error that matches os.ErrDeadlineExceeded, and the caller may
// call Next again.
type TimeoutError struct {
	Part  Part
	After time.Duration // the limit
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("frame: the rest of a %v did not come within %v", e.Part, e.After)
}
