//go:build !linux

package nettest

// reserve reports whether a port of 127.0.0.1 is free, but does not reserve the port. On systems
// other than Linux, reserving a port would also keep the server under test from listening on it.
// The function release does nothing.
func reserve(port int) (release func(), ok bool) {
	return func() {}, canListen(port)
}
