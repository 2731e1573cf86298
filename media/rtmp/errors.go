package rtmp

import (
	"errors"
	"fmt"
)

// A LimitError reports that a peer has exceeded a limit. The excess bytes were not stored.
type LimitError struct {
	What  string // name of the limited value
	Have  int64
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("rtmp: %s: %d, limit %d", e.What, e.Have, e.Limit)
}

var (
	errNestedHeader = errors.New(
		"rtmp: a message begins in the middle of another one of the same chunk stream")
	errAggregate = errors.New("rtmp: an aggregate message ends in the middle of a part")
	errPart      = errors.New(
		"rtmp: an aggregate message has a part that sets the chunk size, aborts or is an aggregate")
	errChunkSize = errors.New("rtmp: set chunk size: want 1 to 2147483647 in 4 bytes")
)
