package flv

import (
	"errors"
	"fmt"
)

// ErrNotFLV reports that a stream does not begin with an FLV header. A Decoder returns ErrNotFLV
// itself, or an error that wraps ErrNotFLV and adds the reason.
var ErrNotFLV = errors.New("flv: not an FLV stream")

// LimitError reports that a header announces a size above a limit. A Decoder returns it before the
// bytes arrive.
type LimitError struct {
	What  string // name of the limited value and of the option
	Have  int64  // bytes announced
	Limit int64  // bytes allowed
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("flv: %s: %d bytes announced, limit %d", e.What, e.Have, e.Limit)
}

// PrevTagSizeError reports that the four bytes after a tag do not repeat its size.
type PrevTagSizeError struct {
	Have uint32 // the value in the stream
	Want uint32 // the correct value: 11 plus the size of the tag's data
}

func (e *PrevTagSizeError) Error() string {
	return fmt.Sprintf("flv: previous-tag-size is %d after a tag of %d bytes", e.Have, e.Want)
}
