package live_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

func TestViewersGetTheStreamByteForByte(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(3, 10, 2000)
	watchers := []*livetest.Watcher{f.Ask("/live/cam", 0), f.Ask("/live/cam.flv", 0)}
	f.waiting("cam", 2)

	p := f.Publisher("cam")
	p.Send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))
	for _, w := range watchers {
		w.Begin()
		if got := w.Res.Header.Get("Content-Type"); got != "video/x-flv" {
			t.Errorf("content type %q", got)
		}
		same(t, "while the stream continues", w.Next(len(sc.whole())), sc.whole())
	}

	res := p.End()
	var got live.Summary
	if err := json.Unmarshal([]byte(res.Body), &got); err != nil || res.Status != http.StatusOK {
		t.Fatalf("the publisher got %d %q: %v, want 200", res.Status, res.Body, err)
	}
	if got.Stream != "cam" || got.Format != "flv" ||
		got.Frames != int64(len(sc.config)+len(sc.tags)) ||
		got.Bytes != int64(len(sc.whole())-len(sc.header)) {
		t.Errorf("the summary is %+v, want what was published", got)
	}
	for _, w := range watchers {
		if rest := w.Rest(); len(rest) > 0 {
			t.Errorf("%d bytes more at the end", len(rest))
		}
	}
	f.Logged("publisher ended", "stream=cam", `reason="end of the stream"`)
	f.Logged("viewer ended", "stream=cam", `reason="stream ended"`)
	if list := f.Streams(); len(list) != 0 {
		t.Errorf("the stream is still listed: %+v", list)
	}
}

// A viewer that has waited for the stream gets all of it. A late viewer gets the data needed to
// start, and then the newest GOP, or without video the newest audio frame. A name is free again
// when its stream has ended.
func TestViewersStartAtTheNewestKeyframe(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	sc := newScript(3, 10, 2000)
	join := func(tags ...[]byte) []byte { return bytes.Join(tags, nil) }
	sound := flvTag(flv.TypeAudio, 0, []byte("\xaf\x01early"))
	manyCodecs := join(sc.header,
		flvTag(flv.TypeVideo, 0, []byte("\x96\x21avc1\x00\x00\x00\x01xhvc1\x01\x00\x00\x01y")),
		// A stream with video does not start here.
		flvTag(flv.TypeAudio, 0, []byte("\xaf\x01sound")),
		flvTag(flv.TypeVideo, 40, []byte("\xa6\x21avc1\x00\x00\x00\x01xhvc1\x01\x00\x00\x01y")))
	for _, tt := range []struct {
		name       string
		tracks     byte // flags of the header that viewers get
		sent, late []byte
	}{
		{"pictures", 5, sc.whole(), sc.from(sc.keys[2])},
		{"sound before the first picture", 5, join(sc.start(), sound, sound, join(sc.tags...)),
			sc.from(sc.keys[2])},
		{"sound alone", 4, join(sc.header, sc.config[2], sound, sc.tags[1], sc.tags[3]),
			join(sc.header, sc.config[2], sc.tags[3])},
		{"tracks of many codecs", 5, manyCodecs, manyCodecs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			early := f.Ask("/live/cam", 0)
			f.waiting("cam", 1)
			p := f.Publisher("cam")
			p.Send(tt.sent)
			f.published("cam", len(tt.sent)-len(sc.header))
			late := f.Watcher("/live/cam", 0)
			same(t, "what was there", late.Next(len(tt.late)), withTracks(tt.late, tt.tracks))
			more := flvTag(flv.TypeAudio, 4000, []byte("\xaf\x01live"))
			p.Send(more)
			if res := p.End(); res.Status != http.StatusOK {
				t.Errorf("publishing: %d %s, want 200", res.Status, res.Body)
			}
			same(t, "what came then", late.Rest(), more)
			early.Begin()
			same(t, "the early viewer", early.Rest(), withTracks(join(tt.sent, more), tt.tracks))
		})
	}
}

// withTracks returns a copy of a stream with other tracks in its header.
func withTracks(stream []byte, flags byte) []byte {
	stream = bytes.Clone(stream)
	stream[4] = flags
	return stream
}

// A GOP longer than the kept frames is reported once per stream in the log, and in metrics and API.
func TestTooLongGOPIsReported(t *testing.T) {
	for _, limit := range []struct {
		name string
		set  func(*live.Config)
		size int // of a video frame
	}{
		{"frames", func(c *live.Config) { c.KeepFrames = 16 }, 100},
		{"bytes", func(c *live.Config) { c.KeepBytes, c.MaxTagBytes = 64<<10, 32<<10 }, 10_000},
	} {
		t.Run(limit.name, func(t *testing.T) { groupThatDoesNotFit(t, limit.set, limit.size) })
	}
}

