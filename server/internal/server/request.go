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

// overTLS reports whether the client's request came over TLS, here or at a trusted proxy.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// takesBytes reports whether what is at path is counted for --max-address-bytes.
func takesBytes(path string) bool {
	return strings.HasPrefix(path, "/live/") || strings.HasPrefix(path, filesPath) || strings.HasPrefix(path, blobsPath)
}

// requestedStream returns the name of the stream that the request is about, or "".
func requestedStream(r *http.Request) string {
	path, ok := strings.CutPrefix(r.URL.Path, "/live/")
	if !ok {
		return ""
	}
	return streamname.Of(path)
}

type nodeKey struct{}

// fromNode reports whether another node makes the request.
func fromNode(r *http.Request) bool { return r.Context().Value(nodeKey{}) != nil }

// askingNode returns the address of the node that makes the request, as it says.
func askingNode(r *http.Request) string {
	node, _ := r.Context().Value(nodeKey{}).(string)
	return node
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

func withoutPort(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
