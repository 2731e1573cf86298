// Package tcpconn finds the TCP connection below a connection of an HTTP or RTMP server, and sets
// its options.
package tcpconn

import (
	"context"
	"io"
	"net"
)

// Of returns the TCP connection below c: c itself, or the one under TLS or under a connection with
// the address of a proxy's client; nil if there is none. It is for reading and setting TCP options,
// not for reading or writing data.
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

// Plain returns the TCP connection that c is, perhaps with the address of a proxy's client; nil if
// c is another one or has TLS. It may be read from and written to, but c must be closed.
func Plain(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case interface {
		NetConn() net.Conn
		ReadFrom(io.Reader) (int64, error) // which TLS does not have
	}:
		tcp, _ := c.NetConn().(*net.TCPConn)
		return tcp
	}
	return nil
}

type connKey struct{}

// NewContext returns ctx for the requests that come by c.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// FromContext returns the connection that a request came by, or nil.
func FromContext(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}