func groupThatDoesNotFit(t *testing.T, set func(*live.Config), size int) {
	f := serve(t, set)
	sc := newScript(3, 10, size) // twenty frames per GOP; the last GOP is unfinished
	p := f.Publisher("cam")
	p.Send(bytes.Join([][]byte{sc.start(), bytes.Join(sc.tags[:sc.keys[2]+4], nil)}, nil))
	eventually(t, "the API to say so", func() bool {
		return strings.Contains(f.api(),
			`"groups_cut":2`)
	})
	w := f.Watcher("/live/cam", 0) // the unfinished GOP still fits
	p.End()
	want := bytes.Join([][]byte{sc.start(), bytes.Join(sc.tags[sc.keys[2]:sc.keys[2]+4], nil)}, nil)
	same(t, "the late viewer", w.Rest(), want)
	f.Logged("level=WARN", "a GOP is longer", "stream=cam",
		fmt.Sprintf("keep-bytes=%d", f.Config().KeepBytes),
		fmt.Sprintf("keep-frames=%d", f.Config().KeepFrames))
	if n := strings.Count(f.Log.String(), "a GOP is longer"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if got := f.metric("millrace_groups_cut_total"); got != "2" {
		t.Errorf("metric %s, want 2", got)
	}
}

// With the defaults, a still image with audio has GOPs of minutes, and a late viewer gets the whole
// last GOP.
func TestLongGOPIsKept(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 1, 5000)
	for i := range 12_000 {
		at := uint32(i * 21)
		if i%47 == 46 {
			sc.tags = append(sc.tags, flvTag(9, at, []byte("\x27\x01\x00\x00\x00"+unitOf("still"))))
		}
		sc.tags = append(sc.tags, flvTag(8, at, []byte("\xaf\x01a piece of sound")))
	}
	p := f.Publisher("cam")
	p.Send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))
	late := []*livetest.Watcher{f.Watcher("/live/cam.flv", 0), f.Watcher("/live/cam.mp4", 0)}
	same(t, "FLV", late[0].Next(len(sc.whole())), sc.whole())
	for _, want := range []string{"ftyp", "moov", "moof", "mdat"} {
		if kind, _ := box(late[1]); kind != want {
			t.Errorf("MP4: a box %s, want %s", kind, want)
		}
	}
	p.End()
	if strings.Contains(f.Log.String(), "a GOP is longer") {
		t.Error("warned of a group that fits")
	}
}

// A viewer that joins between two configuration tags gets each tag once.
func TestViewerDuringConfigurationGetsItOnce(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 5, 500)
	p := f.Publisher("cam")
	p.Send(bytes.Join([][]byte{sc.header, sc.config[0]}, nil))
	f.published("cam", len(sc.config[0]))
	w := f.Watcher("/live/cam", 0)
	same(t, "the header", w.Next(len(sc.header)), sc.header)
	p.Send(bytes.Join(append(sc.config[1:], sc.tags...), nil))
	p.End()
	same(t, "the rest", w.Rest(), sc.whole()[len(sc.header):])
}

func TestUnknownFormatIsRelayedFromJoining(t *testing.T) {
	f := serve(t, nil)
	early := f.Ask("/live/raw", 0)
	f.waiting("raw", 1)
	p := f.Publisher("raw")
	p.Send([]byte("not FLV at all, "))
	early.Begin()
	if got := early.Res.Header.Get("Content-Type"); got != "application/octet-stream" {
		t.Errorf("content type %q", got)
	}
	early.Next(len("not FLV at all, "))

	late := f.Watcher("/live/raw", 0)
	f.viewers(2)
	p.Send([]byte("and then some"))
	p.End()
	if got := string(early.Rest()); got != "and then some" {
		t.Errorf("the early viewer got %q, want all bytes after joining", got)
	}
	if got := string(late.Rest()); got != "and then some" {
		t.Errorf("the late viewer got %q, want all bytes after joining", got)
	}
}

// Bytes that begin like FLV are distinguished from FLV, however slowly they arrive.
func TestFormatIsDetectedByFirstBytes(t *testing.T) {
	for _, tt := range []struct{ body, format string }{
		{"x", "raw"},
		{"FL", "raw"},
		{"FLAC is not FLV", "raw"},
		{"FLV\x02 another version", "raw"},
		{"FLV\x01\x05\x00\x00\x00\x01bad offset", "raw"},
		{"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00", "flv"},
	} {
		f := serve(t, nil)
		p := f.Publisher("x")
		for i := range tt.body {
			p.Send([]byte(tt.body[i : i+1]))
		}
		res := p.End()
		if res.Status != 200 || !strings.Contains(res.Body, `"format":"`+tt.format+`"`) {
			t.Errorf("%q: %d %s, want %s", tt.body, res.Status, res.Body, tt.format)
		}
	}
}

