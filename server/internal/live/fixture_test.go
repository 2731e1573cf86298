package live_test

import (
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
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/streamname"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
	"github.com/millrace-io/millrace/server/internal/web"
)

// testTimeout is how long a test waits for an event that must happen. Only a failing test waits so
// long.
const testTimeout = nettest.Timeout

var (
	eventually = nettest.Eventually
	tcpPair    = nettest.TCPPair
	same       = nettest.Same
)

// A fixture is a Hub behind a server on a loopback port, and its log.
type fixture struct {
	*live.Hub
	livetest.Client
	rtmp *rtmp.Acceptor
	stop func() // does the same as SIGTERM, and returns when the Hub is empty

	// nextTimeout is how long an RTMP publisher that has ended its stream may wait before it
	// publishes again; 0 means a second.
	nextTimeout time.Duration
}

// defaultLatency is the default of millrace serve, as are the other defaults of the tests.
const defaultLatency = 50 * time.Millisecond

// testConfig is the configuration of tests.
func testConfig() live.Config {
	return live.Config{
		MaxStreams: 128, MaxViewers: 4096, MaxStreamViewers: 4096,
		PublishTimeout: 30 * time.Second, ViewerWait: testTimeout, StallTimeout: 30 * time.Second,
		KeepBytes: 16 << 20, KeepFrames: 16384, MaxTagBytes: 4 << 20,
		Latency: 5 * time.Millisecond,
		LagTime: 5 * time.Second, LagBytes: 8 << 20, LagPolicy: live.Skip,
		Unsent: 128 << 10,
		Log:    slog.New(slog.DiscardHandler),
	}
}

// drainTime is how long stop waits for viewers.
const drainTime = 2 * time.Second

// serve starts a server. change may be nil.
func serve(t testing.TB, change func(*live.Config)) *fixture {
	t.Helper()
	return serveTLS(t, change, nil)
}

// serveTLS is serve over TLS, unless config is nil.
func serveTLS(t testing.TB, change func(*live.Config), config *tls.Config) *fixture {
	t.Helper()
	book := &nettest.LogBook{}
	cfg := testConfig()
	cfg.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&cfg)
	}
	h := live.NewHub(cfg)
	srv := httptest.NewUnstartedServer(routes(h))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Config.HTTP2 = &http.HTTP2Config{WriteByteTimeout: cfg.StallTimeout + time.Second/2}
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
	client := livetest.Client{T: t, Addr: srv.Listener.Addr().String(), Log: book}
	return &fixture{Hub: h, Client: client, rtmp: rtmp.New(h), stop: stop}
}

// nodeHeader marks a request as another node's. In package cluster, such a request needs a proof.
const nodeHeader = "Millrace-Node"

// routes serves the streams at /live/, as package server does.
func routes(h *live.Hub) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/live/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		var err error
		if node := r.Header.Get(nodeHeader); node != "" {
			err = web.New(h).WatchNode(w, r, name, node)
		} else if r.Method == http.MethodGet || r.Method == http.MethodHead {
			err = web.New(h).Watch(w, r, name, live.Terms{})
		} else if name, err = streamname.Published(name); err == nil {
			err = web.New(h).Publish(w, r, name, live.Terms{})
		}
		var refused *refuse.Refusal
		if errors.As(err, &refused) {
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
			http.Error(w, err.Error(), refused.Status)
		}
	})
	return mux
}

// waiting waits until n viewers wait for the stream.
func (f *fixture) waiting(name string, n int) {
	f.T.Helper()
	eventually(f.T, fmt.Sprintf("%d viewers that wait for %s", n, name), func() bool {
		return f.Waiters(name) == n
	})
}

// viewers waits until n viewers are served.
func (f *fixture) viewers(n int) {
	f.T.Helper()
	eventually(f.T, fmt.Sprintf("%d viewers", n), func() bool { return f.Viewers() == n })
}

// published waits until the stream has received n bytes after its FLV header.
func (f *fixture) published(name string, n int) {
	f.T.Helper()
	eventually(f.T, fmt.Sprintf("%d bytes of %s", n, name), func() bool {
		s := f.LookUp(name)
		return s != nil && s.Forms().Stats().PublishedBytes >= uint64(n)
	})
}

