package live_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// For any body, a publisher gets a clear response, the reason is logged, and other streams are not
// affected.
func TestHostilePublishers(t *testing.T) {
	sc := newScript(2, 5, 500)
	valid := sc.whole()
	with := func(change func(p []byte)) string {
		p := bytes.Clone(valid)
		change(p)
		return string(p)
	}
	second := len(sc.start()) + len(sc.tags[0]) // offset of the second tag
	for _, tt := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"tag above the limit", with(func(p []byte) {
			p[second+1], p[second+2], p[second+3] = 0xff, 0xff, 0xff
		}), 413, "--max-tag-bytes"},
		{"wrong previous-tag-size", with(func(p []byte) {
			binary.BigEndian.PutUint32(p[second-4:], 7)
		}), 400, "previous-tag-size"},
		{"size that leads astray", with(func(p []byte) { p[second+3]++ }), 400,
			"previous-tag-size"},
		{"cut in a tag", string(valid[:second+20]), 400, "unexpected EOF"},
		{"cut in a tag's header", string(valid[:second+5]), 400, "unexpected EOF"},
		{"cut in the header", "FLV\x01\x05", 400, "unexpected EOF"},
		{"header without an end", "FLV\x01\x05\x00\x00\x04\x00" + strings.Repeat("x", 100), 400,
			"unexpected EOF"},
		{"another file behind the first", string(valid) + string(valid), 400,
			"a second FLV header"},
		{"tags of no kind", string(sc.header) + string(flvTag(3, 0,
			make([]byte, 200))) + string(flvTag(31, 0, nil)), 200, ""},
		{"codecs of no kind", string(sc.header) + string(flvTag(9, 0,
			append([]byte{0x1f}, make([]byte, 200)...))) + string(flvTag(8, 0,
			nil)) + string(flvTag(9, 0, []byte{0x90})), 200, ""},
		{"sequence header above what is remembered",
			string(sc.header) + string(flvTag(9, 0,
				append([]byte{0x17, 0, 0, 0, 0}, make([]byte, flvstream.MaxPart)...))), 200, ""},
	} {
		atEachLatency(t, tt.name, nil, func(t *testing.T, f *fixture) {
			good := f.Publisher("good")
			good.Send(valid[:second])
			f.published("good", second-len(sc.header))
			viewer := f.Watcher("/live/good", 0)
			viewer.Next(second)

			victim := f.Ask("/live/bad", 0)
			f.waiting("bad", 1)
			opens := len(tt.body) > 200 // far enough to become a stream
			res := f.Request("POST", "/live/bad", tt.body)
			if res.Status != tt.status || !strings.Contains(res.Body, tt.says) {
				t.Errorf("%d %q, want %d with %q", res.Status, res.Body, tt.status, tt.says)
			}
			f.Logged("publisher ended", "stream=bad", fmt.Sprintf("status=%d", tt.status), tt.says)
			if opens {
				victim.Begin()
				cut(t, victim.Rest()[len(sc.header):]) // its viewer got whole tags
			}

			good.Send(valid[second:])
			same(t, "the good stream", viewer.Next(len(valid)-second), valid[second:])
			good.End()
		})
	}
}

func TestABodyThatIsCut(t *testing.T) {
	for name, head := range map[string]string{
		"of a length": "POST /live/cam HTTP/1.1\nHost: localhost\nContent-Length: 1000000\n\n" + strings.Repeat("x", 128),
		"in chunks":   "POST /live/cam HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n80\n" + strings.Repeat("x", 128),
	} {
		atEachLatency(t, name, nil, func(t *testing.T, f *fixture) {
			w := f.Ask("/live/cam", 0)
			f.waiting("cam", 1)
			conn := f.Dial(head)
			w.Begin()
			w.Next(100)
			_, _ = io.WriteString(conn, "\r\n1000\r\nthe beginning of a chunk")
			_ = conn.Close()
			w.Rest() // a regular end
			f.Logged("publisher ended", "unexpected EOF", "status=400")
		})
	}
}

