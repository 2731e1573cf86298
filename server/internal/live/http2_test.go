package live_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

func TestHTTP2(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(3, 10, 2000)
	client := livetest.HTTP2(t, 1<<20)

	p := f.PublisherBy(client, "cam")
	p.Send(sc.start())
	f.published("cam", 1)

	res, err := client.Get(f.URL("/live/cam.flv"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 200 ||
		res.Header.Get("Content-Type") != "video/x-flv" {
		t.Fatalf("%s %d %v, want HTTP/2, 200 and FLV", res.Proto, res.StatusCode, res.Header)
	}
	p.Send(bytes.Join(sc.tags, nil))
	got := make([]byte, len(sc.whole()))
	if _, err := io.ReadFull(res.Body, got); err != nil {
		t.Fatal(err)
	}
	same(t, "the stream", got, sc.whole())
	if n := f.metric(`millrace_viewers{path="responsewriter"}`); n != "1" {
		t.Errorf("%s viewers by way of a ResponseWriter", n)
	}
	_ = p.Body.Close()
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes more, %v", len(rest), err)
	}
	if res := p.Wait(); res.Status != 200 || !strings.Contains(res.Body, `"format":"flv"`) {
		t.Errorf("the publisher got %d %s, want 200", res.Status, res.Body)
	}
}

func TestStalledHTTP2ViewerIsDropped(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.StallTimeout = time.Second })
	sc := newScript(4, 5, 100_000)
	client := livetest.HTTP2(t, 64<<10)
	p := f.Publisher("cam")
	p.Send(sc.start())
	f.published("cam", 1)
	res, err := client.Get(f.URL("/live/cam"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p.Send(bytes.Join(sc.tags, nil))
	f.Logged("viewer ended", "reason=stalled")
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("what was cut looks like the stream's proper end")
	}
	p.End()
}

// A gatedConn is a client's connection that reads nothing while its gate is closed.
type gatedConn struct {
	net.Conn
	gate sync.RWMutex
}

func (c *gatedConn) Read(p []byte) (int, error) {
	c.gate.RLock()
	defer c.gate.RUnlock()
	return c.Conn.Read(p)
}

// h2Gated returns an HTTP/2 client with unlimited windows, and its only connection.
func (f *fixture) h2Gated(t *testing.T) (*http.Client, *gatedConn) {
	t.Helper()
	conn := &gatedConn{Conn: nettest.Dial(t, f.Addr, smallBuffer)}
	client := livetest.HTTP2(t, 1<<30)
	client.Transport.(*http.Transport).DialContext = func(context.Context, string,
		string) (net.Conn, error) {
		return conn, nil
	}
	return client, conn
}

// If a connection accepts nothing, the frames that would end its viewers do not get through either.
// The connection is closed.
func TestStalledHTTP2ConnectionIsClosed(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.StallTimeout = time.Second })
	sc := newScript(4, 5, 700_000)
	p := f.Publisher("cam")
	p.Send(sc.start())
	f.published("cam", 1)
	client, conn := f.h2Gated(t)
	for _, path := range []string{"/live/cam", "/live/cam.flv", "/live/cam"} {
		res, err := client.Get(f.URL(path))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	f.viewers(3)
	shut := make(chan struct{})
	go func() {
		conn.gate.Lock() // after the current read has returned
		close(shut)
	}()
	p.Send(bytes.Join(sc.tags, nil))
	<-shut
	defer conn.gate.Unlock()
	f.viewers(0)
	f.Logged("viewer ended", "reason=stalled")
	p.End()
}

// A viewer of a stream without frames gets its response header at once, as over HTTP/1.
func TestHTTP2ViewerGetsItsHeaderAtOnce(t *testing.T) {
	f := serve(t, nil)
	raw, cam := f.Publisher("raw"), f.Publisher("cam")
	raw.Send([]byte("hello"))
	cam.Send(newScript(1, 1, 100).start())
	f.published("raw", 1)
	f.published("cam", 1)
	client := livetest.HTTP2(t, 64<<10)
	client.Timeout = testTimeout
	for _, path := range []string{"/live/raw", "/live/cam.mp4"} {
		res, err := client.Get(f.URL(path))
		if err != nil {
			t.Errorf("%s: %v, want an answer before the first frame", path, err)
			continue
		}
		_ = res.Body.Close()
	}
	raw.End()
	cam.End()
}

// A publisher and many viewers on one connection, some of which leave, do not disturb each other.
func TestManyOnOneHTTP2Connection(t *testing.T) {
	const viewers = 120
	f := serve(t, func(c *live.Config) { c.Latency = time.Millisecond })
	sc := newScript(20, 5, 3000)
	client := livetest.HTTP2(t, 1<<20)
	p := f.PublisherBy(client, "cam")
	var all sync.WaitGroup
	p.Send(sc.start())
	f.published("cam", 1)
	for n := range viewers {
		path := "/live/cam"
		if n%3 == 0 {
			path += ".mp4"
		}
		all.Go(func() {
			res, err := client.Get(f.URL(path))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if n%4 == 0 {
				_, _ = io.CopyN(io.Discard, res.Body, int64(5000+n*100))
				return
			}
			got, err := io.ReadAll(res.Body)
			if err != nil || len(got) < len(sc.header) {
				t.Errorf("viewer %d: %d bytes, %v", n, len(got), err)
			} else if n%3 != 0 {
				same(t, "the stream", got, sc.whole())
			}
		})
	}
	f.viewers(viewers)
	for _, tag := range sc.tags {
		p.Send(tag)
	}
	if res := p.End(); res.Status != http.StatusOK {
		t.Errorf("the publisher: %d %s", res.Status, res.Body)
	}
	all.Wait()
	f.viewers(0)
}

// A wrapper that hides the connection costs speed, not function.
func TestBehindAWrapper(t *testing.T) {
	f := serve(t, nil)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		routes(f.Hub).ServeHTTP(hidden{w, w.(http.Flusher)}, r)
	}))
	defer behind.Close()
	sc := newScript(3, 10, 2000)
	wrapped := *f
	wrapped.Addr = strings.TrimPrefix(behind.URL, "http://")
	w := wrapped.Ask("/live/cam", 0)
	f.waiting("cam", 1)
	p := wrapped.Publisher("cam")
	p.Send(sc.whole())
	w.Begin()
	same(t, "the stream", w.Next(len(sc.whole())), sc.whole())
	if got := f.metric(`millrace_viewers{path="responsewriter"}`); got != "1" {
		t.Errorf("%s viewers by the metrics are written to in the ordinary way, want 1", got)
	}
	p.End()
	w.Rest()
}

// hidden is a ResponseWriter without an Unwrap method.
type hidden struct {
	http.ResponseWriter
	http.Flusher
}
