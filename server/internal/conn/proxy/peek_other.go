//go:build !unix

package proxy

import "net"

// peekHeader returns 0, because this system cannot peek at data without consuming it.
func peekHeader(*net.TCPConn) (int, error) { return 0, nil }
