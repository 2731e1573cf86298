package chunk

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by a Reader's reading methods after Close.
	ErrClosed = errors.New("chunk: Reader is closed")

	// ErrTooLong is the reason in a [RecordError] if a record is longer than [MaxRecord] allows.
	ErrTooLong = errors.New("chunk: record is longer than the limit")

	// ErrNoRecord is the reason in a [RecordError] if the [Cutter] reports that no record can begin
	// like this one.
	ErrNoRecord = errors.New("chunk: not a record")

	errBroken = errors.New("chunk: the source or the Cutter has panicked")
)

// A RecordError reports that the Reader stopped at a record that it cannot return. Offset is the
// start of the record. Err is the reason, which errors.Is finds: [ErrTooLong], [ErrNoRecord], or
// [io.ErrUnexpectedEOF] if the source ended within the record.
//
// The Reader has returned all chunks before the record. If the source ended within the record, the
// last chunk is the part of the record that has arrived. Otherwise no bytes of the record are
// returned.
type RecordError struct {
	Offset int64 // start of the record, in bytes from the start of reading the source
	Limit  int   // longest record allowed, in bytes
	Err    error
}

func (e *RecordError) Error() string {
	switch e.Err { // the texts of this package's own errors already begin with its name
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