func TestLeavingViewerIsNoticedWithoutTraffic(t *testing.T) {
	f := serve(t, nil)
	p := f.Publisher("cam")
	p.Send([]byte("quiet"))
	w := f.Watcher("/live/cam", 0)
	f.viewers(1)
	_ = w.Conn.Close()
	f.viewers(0)
	f.Logged("viewer ended", `reason="viewer left"`)
	p.End()
}

// Viewers of a server with default settings read a stream more slowly than it arrives, and miss its
// end. They are told that it has ended.
func TestViewersWhoMissTheLastFramesGetTheEnd(t *testing.T) {
	const viewers, pictures = 16, 1000
	f := serve(t, func(c *live.Config) { c.Latency = defaultLatency })
	sc := newScript(1, 0, 0)
	body := bytes.NewBuffer(sc.start())
	for i := range pictures {
		body.Write(picture(i == 0, uint32(40*i), 40_000))
	}
	var all sync.WaitGroup
	for range viewers {
		w := f.Ask("/live/cam", 0)
		all.Go(func() {
			res, err := http.ReadResponse(bufio.NewReaderSize(pacedReader{w.Conn}, 64<<10), nil)
			if err == nil {
				_, _ = io.CopyN(io.Discard, res.Body, int64(len(sc.header)))
				err = skipTags(res.Body)
			}
			if err != nil {
				t.Errorf("a viewer reads to %v", err)
			}
		})
	}
	f.waiting("cam", viewers)
	if res := f.Request("POST", "/live/cam", body.String()); res.Status != http.StatusOK {
		t.Errorf("publishing: %d %s, want 200", res.Status, res.Body)
	}
	all.Wait()
	f.viewers(0)
}

// A pacedReader reads like a viewer with a slow connection. Its results do not depend on a clock.
type pacedReader struct{ net.Conn }

func (r pacedReader) Read(p []byte) (int, error) {
	time.Sleep(2 * time.Millisecond)
	return r.Conn.Read(p)
}

// skipTags reads whole tags to the end of r.
func skipTags(r io.Reader) error {
	var head [11]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := io.CopyN(
			io.Discard, r, 4+int64(head[1])<<16+int64(head[2])<<8+int64(head[3])); err != nil {
			return io.ErrUnexpectedEOF
		}
	}
}

// picture returns a tag with a video frame of size bytes.
func picture(key bool, at uint32, size int) []byte {
	first := byte(0x27)
	if key {
		first = 0x17
	}
	return flvTag(flv.TypeVideo, at, append([]byte{first, 1, 0, 0, 0},
		unit(make([]byte, max(size, 6)))...))
}

// A keyframe that does not fit into the batch of the previous frame is still sent at once, even if
// no frame follows.
func TestLastFrameOfABurstIsSentAtOnce(t *testing.T) {
	for _, tt := range []struct {
		by      func(t testing.TB) *http.Client
		name    string
		latency time.Duration
	}{
		{http2Client, "HTTP/2", defaultLatency},
		{http2Client, "HTTP/2", 5 * time.Millisecond},
		{http2Client, "HTTP/2", 0},
		{http1Client, "HTTP/1", 0},
	} {
		t.Run(fmt.Sprintf("%s, latency %v", tt.name, tt.latency), func(t *testing.T) {
			f := serve(t, func(c *live.Config) { c.Latency = tt.latency })
			watchers := []*livetest.Watcher{f.Ask("/live/cam", 0), f.Ask("/live/cam", 0)}
			f.waiting("cam", 2)
			p := f.PublisherBy(tt.by(t), "cam")
			start := append(newScript(1, 0, 0).start(), picture(true, 0, 1000)...)
			p.Send(start)
			for _, w := range watchers {
				w.Begin()
				w.Next(len(start))
			}
			burst := append(picture(false, 40, 20_000), picture(true, 80, 300_000)...)
			p.Send(burst)
			for _, w := range watchers {
				same(t, "the burst", w.Next(len(burst)), burst)
			}
			p.End()
			f.viewers(0)
		})
	}
}

func http1Client(testing.TB) *http.Client { return http.DefaultClient }

func http2Client(t testing.TB) *http.Client { return livetest.HTTP2(t, 1<<20) }
