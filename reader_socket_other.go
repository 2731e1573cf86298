//go:build !unix

package millrace

import "io"

// socket stands for a connection whose readiness can be waited for; on this system there is none.
type socket struct{}

func newSocket(*Reader, io.Reader) *socket { return nil }

func (*socket) receive() {}
