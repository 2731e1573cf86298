//go:build !linux

package nettest

// reserve reports whether a port is free. It reserves nothing, because on these systems no server
// could listen on a reserved port.
func reserve(port int) (release func(), ok bool) {
	return func() {}, canListen(port)
}