// metric returns the value that package server shows as the metric millrace_name.
func (f *fixture) metric(name string) string {
	st := f.Stats()
	values := map[string]int64{
		"millrace_groups_cut_total": st.GroupsCut, "millrace_video_left_out_total": st.LeftOut,
		"millrace_viewers_blocked": int64(st.Blocked),
	}
	for path, p := range st.Paths {
		values[fmt.Sprintf("millrace_viewers{path=%q}", path)] = p.Viewers
	}
	for name, byReason := range map[string]map[string]int64{
		"viewers_dropped_total": st.Dropped, "viewers_behind_total": st.FoundBehind,
		"frames_lost_total": st.FramesLost,
	} {
		for reason, n := range byReason {
			values[fmt.Sprintf("millrace_%s{reason=%q}", name, reason)] = n
		}
	}
	n, ok := values[name]
	if !ok {
		f.T.Fatalf("no metric %s", name)
	}
	return fmt.Sprint(n)
}

// api returns the streams as package server's API reports them.
func (f *fixture) api() string {
	text, err := json.Marshal(f.Streams())
	if err != nil {
		f.T.Fatal(err)
	}
	return string(text)
}

// A script is a synthetic, valid FLV stream in pieces.
type script struct {
	header []byte   // 13 bytes
	config [][]byte // metadata, then the sequence headers
	tags   [][]byte // video and audio frames
	keys   []int    // indices in tags of keyframes
}

// whole returns all bytes of the stream.
func (s *script) whole() []byte {
	return bytes.Join([][]byte{s.start(), bytes.Join(s.tags, nil)}, nil)
}

// start returns the bytes before the tags.
func (s *script) start() []byte {
	return bytes.Join([][]byte{s.header, bytes.Join(s.config, nil)}, nil)
}

// from returns the bytes for a viewer that starts at tag i: everything except the tags before.
func (s *script) from(i int) []byte {
	return bytes.Join([][]byte{s.start(), bytes.Join(s.tags[i:], nil)}, nil)
}

// newScript makes a stream of GOPs. Each GOP has video frames of size bytes, and as many audio
// frames in between.
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
			s.tags = append(s.tags, flvTag(flv.TypeVideo, at,
				append([]byte{first, 1, 0, 0, 0}, unit(noise(rnd, size))...)))
			s.tags = append(s.tags, flvTag(flv.TypeAudio, at+10,
				append([]byte{0xaf, 1}, noise(rnd, 100)...)))
			at += 40
		}
	}
	return s
}

// avcHeader returns the sample's sequence header, which decoders understand.
func avcHeader() []byte {
	for p := demo.Sample[13:]; ; {
		n := 15 + int(p[1])<<16 + int(p[2])<<8 + int(p[3])
		if p[0] == byte(flv.TypeVideo) {
			return p[:n:n]
		}
		p = p[n:]
	}
}

// unit changes p, in place, to a NAL unit with a slice, after its length. p has at least 6 bytes.
func unit(p []byte) []byte {
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	p[4] = 0x25
	return p
}

// unitOf returns such a unit with data in it.
func unitOf(data string) string { return string(unit(append(make([]byte, 5), data...))) }

func noise(rnd *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return p
}

func flvTag(kind flv.Type, at uint32, data []byte) []byte {
	p := []byte{byte(kind), 0, 0, 0, byte(at >> 16), byte(at >> 8), byte(at), byte(at >> 24), 0, 0,
		0}
	p[1], p[2], p[3] = byte(len(data)>>16), byte(len(data)>>8), byte(len(data))
	p = append(p, data...)
	return binary.BigEndian.AppendUint32(p, uint32(11+len(data)))
}

// chunked returns p as a chunk of a body.
func chunked(p []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(p), p) }

// cut splits the bytes of a viewer after the header into tags, with a parser of its own. It fails
// unless they end with a tag.
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

// shortStream returns a publisher of a stream that keeps few frames, so that the steady state is
// reached soon.
func shortStream(t testing.TB) *live.Publisher {
	t.Helper()
	cfg := testConfig()
	cfg.KeepFrames, cfg.Latency = 64, 0 // the timer of the latency bound would start goroutines
	p, err := live.NewHub(cfg).Open("cam", "test", live.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