// A publisher that is still sending gets one response, and no connection reset in its place.
// Pipelined requests after the body are not answered. If net/http reads the body, the kernel may
// reset the connection after the response.
func TestRefusalReachesASendingPublisher(t *testing.T) {
	more := strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 20_000)
	refused := string(newScript(1, 1, 100).whole()) +
		"\x09\xff\xff\xff" + strings.Repeat("\x00", 900<<10)
	for name, tt := range map[string]struct{ head, body, status, says string }{
		"malformed chunks": {"Transfer-Encoding: chunked", "5\r\nhelloXX", "400",
			"malformed chunked encoding"},
		"refused in the middle": {"Content-Length: 100000000", refused, "413", "--max-tag-bytes"},
		"more behind a length":  {"Content-Length: 5", "hello" + more, "200", `"bytes":5`},
		"more behind chunks": {"Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n" + more,
			"200", `"bytes":5`},
	} {
		atEachLatency(t, name, nil, func(t *testing.T, f *fixture) {
			conn := f.Dial("POST /live/cam HTTP/1.1\nHost: localhost\n" + tt.head + "\n\n")
			go func() { _, _ = io.WriteString(conn, tt.body) }()
			res, err := io.ReadAll(conn)
			if err != nil && (f.Config().Latency > 0 || tt.status != "200") ||
				bytes.Count(res, []byte("HTTP/1.1")) != 1 ||
				!bytes.HasPrefix(res, []byte("HTTP/1.1 "+tt.status)) ||
				!bytes.Contains(res, []byte(tt.says)) {
				t.Errorf("%.300q, %v; want %s with %q", res, err, tt.status, tt.says)
			}
		})
	}
}

// atEachLatency runs a test on servers that read publishers through net/http and by polling. change
// may be nil.
func atEachLatency(t *testing.T, name string, change func(*live.Config),
	test func(t *testing.T, f *fixture)) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		t.Run(fmt.Sprintf("%s, latency %v", name, latency), func(t *testing.T) {
			test(t, serve(t, func(c *live.Config) {
				c.Latency = latency
				if change != nil {
					change(c)
				}
			}))
		})
	}
}

// Tags without data, script tags and metadata of any size in the middle, timestamps that wrap
// around, and chunks of one byte: viewers get the stream byte for byte, and as MP4 every video
// frame and all audio.
func TestOddTags(t *testing.T) {
	const least = 8 << 10 // at least so many bytes are compared at both ends
	sc := newScript(3, 5, 500)
	stream, media := sc.start(), 0
	add := func(kind flv.Type, at uint32, data string) {
		stream = append(stream, flvTag(kind, at, []byte(data))...)
	}
	for i, tag := range sc.tags {
		at := 1<<32 - 200 + (uint32(tag[4])<<16 | uint32(tag[5])<<8 | uint32(tag[6]))
		data := tag[11 : len(tag)-4]
		if media += len(data) - 2; tag[0] == byte(flv.TypeVideo) {
			media -= 3
		}
		add(flv.Type(tag[0]), at, string(data))
		add(flv.TypeAudio, at, "")
		add(flv.TypeVideo, at, "")
		add(flv.TypeScript, at, "")
		add(flv.TypeAudio, at, "\xaf\x01")
		add(flv.TypeVideo, at, "\x27\x01\x00\x00\x00")
		add(flv.TypeScript, at, "\x02\x00\x0aonCuePoint\x05")
		if i == 7 {
			add(flv.TypeScript, at, "\x02\x00\x0aonMetaData\x08"+strings.Repeat("x", 3<<20))
			add(flv.TypeScript, at, "\x02\x00\x0aonMetaData\x08"+strings.Repeat("x",
				flvstream.MaxPart/2))
		}
	}
	var body bytes.Buffer
	for i := 0; i < len(stream); {
		n := 1
		if i >= least && i < len(stream)-least {
			n = min(5000, len(stream)-least-i)
		}
		fmt.Fprintf(&body, "%x\r\n%s\r\n", n, stream[i:i+n])
		i += n
	}
	atEachLatency(t, "odd tags", nil, func(t *testing.T, f *fixture) {
		w, m := f.Ask("/live/cam", 0), f.Ask("/live/cam.mp4", 0)
		f.waiting("cam", 2)
		conn := f.Dial("POST /live/cam HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n")
		go func() { _, _ = io.WriteString(conn, body.String()+"0\r\n\r\n") }()
		w.Begin()
		same(t, "the stream", w.Rest(), stream)
		m.Begin()
		got := 0
		for rest := m.Rest(); len(rest) > 0; {
			n := int(binary.BigEndian.Uint32(rest))
			if string(rest[4:8]) == "mdat" {
				got += n - 8
			}
			rest = rest[n:]
		}
		if got != media {
			t.Errorf("%d bytes of pictures and sound, want %d", got, media)
		}
		if res, err := io.ReadAll(conn); err != nil ||
			!bytes.HasPrefix(res, []byte("HTTP/1.1 200")) {
			t.Errorf("%.100q, %v, want status 200", res, err)
		}
	})
}

