package access

import (
	"context"
	"net"
	"net/http"
	"strings"
)

// overTLS reports whether the client uses TLS to connect to this server or to a trusted proxy.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

type nodeKey struct{}

// WithNode returns a context for a request from another node of the cluster. The argument node is
// the address that the other node states in a header of the request. The other node must have
// proved that it knows the cluster's token.
func WithNode(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// NodeOf returns the address of the node that has made the request, as stated by the node. If the
// client is not a node, ok is false.
func NodeOf(r *http.Request) (node string, ok bool) {
	node, ok = r.Context().Value(nodeKey{}).(string)
	return node, ok
}

func withoutPort(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// IsLoopback reports whether only this machine can reach a listener with the address addr.
func IsLoopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default:
		return false
	}
}

// IsThisMachine reports whether hostport, the Host of a request, can only mean this machine.
func IsThisMachine(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.EqualFold(host, "localhost") ||
		strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true // no Host means HTTP/1.0, which browsers do not use
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
