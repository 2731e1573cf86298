//go:build !linux

package nettest

// reserve reports whether a port of 127.0.0.1 is free. It reserves nothing, because on systems
// other than Linux the server under test could not listen on a reserved port. The returned function
// does nothing.
func reserve(port int) (release func(), ok bool) {
	return func() {}, canListen(port)
}
