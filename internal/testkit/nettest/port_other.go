//go:build !linux

package nettest

// reserve only reports whether a port of 127.0.0.1 is free. On systems other than Linux, a server
// could not listen on a reserved port. The function release does nothing.
func reserve(port int) (release func(), ok bool) {
	return func() {}, canListen(port)
}
