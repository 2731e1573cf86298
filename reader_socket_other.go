//go:build !unix

package millrace

import "io"

// socket is not used on this operating system. On this system, a Reader holds a block of memory
// while it waits for data from a connection.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
