package broadcast

import (
	"errors"
	"fmt"
)

// ErrClosed is returned by Publish on a closed ring, and by Take on a closed cursor.
var ErrClosed = errors.New("broadcast: closed")

// FrameTooLargeError is returned by Publish for a frame that would not fit even into an empty ring.
type FrameTooLargeError struct {
	Size  int64 // length of the frame, in bytes
	Limit int64 // the ring's MaxBytes

	Pieces    int // number of contiguous pieces of the frame
	MaxPieces int // the ring's limit of pieces; see MaxFrames
}

func (e *FrameTooLargeError) Error() string {
	if e.Size <= e.Limit {
		return fmt.Sprintf("broadcast: a frame of %d pieces is above the limit of %d", e.Pieces,
			e.MaxPieces)
	}
	return fmt.Sprintf("broadcast: a frame of %d bytes is above MaxBytes (%d)", e.Size, e.Limit)
}
