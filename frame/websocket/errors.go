package websocket

import "fmt"

// Type is the type of a message.
type Type byte

// The types of messages.
const (
	Text   Type = 1 // UTF-8
	Binary Type = 2
)

// String returns "text" or "binary".
func (t Type) String() string {
	switch t {
	case Text:
		return "text"
	case Binary:
		return "binary"
	}
	return fmt.Sprintf("Type(%d)", byte(t))
}

// Code is the reason why a connection is closed (RFC 6455, section 7.4).
type Code uint16

// Codes that servers use. Applications may use 3000 to 4999.
const (
	NormalClosure   Code = 1000
	GoingAway       Code = 1001
	ProtocolError   Code = 1002
	UnsupportedData Code = 1003
	NoStatus        Code = 1005 // the client sent no code; cannot be sent
	InvalidPayload  Code = 1007 // such as text that is not UTF-8
	PolicyViolation Code = 1008
	MessageTooBig   Code = 1009
	InternalError   Code = 1011
)

// valid reports whether a close frame may contain c.
func (c Code) valid() bool {
	return c >= 1000 && c <= 1014 && c != 1004 && c != NoStatus && c != 1006 ||
		c >= 3000 && c <= 4999
}

// CloseError reports that the client closed the connection or violated the protocol.
type CloseError struct {
	Code   Code
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("websocket: closed with code %d: %s", e.Code, e.Reason)
}

// LimitError reports a message that is longer than the MaxMessage of [Options]. The connection was
// closed with the code MessageTooBig.
type LimitError struct{ Limit int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("websocket: message of more than %d bytes", e.Limit)
}
