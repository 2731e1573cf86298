package chunk

import (
	"context"
	"net"
	"syscall"
)

// corkMost is the length of the longest body that leaves together with its header. One packet more does not matter to a
// longer one.
const corkMost = 64 << 10

// connKey is the key of a connection in the context of its requests.
type connKey struct{}

// ConnContext is meant for http.Server.ConnContext. With it a FileHandler knows the connection before net/http sends
// the header, and can have the header leave together with a body of up to 64 KiB. That is one packet less, a tenth of
// what it costs to send 16 KiB.
//
//	server := &http.Server{Handler: files, ConnContext: chunk.ConnContext}
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.TCPConn)
	if !ok {
		return ctx
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, raw)
}

// connOf returns the connection in ctx, or nil.
func connOf(ctx context.Context) syscall.RawConn {
	raw, _ := ctx.Value(connKey{}).(syscall.RawConn)
	return raw
}
