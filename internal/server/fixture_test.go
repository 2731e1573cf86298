package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/relay"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// patienceOfTests is how long a test waits for something that must happen. Only a failing test waits so long.
const patienceOfTests = nettest.Timeout

type logBook = nettest.LogBook

var (
	eventually = nettest.Eventually
	tcpPair    = nettest.TCPPair
	dial       = nettest.Dial
	same       = nettest.Same
)

// A fixture is a server on a loopback port, and what it logs.
type fixture struct {
	*Server
	t    testing.TB
	addr string
	log  *logBook
	stop func() // as SIGTERM does; returns when Serve has
}

// serve starts a server. change may be nil.
func serve(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	book := &logBook{}
	cfg := Defaults()
	cfg.Version = "test"
	cfg.Latency = 5 * time.Millisecond
	cfg.ViewerWait = patienceOfTests
	cfg.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&cfg)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, cfg, book, ln, nil)
}

func serveOn(t testing.TB, cfg Config, book *logBook, ln, admin net.Listener) *fixture {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln, admin) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the server's log:\n%s", book)
		}
	})
	return &fixture{Server: s, t: t, addr: ln.Addr().String(), log: book, stop: stop}
}

func (f *fixture) url(path string) string { return "http://" + f.addr + path }

// logged waits until all of words stand in one line of the log.
func (f *fixture) logged(words ...string) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("a log line with %q", words), func() bool {
		for line := range strings.Lines(f.log.String()) {
			if containsAll(line, words) {
				return true
			}
		}
		return false
	})
}

func containsAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

// A publisher sends a stream in chunks, as encoders do.
type publisher struct {
	t      testing.TB
	body   *io.PipeWriter
	answer chan response
}

type response struct {
	status int
	header http.Header
	body   string
}

// publish starts a publisher of the given name. What goes to body is sent.
func (f *fixture) publish(name string) *publisher {
	f.t.Helper()
	r, w := io.Pipe()
	p := &publisher{t: f.t, body: w, answer: make(chan response, 1)}
	req, err := http.NewRequest(http.MethodPost, f.url("/live/"+name), r)
	if err != nil {
		f.t.Fatal(err)
	}
	go func() {
		res := f.do(req)
		_ = r.CloseWithError(io.ErrClosedPipe)
		p.answer <- res
	}()
	f.t.Cleanup(func() { _ = w.Close() })
	return p
}

func (p *publisher) send(b []byte) {
	p.t.Helper()
	if _, err := p.body.Write(b); err != nil {
		p.t.Errorf("publishing: %v", err)
	}
}

// end ends the body and returns the answer.
func (p *publisher) end() response {
	p.t.Helper()
	_ = p.body.Close()
	return p.wait()
}

func (p *publisher) wait() response {
	p.t.Helper()
	select {
	case res := <-p.answer:
		return res
	case <-time.After(patienceOfTests):
		p.t.Fatal("the publisher got no answer")
		return response{}
	}
}

// do makes a request and reads the whole answer. Status 0 is an error, whose text is the body.
func (f *fixture) do(req *http.Request) response {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return response{body: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		body = append(body, err.Error()...)
	}
	return response{res.StatusCode, res.Header, string(body)}
}

func (f *fixture) get(path string) response {
	f.t.Helper()
	req, err := http.NewRequest(http.MethodGet, f.url(path), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.do(req)
}

// A watcher is a viewer of a test.
type watcher struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
	res  *http.Response
}

// watch connects a viewer with a receive buffer of rcvbuf bytes (0: the system's choice) and reads the response's head.
func (f *fixture) watch(path string, rcvbuf int) *watcher {
	f.t.Helper()
	w := f.ask(path, rcvbuf)
	w.begin()
	return w
}

// ask is watch without the head.
func (f *fixture) ask(path string, rcvbuf int) *watcher {
	f.t.Helper()
	conn := dial(f.t, f.addr, rcvbuf)
	_ = conn.SetDeadline(time.Now().Add(2 * patienceOfTests))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, f.addr)
	return &watcher{t: f.t, conn: conn, r: bufio.NewReader(conn)}
}

func (w *watcher) begin() {
	w.t.Helper()
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		w.t.Fatalf("the response's head: %v", err)
	}
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		w.t.Fatalf("status %d: %s", res.StatusCode, body)
	}
	w.res = res
}

// read reads exactly n bytes.
func (w *watcher) read(n int) []byte {
	w.t.Helper()
	p := make([]byte, n)
	if m, err := io.ReadFull(w.res.Body, p); err != nil {
		w.t.Fatalf("after %d of %d bytes: %v", m, n, err)
	}
	return p
}

// rest reads to the end.
func (w *watcher) rest() []byte {
	w.t.Helper()
	p, err := io.ReadAll(w.res.Body)
	if err != nil {
		w.t.Fatalf("after %d bytes: %v", len(p), err)
	}
	return p
}

// published waits until there is the stream, and all of them have taken n bytes after their FLV headers.
func (f *fixture) published(name string, n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d bytes of %s", n, name), func() bool {
		there := slices.ContainsFunc(f.relay.Streams(), func(s relay.StreamInfo) bool { return s.Name == name })
		return there && f.relay.Stats().BytesIn >= int64(n)
	})
}

// metric returns the value of a metric, as the text of its line, or "" if there is none (yet).
func (f *fixture) metric(name string) string {
	f.t.Helper()
	for line := range strings.Lines(f.get("/metrics").body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// h2 returns a client that speaks HTTP/2 without TLS and lets window bytes of an answer wait unread.
func h2(t *testing.T, window int) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
