//go:build !linux

package fanout

// A vector is the state of a goroutine that writes to viewers. On this system, it only counts the
// writes.
type vector struct{ tally }

// newSocketConn always returns nil, because socketConn exists only on Linux. On this system, each
// viewer has a separate goroutine.
func newSocketConn(streamConn) Conn { return nil }
