package flv

import (
	"errors"
	"fmt"
)

// ErrNotFLV is returned, possibly wrapped with the reason, for a stream that does not begin with an FLV header.
var ErrNotFLV = errors.New("flv: not an FLV stream")

// LimitError refuses something whose announced size is above a limit. It is returned before the bytes are waited for.
type LimitError struct {
	What  string // what is too large, with the name of the limit
	Have  int64  // bytes announced
	Limit int64  // bytes allowed
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("flv: %s: %d bytes announced, limit %d", e.What, e.Have, e.Limit)
}

// PrevTagSizeError says that the four bytes after a tag do not repeat its size: the stream is damaged, or its size fields
// cannot be trusted.
type PrevTagSizeError struct {
	Have uint32 // what the stream says
	Want uint32 // 11 + the tag's data
}

func (e *PrevTagSizeError) Error() string {
	return fmt.Sprintf("flv: previous-tag-size is %d after a tag of %d bytes", e.Have, e.Want)
}
