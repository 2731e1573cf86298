//go:build !unix

package millrace

import "io"

// socket is not used on this system: a Reader holds a block while it waits for a connection.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
