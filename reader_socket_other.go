//go:build !unix

package millrace

import "io"

// socket does nothing on this system. A Reader therefore holds a block while it waits for bytes
// from a connection.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
