package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/internal/server/demo"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// testTimeout is how long a test waits for something that must happen. Only a failing test waits so long.
const testTimeout = nettest.Timeout

type logBook = nettest.LogBook

var (
	eventually = nettest.Eventually
	tcpPair    = nettest.TCPPair
	dial       = nettest.Dial
	same       = nettest.Same
)

// A fixture is a Hub behind a server on a loopback port, and what it logs.
type fixture struct {
	*Hub
	t    testing.TB
	addr string
	log  *logBook
	stop func() // as SIGTERM does; returns when the Hub is empty
}

// testConfig is the configuration of tests.
func testConfig() Config {
	return Config{
		MaxStreams: 128, MaxViewers: 4096, MaxStreamViewers: 4096,
		PublishTimeout: 30 * time.Second, ViewerWait: testTimeout, StallTimeout: 30 * time.Second,
		KeepBytes: 16 << 20, KeepFrames: 16384, MaxTagBytes: 4 << 20,
		Latency: 5 * time.Millisecond,
		LagTime: 5 * time.Second, LagBytes: 8 << 20, LagPolicy: Skip,
		Unsent: 128 << 10,
		Log:    slog.New(slog.DiscardHandler),
	}
}

// drainTime is how long a fixture's stop waits for viewers.
const drainTime = 2 * time.Second

// serve starts a server. change may be nil.
func serve(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	return serveTLS(t, change, nil)
}

// serveTLS is serve over TLS unless config is nil.
func serveTLS(t testing.TB, change func(*Config), config *tls.Config) *fixture {
	t.Helper()
	book := &logBook{}
	cfg := testConfig()
	cfg.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&cfg)
	}
	h := New(cfg)
	srv := httptest.NewUnstartedServer(routes(h))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Config.HTTP2 = &http.HTTP2Config{WriteByteTimeout: cfg.StallTimeout + 2*inspectEvery}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if srv.TLS = config; config != nil {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		h.Drain(ctx)
	})
	t.Cleanup(func() {
		stop()
		http.DefaultClient.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
		if t.Failed() {
			t.Logf("the log:\n%s", book)
		}
	})
	return &fixture{Hub: h, t: t, addr: srv.Listener.Addr().String(), log: book, stop: stop}
}

// routes has the streams at /live/, as package server does.
func routes(h *Hub) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/live/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		var err error
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			err = h.Watch(w, r, name)
		} else if name, err = PublishName(name); err == nil {
			err = h.Publish(w, r, name)
		}
		var refused *Refusal
		if errors.As(err, &refused) {
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
			http.Error(w, err.Error(), refused.Status)
		}
	})
	return mux
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
	case <-time.After(testTimeout):
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
	_ = conn.SetDeadline(time.Now().Add(2 * testTimeout))
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
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.Hub.waiting[name]) == n
	})
}

// viewers waits until n viewers are served.
func (f *fixture) viewers(n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d viewers", n), func() bool { return f.Viewers() == n })
}

// lookUp returns the stream that viewers see, or nil.
func (h *Hub) lookUp(name string) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.find(name)
}

// published waits until the stream has taken n bytes after its FLV header.
func (f *fixture) published(name string, n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d bytes of %s", n, name), func() bool {
		s := f.lookUp(name)
		return s != nil && s.bytesIn.Load() >= int64(n)
	})
}

// metric returns what package server shows as the metric millrace_name.
func (f *fixture) metric(name string) string {
	st := f.Stats()
	values := map[string]int64{
		"millrace_groups_cut_total": st.GroupsCut, "millrace_viewers_blocked": int64(st.Blocked),
	}
	for path, p := range st.Paths {
		values[fmt.Sprintf("millrace_viewers{path=%q}", path)] = p.Viewers
	}
	for name, byReason := range map[string]map[string]int64{
		"viewers_dropped_total": st.Dropped, "viewers_behind_total": st.FoundBehind, "frames_lost_total": st.FramesLost,
	} {
		for reason, n := range byReason {
			values[fmt.Sprintf("millrace_%s{reason=%q}", name, reason)] = n
		}
	}
	n, ok := values[name]
	if !ok {
		f.t.Fatalf("no metric %s", name)
	}
	return fmt.Sprint(n)
}

// api returns the streams as package server's API tells of them.
func (f *fixture) api() string {
	text, err := json.Marshal(f.Streams())
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
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

// shortStream returns a publisher of a stream that keeps few frames, so that it is soon in its steady state.
func shortStream(t testing.TB) *Publisher {
	t.Helper()
	cfg := testConfig()
	cfg.KeepFrames, cfg.Latency = 64, 0 // the timer of a latency bound starts goroutines
	p, err := New(cfg).Open("cam", "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
