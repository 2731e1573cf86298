//go:build !unix

package millrace

import "io"

// socket is a connection whose data a Reader can wait for without a buffer. This operating system
// supports none.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
