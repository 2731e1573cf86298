package chunk

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by a Reader's reading methods after Close.
	ErrClosed = errors.New("chunk: Reader is closed")

	// ErrTooLong is what a [RecordError] wraps when a record is longer than [MaxRecord] allows.
	ErrTooLong = errors.New("chunk: record is longer than the limit")

	// ErrNoRecord is what a [RecordError] wraps when the [Cutter] says that no record can begin
	// like this one.
	ErrNoRecord = errors.New("chunk: not a record")

	errBroken = errors.New("chunk: the source or the Cutter has panicked")
)

// A RecordError means that the Reader cannot continue because of the record that begins at Offset.
// Err, which errors.Is sees, is the reason: [ErrTooLong], [ErrNoRecord], or [io.ErrUnexpectedEOF]
// when the source ended within the record.
//
// All chunks before the record have been returned. The record's bytes have not, except when the
// source ended: then the last chunk was the part of it that arrived.
type RecordError struct {
	Offset int64 // bytes from where the Reader began to read its source to where the record begins
	Limit  int   // bytes: how long a record may be
	Err    error
}

func (e *RecordError) Error() string {
	switch e.Err { // the texts of the package's own have its name already
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
