package millrace

import (
	"errors"
	"fmt"
	"log/slog"
)

// The forms of Chains and Refs in text and logs. They show only the length, because the bytes may
// be secret.

var errJSON = errors.New("millrace: a Chain or Ref has no JSON form: encode the result of Bytes")

// String returns the number of bytes and pieces, such as "120 bytes in 2 pieces".
func (c Chain) String() string { return fmt.Sprintf("%d bytes in %d pieces", c.size, c.Pieces()) }

// LogValue returns a group with the number of bytes (len) and pieces (pieces).
func (c Chain) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("len", c.size), slog.Int("pieces", c.Pieces()))
}

// MarshalJSON always returns an error. Otherwise encoding/json would encode every Chain as {}.
func (c Chain) MarshalJSON() ([]byte, error) { return nil, errJSON }

// String returns the number of bytes, such as "120 bytes".
func (r Ref) String() string { return fmt.Sprintf("%d bytes", r.n) }

// LogValue returns a group with the number of bytes (len).
func (r Ref) LogValue() slog.Value { return slog.GroupValue(slog.Int("len", int(r.n))) }

// MarshalJSON always returns an error. Otherwise encoding/json would encode every Ref as {}.
func (r Ref) MarshalJSON() ([]byte, error) { return nil, errJSON }