func TestSilentPublisherGets408(t *testing.T) {
	for name, by := range map[string]func(testing.TB) *http.Client{"HTTP/1": http1Client,
		"HTTP/2": http2Client} {
		atEachLatency(t, name, func(c *live.Config) { c.PublishTimeout = 50 * time.Millisecond },
			func(t *testing.T, f *fixture) {
				p := f.PublisherBy(by(t), "cam")
				// It may be too late for that.
				go func() { _, _ = p.Body.Write([]byte("x")) }()
				if res := p.Wait(); res.Status != http.StatusRequestTimeout ||
					!strings.Contains(res.Body, "--publish-timeout") {
					t.Errorf("%d %s, want 408 that names --publish-timeout", res.Status, res.Body)
				}
			})
	}
}

// A panic while publishing ends one stream with 500, and nothing else.
func TestAPanicEndsOneStream(t *testing.T) {
	f := serve(t, nil)
	good := f.Publisher("good")
	good.Send([]byte("x"))
	f.published("good", 1)

	bad, err := f.Open("bad", "test", live.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	err = bad.Run(func() error {
		return bad.ReadBody(readerFunc(func([]byte) (int, error) { panic("a mistake") }))
	})
	bad.Answered()
	if live.PublishStatus(err) != 500 {
		t.Errorf("%v: status %d, want 500", err, live.PublishStatus(err))
	}
	f.Logged("publishing failed", "a mistake")
	if res := f.Publisher("bad").End(); res.Status != 400 {
		t.Errorf("the name is not free: %d %s", res.Status, res.Body)
	}
	good.Send([]byte("y"))
	if res := good.End(); res.Status != 200 {
		t.Errorf("the other stream: %d %s", res.Status, res.Body)
	}
}

// A limit above FLV's own has the same effect as FLV's.
func TestMaxTagBytesAboveTheFormat(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.KeepBytes, c.MaxTagBytes = 64<<20, 32<<20 })
	if res := f.Request("POST", "/live/cam", string(newScript(1, 3,
		500).whole())); res.Status != 200 {
		t.Errorf("%d %s, want 200", res.Status, res.Body)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzIngest publishes any bytes. It checks that there is no panic, that the stream ends, and that
// every block is returned.
func FuzzIngest(f *testing.F) {
	sc := newScript(2, 3, 50)
	f.Add(sc.whole())
	f.Add([]byte("not FLV"))
	f.Add(append(sc.start(), 9, 0xff, 0xff, 0xff))
	f.Add([]byte(
		"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00\x09\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x97avc1"))
	cfg := testConfig()
	cfg.MaxTagBytes = 1 << 10
	h := live.NewHub(cfg)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := millrace.DefaultPool().Stats().InUse
		p, err := h.Open("fuzz", "test", live.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		err = p.ReadBody(bytes.NewReader(body))
		p.Close(err)
		p.Answered()
		if err == live.ErrPanic {
			t.Fatal("the publisher's goroutine panicked")
		}
		if h.LookUp("fuzz") != nil {
			t.Error("the stream is still there")
		}
		// It may be less, if other tests held blocks before.
		if after := millrace.DefaultPool().Stats().InUse; after > before {
			t.Errorf("%d bytes in use, %d before", after, before)
		}
	})
}
