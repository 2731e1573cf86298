package server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// h2 returns a client that speaks HTTP/2 without TLS and lets window bytes of an answer wait unread.
func h2(t *testing.T, window int) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestHTTP2(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(3, 10, 2000)
	client := h2(t, 1<<20)

	body, send := io.Pipe()
	published := make(chan response, 1)
	go func() {
		res, err := client.Post(f.url("/live/cam"), "video/x-flv", body)
		if err != nil {
			published <- response{body: err.Error()}
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		published <- response{res.StatusCode, res.Header, string(text)}
	}()
	_, _ = send.Write(sc.start())
	f.published("cam", 1)

	res, err := client.Get(f.url("/live/cam.flv"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 200 || res.Header.Get("Content-Type") != "video/x-flv" {
		t.Fatalf("%s %d %v", res.Proto, res.StatusCode, res.Header)
	}
	_, _ = send.Write(bytes.Join(sc.tags, nil))
	got := make([]byte, len(sc.whole()))
	if _, err := io.ReadFull(res.Body, got); err != nil {
		t.Fatal(err)
	}
	same(t, "the stream", got, sc.whole())
	if n := f.metric(`millrace_viewers{path="responsewriter"}`); n != "1" {
		t.Errorf("%s viewers by way of a ResponseWriter", n)
	}
	_ = send.Close()
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes more, %v", len(rest), err)
	}
	if res := <-published; res.status != 200 || !strings.Contains(res.body, `"format":"flv"`) {
		t.Errorf("%d %s", res.status, res.body)
	}
}

func TestAStalledHTTP2ViewerIsDropped(t *testing.T) {
	f := serve(t, func(c *Config) { c.StallTimeout = 50 * time.Millisecond })
	sc := newScript(4, 5, 100_000)
	client := h2(t, 64<<10)
	p := f.publish("cam")
	p.send(sc.start())
	f.published("cam", 1)
	res, err := client.Get(f.url("/live/cam"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p.send(bytes.Join(sc.tags, nil))
	f.logged("viewer ended", "reason=stalled")
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("what was cut looks like the stream's proper end")
	}
	p.end()
}

func TestAnHTTP2PublisherThatFallsSilentGets408(t *testing.T) {
	f := serve(t, func(c *Config) { c.PublishTimeout = 50 * time.Millisecond })
	body, send := io.Pipe()
	defer send.Close()
	go func() { _, _ = send.Write([]byte("x")) }()
	res, err := h2(t, 64<<10).Post(f.url("/live/cam"), "", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", res.StatusCode)
	}
}

// A wrapper that hides the connection costs speed, not function.
func TestBehindAWrapper(t *testing.T) {
	f := serve(t, nil)
	f.logged("listening")
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.routes().ServeHTTP(hidden{w, w.(http.Flusher)}, r)
	}))
	defer behind.Close()
	sc := newScript(3, 10, 2000)
	wrapped := *f
	wrapped.addr = strings.TrimPrefix(behind.URL, "http://")
	w := wrapped.ask("/live/cam", 0)
	f.waiting("cam", 1)
	p := wrapped.publish("cam")
	p.send(sc.whole())
	w.begin()
	same(t, "the stream", w.read(len(sc.whole())), sc.whole())
	p.end()
	w.rest()
}

// hidden is a ResponseWriter that nobody can look behind.
type hidden struct {
	http.ResponseWriter
	http.Flusher
}
