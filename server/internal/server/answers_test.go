package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A stalledClient is an HTTP/2 client with a window of 0: it accepts no byte of a body.
type stalledClient struct {
	net.Conn
	stream uint32
}

const frameReset = 3

// stall opens a connection of a stalledClient, over TLS if secure.
func stall(t *testing.T, addr string, secure bool) *stalledClient {
	t.Helper()
	var conn net.Conn = dial(t, addr, 0)
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	const initialWindow = 4
	settings := http2RawFrame{kind: frameSettings, payload: []byte{0, initialWindow, 0, 0, 0, 0}}
	_, err := conn.Write(append([]byte(http2Preface), settings.bytes()...))
	if err != nil {
		t.Fatal(err)
	}
	return &stalledClient{conn, 1}
}

const (
	get  = 0x82 // index in the table of HPACK
	post = 0x83

	endStream, endHeaders = 1, 4 // flags
)

// head returns the head of a request for path, of up to 126 bytes.
func (c *stalledClient) head(method byte, path string, flags byte) []byte {
	p := append([]byte{method, 0x86, 0x44, byte(len(path))}, path...) // scheme http, and the path
	p = append(append(p, 0x41, byte(len("localhost"))), "localhost"...)
	return http2RawFrame{kind: frameHeaders, flags: flags, stream: c.stream, payload: p}.bytes()
}

// ask sends n GET requests for path.
func (c *stalledClient) ask(path string, n int) {
	var all []byte
	for range n {
		all = append(all, c.head(get, path, endHeaders|endStream)...)
		c.stream += 2
	}
	_, _ = c.Write(all)
}

// send sends a POST request.
func (c *stalledClient) send(path, body string) {
	data := http2RawFrame{kind: frameData, flags: endStream, stream: c.stream,
		payload: []byte(body)}
	_, _ = c.Write(append(c.head(post, path, endHeaders), data.bytes()...))
	c.stream += 2
}

// await reads frames until one of the given kind.
func (c *stalledClient) await(t *testing.T, what string, kind byte) {
	t.Helper()
	r := bufio.NewReader(c)
	for {
		f, err := readHTTP2Frame(r)
		if err != nil {
			t.Fatalf("%s: %v, want an answer", what, err)
		}
		if f.kind == kind {
			return
		}
	}
}

// Every response that an HTTP/2 client does not read counts against the budget, and has a deadline.
func TestUnreadResponsesGiveWay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		secure bool
		stall  time.Duration // long enough to see the memory, or short enough to see the end
	}{{false, testTimeout}, {true, testTimeout}, {false, 2 * time.Second},
		{true, 2 * time.Second}} {
		secure, ends := tt.secure, tt.stall < testTimeout
		cfg := Defaults()
		cfg.StallTimeout, cfg.ViewerWait, cfg.Root, cfg.Blobs = tt.stall, 0, t.TempDir(),
			t.TempDir()
		if secure {
			cfg.TLSCert, cfg.TLSKey = writeCertificate(t, t.TempDir(), 1)
		}
		l := Listeners{Main: listen(t), Admin: listen(t)}
		main, admin := l.Main.Addr().String(), l.Admin.Addr().String()
		f := serveOn(t, cfg, &logBook{}, l)
		holds := func() int64 {
			return f.budget.Requests.Bytes() + f.budget.Operator.Bytes() + f.budget.HLS.Bytes() + f.budget.Downloads.Bytes()
		}
		if !secure {
			p := f.Publisher("cam")
			p.Send(demo.Sample)
			defer p.End()
			eventually(t, "HLS", func() bool {
				return f.Get("/live/cam/media.m3u8").Status == http.StatusOK
			})
		}
		asked := map[string]*stalledClient{}
		for _, path := range []string{"/", "/page/none", "/api/streams", "/metrics", "/healthz",
			"/none", "/files", "/files/none", "/blobs/none",
			"/blobs/a//b", "/live/", "/live/none", "/live/none/index.m3u8", "/live/cam/none",
			"/live/cam.flv?start=x", "/page/page.css",
			"/live/cam/index.m3u8", "/live/cam/media.m3u8?token=x"} {
			if secure && strings.HasPrefix(path, "/live/cam") {
				continue
			}
			c := stall(t, main, secure)
			c.ask(path, 1)
			if ends {
				asked[path] = c
			} else {
				eventually(t, path+" to hold memory",
					func() bool { return holds() >= answer.RequestBytes })
				_ = c.Close()
				eventually(t, path+" to hold none", func() bool { return holds() == 0 })
			}
		}
		if !ends {
			continue
		}
		for _, path := range []string{"/live/sent", "/live/", "/none", "/blobs/"} {
			c := stall(t, main, secure)
			c.send(path, "x")
			asked["POST "+path] = c
		}
		for _, path := range []string{"/", "/metrics", "/api/streams", "/api/streams/none",
			"/healthz", "/debug/pprof/", "/none"} {
			c := stall(t, admin, false)
			c.ask(path, 1)
			asked["admin: "+path] = c
		}
		for what, c := range asked {
			c.await(t, what, frameReset)
		}
		eventually(t, "nothing to be held", func() bool { return holds() == 0 })
		for _, c := range asked {
			_ = c.Close()
		}
	}
}

