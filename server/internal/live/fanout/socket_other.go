//go:build !linux

package fanout

// A vector counts writes.
type vector struct{ tally }

// newSocketConn returns nil: on this system each viewer has its own goroutine.
func newSocketConn(streamConn) Conn { return nil }
