package server

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/proxy"
	"github.com/millrace-io/millrace/server/internal/streamname"
	"github.com/millrace-io/millrace/server/internal/tcpconn"
)

type connKey struct{}

// connContext puts the connection where handlers find it.
func connContext(ctx context.Context, c net.Conn) context.Context {
	ctx = context.WithValue(ctx, connKey{}, c)
	if p := proxy.Of(c); p != nil {
		ctx = address.NewContext(ctx, p)
	}
	return ctx
}

// requestConn returns the connection of a request, or nil.
func requestConn(r *http.Request) *proxy.Conn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return proxy.Of(c)
}

// takesBytes reports whether what is at path is counted for --max-address-bytes.
func takesBytes(path string) bool {
	return strings.HasPrefix(path, streamname.Path) || strings.HasPrefix(path, filesPath) ||
		strings.HasPrefix(path, blobsPath)
}

// downloadConn returns the TCP connection that carries the response to r alone, or nil.
func downloadConn(r *http.Request) *net.TCPConn {
	c, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok || r.ProtoMajor != 1 {
		return nil
	}
	return tcpconn.Of(c)
}

// kernelSends reports whether a request came by HTTP/1 straight through TCP: then the kernel sends the file.
func kernelSends(r *http.Request) bool { return r.TLS == nil && r.ProtoMajor == 1 }
