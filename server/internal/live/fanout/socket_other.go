//go:build !linux

package fanout

// A vector is the state of a goroutine that writes to viewers. On this system, it only counts the
// writes.
type vector struct{ tally }

// newSocketConn returns nil, because socketConn exists only on Linux.
func newSocketConn(streamConn) Conn { return nil }
