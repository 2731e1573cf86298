//go:build !unix

package millrace

import "io"

// socket is not used on this operating system, where a Reader cannot wait for a connection without
// a buffer.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
