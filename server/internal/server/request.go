package server

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"github.com/millrace-io/millrace/server/internal/store"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// connContext returns the context for the requests of a connection. The context contains the
// connection, the [answer.Loan] of its HTTP/1 requests, and the [address.Account] that limits the
// client's address.
func connContext(ctx context.Context, c net.Conn) context.Context {
	ctx = answer.NewContext(tcpconn.NewContext(ctx, c), c)
	if p := proxy.Of(c); p != nil {
		ctx = address.NewContext(ctx, p)
	}
	return ctx
}

// requestConn returns the proxy.Conn of a request, or nil.
func requestConn(r *http.Request) *proxy.Conn {
	return proxy.Of(tcpconn.FromContext(r.Context()))
}

// takesBytes reports whether responses for path count toward --max-address-bytes.
func takesBytes(path string) bool {
	return strings.HasPrefix(path, streamname.Path) || strings.HasPrefix(path, store.FilesPath) ||
		strings.HasPrefix(path, store.BlobsPath)
}
