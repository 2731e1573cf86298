//go:build !unix

package millrace

import "io"

// socket is not used on this operating system. Here a Reader holds a buffer while it waits for data
// from a connection.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
