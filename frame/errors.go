package frame

import (
	"fmt"
	"time"
)

// LimitError refuses a frame whose header announces a payload above the limit for its kind. It is returned before the
// payload is waited for.
type LimitError struct {
	Kind  uint32
	Have  int // bytes announced
	Limit int // bytes allowed
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("frame: payload of %d bytes announced in a frame of kind %#x, limit %d", e.Have, e.Kind, e.Limit)
}

// Part is a part of a frame.
type Part uint8

// The parts of a frame.
const (
	InHeader Part = iota
	InPayload

	parts // how many there are
)

var partNames = [parts]string{"header", "payload"}

// String returns "header" or "payload".
func (p Part) String() string {
	if p < parts {
		return partNames[p]
	}
	return fmt.Sprintf("Part(%d)", uint8(p))
}

// TimeoutError says that a header that had begun, or a payload, did not come in time (see [Deadlines]). It is not an
// os.ErrDeadlineExceeded: that one comes from a deadline that the caller has set, after which Next may be called again.
type TimeoutError struct {
	Part  Part
	After time.Duration // the time that it had
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("frame: the rest of a %v did not come within %v", e.Part, e.After)
}
