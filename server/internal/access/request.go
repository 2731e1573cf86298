package access

import (
	"context"
	"net"
	"net/http"
	"strings"
)

// overTLS reports whether the client uses TLS, to this server or to a trusted proxy.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

type nodeKey struct{}

// WithNode returns a context for a request of another cluster node that has proved itself. node is
// the address that the request states.
func WithNode(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// NodeOf returns the address of the node that made the request, as the node states it. ok is false
// for other clients.
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

// IsLoopback reports whether only this machine can reach a listener with the address a.
func IsLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default:
		return false
	}
}

// IsThisMachine reports whether the Host of a request can only mean this machine.
func IsThisMachine(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.EqualFold(host, "localhost") ||
		strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true // HTTP/1.0 requests have no Host, and browsers do not send them
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
