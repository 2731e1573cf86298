package chunk

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by the reading methods of a Reader after Close.
	ErrClosed = errors.New("chunk: Reader is closed")

	// ErrTooLong is the Err of a [RecordError] for a record that is longer than [MaxRecord].
	ErrTooLong = errors.New("chunk: record is longer than the limit")

	// ErrNoRecord is the Err of a [RecordError] if no record can begin with the bytes at its
	// Offset.
	ErrNoRecord = errors.New("chunk: not a record")

	// ErrNoPosition is returned by [OpenTail] if no file of the log has the [Position].
	ErrNoPosition = errors.New("chunk: no file has the position")

	errBroken = errors.New("chunk: the source or the Cutter has panicked")
)

// A RecordError reports that the Reader stopped at a record that it cannot return. Err is
// [ErrTooLong], [ErrNoRecord], or [io.ErrUnexpectedEOF] if the source ended within the record.
//
// Before this error, the Reader returns all complete records. If the source ended within the
// record, it also returns the incomplete record, as the last chunk. It returns no bytes of a record
// that is too long or invalid.
type RecordError struct {
	Offset int64 // start of the record, in bytes from the first byte that the Reader read
	Limit  int   // maximum length of a record, in bytes
	Err    error
}

func (e *RecordError) Error() string {
	switch e.Err { // the texts of ErrTooLong and ErrNoRecord would repeat "chunk: record"
	case ErrTooLong:
		return fmt.Sprintf("chunk: record at offset %d: longer than the limit of %d bytes",
			e.Offset, e.Limit)
	case ErrNoRecord:
		return fmt.Sprintf("chunk: record at offset %d: not a record", e.Offset)
	}
	return fmt.Sprintf("chunk: record at offset %d: %v", e.Offset, e.Err)
}

// Unwrap returns e.Err.
func (e *RecordError) Unwrap() error { return e.Err }
