//go:build !linux

package fanout

// A vector counts writes. On this system it has no scratch memory.
type vector struct{ tally }

// newSocketConn returns nil, because on this system each viewer has its own goroutine.
func newSocketConn(streamConn) Conn { return nil }
