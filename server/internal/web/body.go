package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/ingest"
)

// A publishBody reads the body of a publisher's request, and sends the response.
type publishBody interface {
	io.Reader
	// answer sends the response and ends the request.
	answer(status int, contentType string, text []byte)
}

// A connBody reads the body from a publisher's connection. net/http no longer uses this connection.
type connBody struct {
	io.Reader
	conn ingest.Conn
}

// newConnBody takes over the connection of r from net/http, and returns the body of the request. It
// returns nil and does nothing in two cases:
//
//   - The connection cannot be taken over, for example because it uses TLS or HTTP/2.
//   - Package ingest would read from the connection whenever bytes arrive, and not at regular
//     intervals (see ingest.ByClock). It would then have no advantage over net/http, which also
//     reads whenever bytes arrive.
func (d Handler) newConnBody(w http.ResponseWriter, r *http.Request, p *live.Publisher) *connBody {
	if r.ProtoMajor != 1 || r.TLS != nil || !ingest.ByClock(d.cfg.Latency) {
		return nil
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	if len(early) == 0 && r.ProtoAtLeast(1, 1) &&
		strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		// If this write fails, the first read fails as well.
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	b := &connBody{conn: p.Ingest(conn)}
	all := io.MultiReader(bytes.NewReader(bytes.Clone(early)), b.conn)
	if r.ContentLength >= 0 {
		b.Reader = io.LimitReader(all, r.ContentLength)
	} else {
		b.Reader = httputil.NewChunkedReader(bufio.NewReaderSize(all, bodyBuffer))
	}
	return b
}

// bodyBuffer is the size, in bytes, of the buffer for reading a chunked body. At 5 Mbit/s, an
// encoder sends this many bytes in 50 ms.
const bodyBuffer = 32 << 10

func (b *connBody) answer(status int, contentType string, text []byte) {
	conn, err := b.conn.Release()
	if err != nil {
		return // the connection has been closed
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(tcpconn.LingerTime))
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
		status, http.StatusText(status), contentType, len(text))
	if _, err := conn.Write(append([]byte(head), text...)); err == nil {
		tcpconn.Linger(conn)
	}
}

// A handlerBody reads the body of a publisher's request from net/http. It is used if newConnBody
// does not take over the connection.
type handlerBody struct {
	*ingest.Reader
	w     http.ResponseWriter
	r     *http.Request
	write time.Duration // time limit for writing the response
}

func (d Handler) newHandlerBody(w http.ResponseWriter, r *http.Request,
	p *live.Publisher) *handlerBody {
	set := http.NewResponseController(w).SetReadDeadline
	return &handlerBody{ingest.NewReader(r.Body, set, p, d.cfg.PublishTimeout), w, r,
		d.cfg.StallTimeout}
}

func (b *handlerBody) answer(status int, contentType string, text []byte) {
	b.Stop() // so that nothing uses the ResponseWriter after the handler has returned
	_ = http.NewResponseController(b.w).SetWriteDeadline(time.Now().Add(b.write))
	h := b.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if b.r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	b.w.WriteHeader(status)
	_, _ = b.w.Write(text)
}
