//go:build !unix

package millrace

import "io"

// socket is a connection that can be waited for without a buffer. This system has none.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
