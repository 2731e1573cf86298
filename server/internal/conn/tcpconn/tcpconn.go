// Package tcpconn finds the TCP connection underneath a connection of an HTTP or RTMP server, and
// sets its options.
package tcpconn

import (
	"context"
	"io"
	"net"
)

// Of returns c if it is a TCP connection, or the TCP connection that c wraps with TLS or as a
// [proxy.Conn]. Otherwise it returns nil. Use the result only for TCP options, not to read or
// write.
func Of(c net.Conn) *net.TCPConn {
	for {
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = over.NetConn()
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}

// Plain returns c if it is a TCP connection, or the TCP connection inside c if c is a [proxy.Conn].
// For other connections, such as TLS connections, it returns nil. The caller may read from the
// result and write to it. To close the connection, it must close c, not the result.
func Plain(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case interface {
		NetConn() net.Conn
		ReadFrom(io.Reader) (int64, error) // not a method of a TLS connection
	}:
		tcp, _ := c.NetConn().(*net.TCPConn)
		return tcp
	}
	return nil
}

type connKey struct{}

// NewContext returns a context with the connection c, for the requests on c.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// FromContext returns the connection on which a request arrived, or nil.
func FromContext(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}
