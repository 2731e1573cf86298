//go:build !linux

package fanout

// A vector counts the writes to viewers. On Linux it also holds memory for writev.
type vector struct{ tally }

// newSocketConn returns nil, because on this system each viewer has its own goroutine.
func newSocketConn(streamConn) Conn { return nil }
