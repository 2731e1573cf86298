// Package tcpconn finds the TCP connection underneath another connection, and sets its options.
package tcpconn

import (
	"context"
	"io"
	"net"
)

// Of returns the TCP connection underneath c, which may be a TLS connection or a [proxy.Conn]. If c
// itself is a TCP connection, Of returns c. For other connections, it returns nil. The caller must
// not read from the result or write to it.
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

// Plain returns the TCP connection underneath c if c is a [proxy.Conn]. If c itself is a TCP
// connection, Plain returns c. For other connections, such as TLS connections, it returns nil. The
// caller may read from the result and write to it, but must close c instead of the result.
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

// NewContext returns a copy of ctx that contains c. It is for the requests that arrive on the
// connection c.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// FromContext returns the connection that NewContext has added to ctx, or nil if there is none.
func FromContext(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}
