//go:build !linux

package tcpconn

import "net"

// BoundUnsent does nothing on this system.
func BoundUnsent(*net.TCPConn, int) {}
