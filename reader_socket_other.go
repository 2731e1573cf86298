//go:build !unix

package millrace

import "io"

// socket is a connection that a Reader can wait for without a buffer. No connection is one on this
// operating system.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
