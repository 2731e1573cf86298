package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// A client that is refused and sends nothing is disconnected.
func TestSilentRefusedClientIsDisconnected(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.Takeover = live.TakeoverNever })
	p := f.Publisher("cam")
	p.Send([]byte("x"))
	f.published("cam", 1)
	var all sync.WaitGroup
	for head, status := range map[string]string{
		"POST /live/cam HTTP/1.1\nHost: localhost\n":                            "409",
		"POST /live/cam HTTP/1.1\nHost: localhost\nExpect: 100-continue\n":      "409",
		"POST /live/other HTTP/1.1\nHost: example.org\n":                        "403",
		"POST /live/cam.mp4 HTTP/1.1\nHost: localhost\n":                        "400",
		"POST /nowhere HTTP/1.1\nHost: localhost\n":                             "404",
		"PATCH /live/cam HTTP/1.1\nHost: localhost\nContent-Type: text/plain\n": "405",
	} {
		all.Go(func() {
			conn := f.Dial(head + "Transfer-Encoding: chunked\n\n")
			res, err := io.ReadAll(conn)
			if err != nil || !bytes.HasPrefix(res, []byte("HTTP/1.1 "+status)) {
				t.Errorf("%q: %.100q, %v, want status %s", head, res, err, status)
			}
		})
	}
	all.Wait()
	f.Logged("publisher refused", "status=409", "publisher already")
	if res := p.End(); res.Status != 200 {
		t.Errorf("the first publisher of the name: %d %s", res.Status, res.Body)
	}
}

// A second publisher takes over, and the first one gets the reason: over HTTP/1, whenever it reads,
// and over HTTP/2.
func TestReplacedPublisherGetsTheReason(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*http.Client{"HTTP/1": http.DefaultClient,
		"HTTP/2": livetest.HTTP2(t, 1<<20)} {
		for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
			f := serve(t, func(c *Config) { c.Latency = latency })
			first := f.PublisherBy(client, "cam")
			first.Send(demo.Sample)
			f.published("cam", len(demo.Sample)-13)
			w := f.Watcher("/live/cam", 0)
			w.Next(100)
			second := f.Publisher("cam")
			second.Send(demo.Sample)
			if res := first.Wait(); res.Status != http.StatusConflict ||
				!strings.Contains(res.Body, "another publisher took over this stream") {
				t.Errorf("%s, latency %v: %d %s, want 409 that names the takeover", name, latency,
					res.Status, res.Body)
			}
			f.Logged("publisher ended", "status=409", "took over")
			if res := second.End(); res.Status != http.StatusOK {
				t.Errorf("%s, latency %v: the second one: %d %s", name, latency, res.Status,
					res.Body)
			}
			if w.Rest(); f.metric("millrace_publisher_takeovers_total") != "1" {
				t.Errorf("takeovers: %s, want 1", f.metric("millrace_publisher_takeovers_total"))
			}
		}
	}
}

// A request that announces an unwanted body and does not send it is answered, and its connection is
// closed.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel() // waits most of the time
	f := serve(t, func(c *Config) {
		c.HeaderTimeout, c.ViewerWait = 5*time.Second, 50*time.Millisecond
	})
	var all sync.WaitGroup
	for _, request := range []string{
		"GET /healthz 200", "GET /metrics 200", "GET / 200", "GET /api/streams 200",
		"OPTIONS /live/cam 204", "GET /live/cam 404",
		"HEAD /live/cam 404",
	} {
		for _, body := range []string{"Content-Length: 10\n\nhello",
			"Transfer-Encoding: chunked\n\n", "Expect: 100-continue\nContent-Length: 10\n\n"} {
			all.Go(func() {
				words := strings.Fields(request)
				conn := f.Dial(words[0] + " " + words[1] + " HTTP/1.1\nHost: localhost\n" + body)
				res, err := io.ReadAll(conn)
				if err != nil || !bytes.HasPrefix(res, []byte("HTTP/1.1 "+words[2])) {
					t.Errorf("%s, %q: %.100q, %v, want status %s", request, body, res, err,
						words[2])
				}
			})
		}
	}
	all.Wait()
}

// Connections without a complete request are closed. Over HTTP/2, unfinished requests share their
// connection with other streams, so the connection is closed when there has been no request for
// IdleTimeout.
func TestConnectionsWithoutARequestAreClosed(t *testing.T) {
	const preface = http2Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, tt := range []struct {
		name, sent   string
		header, idle time.Duration
		want         string // beginning of the response; "": there may be no response
	}{
		{"half a head", "GET /live/cam HTTP/1.1\r\nHost: loc", 50 * time.Millisecond, time.Minute,
			""},
		{"silence", "", 50 * time.Millisecond, time.Minute, ""},
		{"silence after a request", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", time.Minute,
			50 * time.Millisecond, "HTTP/1.1 200 OK"},
		{"HTTP/2, silence after the preface", preface, 20 * time.Millisecond,
			100 * time.Millisecond, ""},
		{"HTTP/2, half a head", preface + "\x00\x00\x20\x01\x05\x00\x00\x00\x01\x82\x84",
			20 * time.Millisecond, 100 * time.Millisecond, ""},
		{"a long head", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
			time.Minute, time.Minute, "HTTP/1.1 431 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // waits most of the time
			f := serve(t, func(c *Config) { c.HeaderTimeout, c.IdleTimeout = tt.header, tt.idle })
			conn := f.Dial("")
			_, _ = io.WriteString(conn, tt.sent)
			got, err := io.ReadAll(conn)
			if !bytes.HasPrefix(got, []byte(tt.want)) || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%.100q, %v, want %q and an end", got, err, tt.want)
			}
		})
	}
}
