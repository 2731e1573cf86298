//go:build !race && !invariants && linux

package server

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
)

// A noResponse is an HTTP/1 response that discards everything.
type noResponse struct{ header http.Header }

func (w *noResponse) Header() http.Header              { return w.header }
func (w *noResponse) WriteHeader(int)                  {}
func (w *noResponse) Write(p []byte) (int, error)      { return len(p), nil }
func (w *noResponse) Flush()                           {}
func (w *noResponse) SetWriteDeadline(time.Time) error { return nil }
func (w *noResponse) ReadFrom(src io.Reader) (int64, error) {
	return src.(io.WriterTo).WriteTo(io.Discard)
}

// A request of an HLS player costs few allocations in addition to the allocations of net/http. The
// server gets as many of these requests as it has viewers, several times per second.
func TestHLSRequestsAllocateLittle(t *testing.T) {
	f := serve(t, nil)
	p, part, _ := f.publishSample(t)
	defer p.End()
	ln := proxy.Listen(listen(t), proxy.Config{Trusted: &f.clients.trusted,
		Addresses: f.clients.addresses})
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h := f.httpServer(f.clients.withClientAddr(f.routes(f.observer(&Listeners{}))),
		&f.budget.Requests).Handler
	for _, tt := range []struct {
		path string
		most float64
	}{
		{"media.m3u8", 4}, {"media.m3u8?_HLS_msn=0&_HLS_part=0&_HLS_skip=YES", 4}, {part, 4},
	} {
		r, err := http.NewRequestWithContext(connContext(t.Context(), conn), "GET",
			"http://"+f.Addr+"/live/cam/"+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip")
		w := &noResponse{make(http.Header)}
		const requests = 100
		n := alloctest.Count(tt.most*requests, func() {
			for range requests {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		}) / requests
		if len(w.header) < 4 || n > tt.most {
			t.Errorf("%s: %v allocations for a response with the header %v, want at most %v",
				tt.path, n, w.header, tt.most)
		}
	}
}