// Responses that are not read use no more than their part of the budget, and other clients get
// responses.
func TestAnswersHaveABudget(t *testing.T) {
	f := serve(t, func(c *Config) { c.MemoryBytes = 256 << 20 })
	limit := f.budget.Share()
	for _, path := range []string{"/metrics", "/healthz", "/live/none/media.m3u8"} {
		var clients []*stalledClient
		for range 2 * int(limit/answer.RequestBytes) / http2Streams {
			c := stall(t, f.Addr, false)
			c.ask(path, http2Streams)
			clients = append(clients, c)
		}
		most := int64(0)
		eventually(t, "others to be answered", func() bool {
			most = max(most, f.budget.Requests.Bytes())
			return f.Get("/healthz").Status == http.StatusOK
		})
		if most > 2*limit {
			t.Errorf("%s: %d bytes are held, and the limit is %d", path, most, limit)
		}
		for _, c := range clients {
			_ = c.Close()
		}
		eventually(t, "nothing to be held", func() bool { return f.budget.Requests.Bytes() == 0 })
	}
	// Requests above the limit are refused without a body.
	for range 2 * int(limit/answer.RequestBytes) / http2Streams {
		c := stall(t, f.Addr, false)
		c.ask("/healthz", http2Streams)
	}
	eventually(t, "refusals", func() bool {
		return f.refusals.Counts()[access.Refused{Client: access.Reader, Cause: refuse.Memory}] > 0
	})
}

// Responses that viewers do not read leave memory for the responses of the admin listener.
func TestAnswersOfTheAdminListener(t *testing.T) {
	cfg := Defaults()
	cfg.MemoryBytes = 256 << 20
	l := Listeners{Main: listen(t), Admin: listen(t)}
	admin := "http://" + l.Admin.Addr().String()
	f := serveOn(t, cfg, &logBook{}, l)
	var loan memory.Loan
	f.budget.Requests.Add(&loan, 2*f.budget.Share(), func() {})
	defer loan.Done()
	if got := f.Get("/healthz").Status; got != http.StatusServiceUnavailable {
		t.Errorf("a viewer: status %d", got)
	}
	for _, path := range []string{"/metrics", "/api/streams", "/healthz"} {
		res, err := http.Get(admin + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, want 200", path, res.StatusCode)
		}
	}
}

// A download that an HTTP/2 client does not read counts when memory is short.
func TestStalledDownloadsGiveWay(t *testing.T) {
	f := serve(t, func(c *Config) { c.Blobs = t.TempDir() })
	if res := f.Request("PUT", "/blobs/large",
		strings.Repeat("x", 1<<20)); res.Status != http.StatusCreated {
		t.Fatal(res)
	}
	c := stall(t, f.Addr, false)
	c.ask("/blobs/large", 3)
	eventually(t, "downloads", func() bool { return f.budget.Downloads.Bytes() >= 3*answer.RequestBytes })
	eventually(t, "them to end", func() bool {
		return f.budget.Downloads.Free(1<<20, time.Millisecond) > 0
	})
	c.await(t, "the end", frameReset)
	eventually(t, "nothing to be held", func() bool {
		return f.budget.Downloads.Bytes() == 0 && f.budget.Requests.Bytes() == 0
	})
}

// Downloads that are not read use no more than their part of the budget. Publishers and viewers are
// accepted.
func TestDownloadsHaveABudget(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 32<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) { c.Root, c.Blobs, c.MemoryBytes = dir, t.TempDir(), 64<<20 })
	if res := f.Request("PUT", "/blobs/large",
		strings.Repeat("x", 32<<20)); res.Status != http.StatusCreated {
		t.Fatal(res)
	}
	limit := f.budget.Memory.Limit() / 4 // the downloads' part of the budget
	for _, path := range []string{"/files/large", "/blobs/large"} {
		var clients []net.Conn
		for range limit / answer.RequestBytes {
			c := dial(t, f.Addr, 4<<10)
			_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
			clients = append(clients, c)
			if len(clients)%100 == 0 { // until they are downloads, requests count against another budget
				eventually(t, "requests to be downloads",
					func() bool {
						return f.budget.Downloads.Bytes() == int64(len(clients))*answer.RequestBytes
					})
			}
		}
		eventually(t, "downloads", func() bool { return f.budget.Downloads.Bytes() == limit })
		if res := f.Get(path); res.Status != http.StatusServiceUnavailable ||
			!strings.Contains(res.Body, "--memory") {
			t.Errorf("%s: status %d, want 503 that names --memory", path, res.Status)
		}
		p := f.Publisher("cam")
		p.Send(demo.Sample)
		if res := f.Get("/live/cam/index.m3u8"); res.Status != http.StatusOK {
			t.Errorf("HLS: status %d", res.Status)
		}
		p.End()
		for _, c := range clients {
			_ = c.Close()
		}
		eventually(t, "nothing to be held", func() bool { return f.budget.Downloads.Bytes() == 0 })
	}
}
