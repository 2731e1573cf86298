//go:build !linux

package nettest

// reserve reports whether a port is free. It does not reserve the port, because only Linux lets a
// server listen on a reserved port.
func reserve(port int) (release func(), ok bool) {
	return func() {}, canListen(port)
}
