package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/internal/server/demo"
)

// patienceOfTests is how long a test waits for something that must happen. Only a failing test waits so long.
const patienceOfTests = 10 * time.Second

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

// A logBook keeps what is logged.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually fails the test if ok does not become true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patienceOfTests); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patienceOfTests, what)
		}
	}
}

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

// tcpPair returns the two ends of a connection, with kernel buffers as small as they get if small.
func tcpPair(t testing.TB, small bool) (sender, receiver *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	rcvbuf := 0
	if small {
		rcvbuf = 1
	}
	receiver = dial(t, ln.Addr().String(), rcvbuf)
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	sender = other.(*net.TCPConn)
	if small {
		_ = sender.SetWriteBuffer(1)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender, receiver
}

// dial opens a connection. Unless rcvbuf is 0 its receive buffer is so small, and its segments too: the kernel would wait for
// whole ones to have room, a fifth of a second each time.
func dial(t testing.TB, addr string, rcvbuf int) *net.TCPConn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if rcvbuf == 0 {
			return nil
		}
		ctlErr := raw.Control(func(fd uintptr) { err = narrow(fd, rcvbuf) })
		return errors.Join(err, ctlErr)
	}}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
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

// waiting waits until n viewers wait for the stream to come.
func (f *fixture) waiting(name string, n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d viewers that wait for %s", n, name), func() bool {
		f.registry.mu.Lock()
		defer f.registry.mu.Unlock()
		w := f.registry.waiting[name]
		return w != nil && w.viewers == n
	})
}

// viewers waits until n viewers are served.
func (f *fixture) viewers(n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d viewers", n), func() bool { return f.census.count() == n })
}

// published waits until the stream has taken n bytes after its FLV header.
func (f *fixture) published(name string, n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d bytes of %s", n, name), func() bool {
		s := f.registry.find(name)
		return s != nil && s.bytesIn.Load() >= int64(n)
	})
}

// A script is an FLV stream in pieces, made up but well-formed.
type script struct {
	header []byte   // 13 bytes
	config [][]byte // metadata, then the sequence headers
	tags   [][]byte // pictures and sound
	keys   []int    // indices in tags of key frames
}

// whole returns the stream's bytes.
func (s *script) whole() []byte { return bytes.Join([][]byte{s.start(), bytes.Join(s.tags, nil)}, nil) }

// start returns what comes before the tags.
func (s *script) start() []byte {
	return bytes.Join([][]byte{s.header, bytes.Join(s.config, nil)}, nil)
}

// from returns what a viewer gets that starts at tag i: everything but the tags before.
func (s *script) from(i int) []byte {
	return bytes.Join([][]byte{s.start(), bytes.Join(s.tags[i:], nil)}, nil)
}

// newScript makes a stream of groups of pictures, each of pictures of size bytes with as many pieces of sound in between.
func newScript(groups, pictures, size int) *script {
	rnd := rand.New(rand.NewPCG(uint64(groups), uint64(size)))
	s := &script{
		header: []byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"),
		config: [][]byte{
			flvTag(flv.TypeScript, 0, append([]byte("\x02\x00\x0aonMetaData\x08\x00\x00\x00\x02"),
				"\x00\x05width\x00\x40\x84\x00\x00\x00\x00\x00\x00\x00\x06height\x00\x40\x76\x80\x00\x00\x00\x00\x00\x00\x00\x09"...)),
			avcHeader(),
			flvTag(flv.TypeAudio, 0, []byte("\xaf\x00\x12\x10")),
		},
	}
	at := uint32(0)
	for range groups {
		for i := range pictures {
			first := byte(0x27)
			if i == 0 {
				first = 0x17
				s.keys = append(s.keys, len(s.tags))
			}
			s.tags = append(s.tags, flvTag(flv.TypeVideo, at, append([]byte{first, 1, 0, 0, 0}, noise(rnd, size)...)))
			s.tags = append(s.tags, flvTag(flv.TypeAudio, at+10, append([]byte{0xaf, 1}, noise(rnd, 100)...)))
			at += 40
		}
	}
	return s
}

// avcHeader returns the sample's sequence header: one that decoders understand.
func avcHeader() []byte {
	for p := demo.Sample[13:]; ; {
		n := 15 + int(p[1])<<16 + int(p[2])<<8 + int(p[3])
		if p[0] == byte(flv.TypeVideo) {
			return p[:n:n]
		}
		p = p[n:]
	}
}

func noise(rnd *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return p
}

func flvTag(kind flv.Type, at uint32, data []byte) []byte {
	p := []byte{byte(kind), 0, 0, 0, byte(at >> 16), byte(at >> 8), byte(at), byte(at >> 24), 0, 0, 0}
	p[1], p[2], p[3] = byte(len(data)>>16), byte(len(data)>>8), byte(len(data))
	p = append(p, data...)
	return binary.BigEndian.AppendUint32(p, uint32(11+len(data)))
}

// cut cuts what a viewer got behind the header into tags, by a parser of the test's own. It fails if the end is not a tag's.
func cut(t testing.TB, p []byte) [][]byte {
	t.Helper()
	var tags [][]byte
	for len(p) > 0 {
		if len(p) < 15 {
			t.Fatalf("%d bytes behind tag %d", len(p), len(tags))
		}
		n := 15 + int(p[1])<<16 + int(p[2])<<8 + int(p[3])
		if len(p) < n || binary.BigEndian.Uint32(p[n-4:]) != uint32(n-4) {
			t.Fatalf("tag %d is damaged", len(tags))
		}
		tags, p = append(tags, p[:n]), p[n:]
	}
	return tags
}

// same compares long byte slices without printing them.
func same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: %d bytes, want %d; they differ from byte %d on", what, len(got), len(want), i)
}

// shortStream returns a stream that keeps few frames, so that it is soon in its steady state.
func shortStream(t testing.TB) *stream {
	t.Helper()
	cfg := Defaults()
	cfg.KeepFrames = 64
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st := s.newStream("cam", "test")
	if err := s.registry.claim(st); err != nil {
		t.Fatal(err)
	}
	return st
}
