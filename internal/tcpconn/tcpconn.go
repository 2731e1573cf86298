// Package tcpconn finds the TCP connection under what an HTTP or RTMP server is given, and sets its options.
package tcpconn

import "net"

// Of returns the TCP connection that carries what is written to c: c, or the one under TLS; nil if there is none. It is
// there to be asked and told what TCP knows, and not to be read from or written to.
func Of(c net.Conn) *net.TCPConn {
	if sealed, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = sealed.NetConn()
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}
