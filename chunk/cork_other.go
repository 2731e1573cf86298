//go:build !linux

package chunk

import "net"

func cork(*net.TCPConn)   {}
func uncork(*net.TCPConn) {}
