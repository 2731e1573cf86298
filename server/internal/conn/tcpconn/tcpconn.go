// Package tcpconn finds the TCP connection underneath a connection of an HTTP or RTMP server, and
// sets its options.
package tcpconn

import (
	"context"
	"io"
	"net"
)

// Of returns the TCP connection underneath c, or nil if there is none. The result may be c itself.
// Of unwraps TLS and [proxy.Conn]. Use the result to get and set TCP options, but not to read or
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

// Plain returns c itself if c is a TCP connection. If c is a [proxy.Conn], Plain returns the TCP
// connection that c wraps. If c is anything else, such as a TLS connection, Plain returns nil. The
// result may be read from and written to, but the caller must close c, not the result.
func Plain(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case interface {
		NetConn() net.Conn
		ReadFrom(io.Reader) (int64, error) // a TLS connection has no such method
	}:
		tcp, _ := c.NetConn().(*net.TCPConn)
		return tcp
	}
	return nil
}

type connKey struct{}

// NewContext returns a copy of ctx that carries c, for the requests that arrive on c.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// FromContext returns the connection on which a request arrived, or nil.
func FromContext(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}
