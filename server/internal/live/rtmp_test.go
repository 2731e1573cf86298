package live_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	rtmpserver "github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// An rtmpFixture is a fixture that also listens for RTMP.
type rtmpFixture struct {
	*fixture
	rtmpAddr string
	rtmpTLS  bool
}

// serveRTMP is serve with a listener for RTMP.
func serveRTMP(t testing.TB, change func(*live.Config)) *rtmpFixture {
	t.Helper()
	return serve(t, change).withRTMP(nil)
}

// withRTMP adds a listener for RTMP, over TLS unless config is nil.
func (f *fixture) withRTMP(config *tls.Config) *rtmpFixture {
	f.T.Helper()
	return f.withRTMPOver(config, 0)
}

// withRTMPOver is withRTMP with a send buffer of sndbuf bytes; 0 means the system's default.
func (f *fixture) withRTMPOver(config *tls.Config, sndbuf int) *rtmpFixture {
	f.T.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.T.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if sndbuf > 0 {
				_ = conn.(*net.TCPConn).SetWriteBuffer(sndbuf)
			}
			if config != nil {
				conn = tls.Server(conn, config)
			}
			all.Go(func() { f.serveRTMP(conn) })
		}
	})
	f.T.Cleanup(func() {
		_ = ln.Close()
		f.stop()
		all.Wait()
	})
	return &rtmpFixture{f, ln.Addr().String(), config != nil}
}

// serveRTMP serves a connection as package server does.
func (f *fixture) serveRTMP(conn net.Conn) {
	c, want, err := f.rtmp.Accept(conn, time.Now().Add(testTimeout))
	if err != nil {
		return
	}
	for want != nil {
		name := strings.TrimPrefix(want.Path, "live/")
		if !want.Publish {
			err = c.Watch(context.Background(), name, 0)
		} else if err = c.Publish(name); err == nil {
			want = c.Next(time.Now().Add(cmp.Or(f.nextTimeout, time.Second)))
			continue
		}
		if err != nil {
			c.Refuse(want, err)
		}
		return
	}
}

// dialRTMP opens a connection to the RTMP listener, up to createStream.
func (f *rtmpFixture) dialRTMP(rcvbuf int) *livetest.RTMP {
	f.T.Helper()
	var conn net.Conn = nettest.Dial(f.T, f.rtmpAddr, rcvbuf)
	if f.rtmpTLS {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	c := livetest.NewRTMP(f.T, conn)
	c.Connect("live")
	return c
}

// publishRTMP starts a publisher that sends chunks of the given size; 0 means the initial size of
// clients.
func (f *rtmpFixture) publishRTMP(name string, chunk int) *livetest.RTMP {
	f.T.Helper()
	c := f.dialRTMP(0)
	if chunk > 0 {
		c.ChunkSize(chunk)
	}
	if s := c.Publish(name); s.Code != "NetStream.Publish.Start" {
		f.T.Fatalf("the publisher got %+v", s)
	}
	return c
}

// playRTMP requests a stream, and does not wait for it.
func (f *rtmpFixture) playRTMP(name string, rcvbuf int) *livetest.RTMP {
	f.T.Helper()
	c := f.dialRTMP(rcvbuf)
	c.Play(name)
	return c
}

// unpublish ends a stream as encoders do.
func unpublish(t testing.TB, c *livetest.RTMP) {
	t.Helper()
	c.Call(0, "FCUnpublish", nil, "cam")
	c.Call(0, "deleteStream", nil, rtmp.Stream)
}

// tlsServer returns a TLS configuration with a self-signed certificate.
func tlsServer(t *testing.T) *tls.Config {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS() // creates a certificate
	defer srv.Close()
	return &tls.Config{Certificates: srv.TLS.Certificates}
}

// carriers are the transports of RTMP: TCP, with viewers served by the fanout's goroutine, and TLS,
// with a goroutine per viewer.
var carriers = map[string]func(*testing.T) *tls.Config{
	"TCP": func(*testing.T) *tls.Config { return nil }, "TLS": tlsServer,
}

// later returns tags with ms added to their timestamps.
func later(tags [][]byte, ms uint32) [][]byte {
	var list [][]byte
	for _, tag := range tags {
		tag = bytes.Clone(tag)
		at := timeOf(tag) + ms
		tag[4], tag[5], tag[6], tag[7] = byte(at>>16), byte(at>>8), byte(at), byte(at>>24)
		list = append(list, tag)
	}
	return list
}

// wantTags compares tags with the expected ones, in order.
func wantTags(t testing.TB, what string, got, want [][]byte) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("%s: tag %d is of type %d, %d bytes, at %d ms; want type %d, %d bytes, at %d ms", what, i,
				got[i][0], len(got[i]), timeOf(got[i]), want[i][0], len(want[i]), timeOf(want[i]))
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d tags, want %d", what, len(got), len(want))
	}
}

// A stream published over RTMP or HTTP reaches viewers of each format unchanged, with any chunk
// size, over TCP and TLS, whether it is polled or read as it arrives. Its timestamps need more than
// 24 bits.
func TestRTMPCarriesTheSameTags(t *testing.T) {
	t.Parallel()
	sc := newScript(4, 5, 3000)
	sc.config, sc.tags = later(sc.config, 1<<24-100), later(sc.tags, 1<<24-100)
	all := append(append([][]byte{}, sc.config...), sc.tags...)
	mp4 := make(map[string][]byte)
	for _, tt := range []struct {
		name    string
		http    bool // the publisher uses HTTP
		tls     bool
		latency time.Duration
		chunk   int
	}{
		{"HTTP", true, false, 5 * time.Millisecond, 0},
		{"TCP", false, false, 5 * time.Millisecond, 4096},
		{"TCP, small chunks", false, false, 5 * time.Millisecond, 0},
		{"TCP, each message one chunk, without latency", false, false, 0, 1 << 20},
		{"TLS", false, true, 5 * time.Millisecond, 4096},
		{"TLS, small chunks, without latency", false, true, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var config *tls.Config
			if tt.tls {
				config = tlsServer(t)
			}
			f := serve(t, func(c *live.Config) { c.Latency = tt.latency }).withRTMP(config)
			plays := []*livetest.RTMP{f.playRTMP("cam", 0), f.playRTMP("cam", 0)}
			overHTTP, asMP4 := f.Ask("/live/cam.flv", 0), f.Ask("/live/cam.mp4", 0)
			f.waiting("cam", 4)
			if tt.http {
				p := f.Publisher("cam")
				p.Send(sc.whole())
				p.End()
			} else {
				p := f.publishRTMP("cam", tt.chunk)
				if err := p.SendTags(all...); err != nil {
					t.Fatal(err)
				}
				unpublish(t, p)
				p.AwaitCode("NetStream.Unpublish.Success")
				p.AwaitEnd()
				f.Logged("publisher ended", "status=200", fmt.Sprintf("frames=%d", len(all)))
			}
			for i, c := range plays {
				tags, _ := c.Rest()
				wantTags(t, fmt.Sprintf("viewer %d", i), tags, all)
			}
			overHTTP.Begin()
			same(t, "the viewer of FLV", overHTTP.Rest(), sc.whole())
			asMP4.Begin()
			mp4[tt.name] = asMP4.Rest()
			same(t, "the viewer of MP4", mp4[tt.name], mp4["HTTP"])
		})
	}
}

// A late viewer starts with the headers and the last keyframe, and gets all later frames.
func TestALateRTMPViewerBeginsAtAKeyFrame(t *testing.T) {
	f := serveRTMP(t, nil)
	sc := newScript(3, 5, 1000)
	p := f.publishRTMP("cam", 4096)
	const before = 24
	_ = p.SendTags(sc.config...)
	_ = p.SendTags(sc.tags[:before]...)
	f.published("cam", len(sc.start())-len(sc.header)+len(bytes.Join(sc.tags[:before], nil)))
	for range 2 { // the first viewer starts the conversion, the second one finds it
		c := f.playRTMP("cam", 0)
		want := append(append([][]byte{}, sc.config...), sc.tags[sc.keys[2]:before]...)
		var got [][]byte
		for range want {
			got = append(got, c.NextTag())
		}
		wantTags(t, "the late viewer", got, want)
		defer func() {
			tags, _ := c.Rest()
			wantTags(t, "and then", tags, sc.tags[before:])
		}()
	}
	_ = p.SendTags(sc.tags[before:]...)
	unpublish(t, p)
}

// Viewers do not get useless messages: time codes, empty messages, commands, acknowledgements.
func TestUselessRTMPMessagesAreIgnored(t *testing.T) {
	f := serveRTMP(t, nil)
	sc := newScript(1, 2, 100)
	w := f.playRTMP("cam", 0)
	f.waiting("cam", 1)
	p := f.publishRTMP("cam", 4096)
	send := func(kind rtmp.Type, body string) {
		_ = p.Send(rtmp.Message{Type: kind, ChunkStream: 8, Stream: rtmp.Stream}, []byte(body))
	}
	send(rtmp.TypeData, "\x00\x40\x00\x00\x00\x00\x00\x00\x00") // a number
	send(rtmp.TypeData, "")
	send(rtmp.TypeData, "\x02\x00\x0d@setDataFrame")
	send(rtmp.TypeCommand, "")
	send(rtmp.TypeUserControl, "")
	send(rtmp.TypeWindowSize, "")
	send(rtmp.TypeVideo, "")
	send(rtmp.TypeAudio, "")
	send(rtmp.TypeAudio, "\xaf\x00") // an empty sequence header
	send(rtmp.TypeVideo, "\x17\x00\x00\x00\x00")
	send(rtmp.TypeAcknowledgement, "\x00\x00\x10\x00")
	send(rtmp.Type(99), "of no kind")
	p.Call(0, "_checkbw", nil)
	_ = p.SendTags(append(sc.config, sc.tags...)...)
	unpublish(t, p)
	tags, _ := w.Rest()
	want := append(append([][]byte{}, sc.config...), sc.tags...)
	wantTags(t, "the viewer", tags, want)
}

// The end of a stream is sent in the three forms that players know.
func TestRTMPViewersGetTheEnd(t *testing.T) {
	for name, paused := range map[string]bool{"playing": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			f := serveRTMP(t, nil)
			sc := newScript(1, 2, 100)
			w := f.playRTMP("cam", 0)
			f.waiting("cam", 1)
			p := f.publishRTMP("cam", 4096)
			_ = p.SendTags(append(sc.config, sc.tags...)...)
			w.AwaitCode("NetStream.Play.Start")
			if paused {
				w.Call(rtmp.Stream, "pause", nil, true, 0)
				w.AwaitCode("NetStream.Pause.Notify")
			}
			unpublish(t, p)
			eof := false
			var codes []string
			for {
				m, err := w.Next()
				if err != nil {
					if err != io.EOF {
						t.Errorf("the connection ends with %v", err)
					}
					break
				}
				if s, ok := m.Status(); ok && s.Level == "status" {
					codes = append(codes, s.Code)
				}
				eof = eof || m.Type == rtmp.TypeUserControl &&
					bytes.Equal(m.Body, []byte{0, 1, 0, 0, 0, rtmp.Stream})
			}
			if got, want := strings.Join(codes, " "),
				"NetStream.Play.UnpublishNotify NetStream.Play.Stop"; !eof || got != want {
				t.Errorf("StreamEOF %t, then %q, want %q", eof, got, want)
			}
			f.Logged("viewer ended", "form=rtmp", `reason="stream ended"`)
		})
	}
}

// A viewer that reads slowly, and sends acknowledgements, still gets the end of the stream: the
// server does not close the connection before the client does.
func TestInteractiveRTMPViewerGetsTheEnd(t *testing.T) {
	t.Parallel()
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) { c.Unsent = 0 }).withRTMPOver(config(t), 1<<20)
			// More than the client buffers, and less than the kernel accepts for it.
			sc := newScript(2, 5, 20_000)
			w := f.playRTMP("cam", 0)
			f.waiting("cam", 1)
			p := f.publishRTMP("cam", 4096)
			all := append(append([][]byte{}, sc.config...), sc.tags...)
			_ = p.SendTags(all...)
			unpublish(t, p)
			f.Logged("viewer ended", "form=rtmp", `reason="stream ended"`)
			for range 3 {
				_ = w.Send(rtmp.Message{Type: rtmp.TypeAcknowledgement, ChunkStream: 2},
					[]byte{0, 0, 1, 0})
			}
			p.AwaitEnd() // some time for the kernel
			tags, statuses := w.Rest()
			wantTags(t, "the viewer", tags, all)
			if len(statuses) == 0 || statuses[len(statuses)-1].Code != "NetStream.Play.Stop" {
				t.Errorf("the viewer is told %+v", statuses)
			}
		})
	}
}

// A server that shuts down sends publishers the reason. Viewers get everything before the end.
func TestDrainEndsRTMP(t *testing.T) {
	t.Parallel()
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) {
				c.Unsent, c.LagBytes = smallBuffer, 0
			}).withRTMP(config(t))
			sc := newScript(4, 5, 20_000)
			slow := f.playRTMP("cam", smallBuffer)
			f.waiting("cam", 1)
			p := f.publishRTMP("cam", 4096)
			all := append(append([][]byte{}, sc.config...), sc.tags...)
			_ = p.SendTags(all...)
			f.published("cam", len(sc.whole())-len(sc.header))
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				f.stop()
			}()
			if s := p.AwaitStatus(); s.Level != "error" || s.Code != "NetStream.Publish.Denied" ||
				!strings.Contains(s.Description, "shutting down") {
				t.Errorf("the publisher is told %+v", s)
			}
			p.AwaitEnd()
			tags, statuses := slow.Rest()
			wantTags(t, "the viewer", tags, all)
			if last := statuses[len(statuses)-1]; last.Code != "NetStream.Play.Stop" {
				t.Errorf("the viewer is told %+v last", last)
			}
			<-stopped
			f.Logged("publisher ended", "status=503")
		})
	}
}

// A refused client gets the reason, with a code that encoders and players know.
func TestRTMPRefusals(t *testing.T) {
	f := serveRTMP(t, func(c *live.Config) {
		c.Takeover, c.MaxStreams, c.MaxViewers, c.MaxStreamViewers = live.TakeoverNever, 1, 2, 1
		c.ViewerWait = 10 * time.Millisecond
	})
	p := f.publishRTMP("cam", 0)
	sc := newScript(1, 2, 100)
	_ = p.SendTags(sc.config...)
	f.published("cam", 1)
	w := f.playRTMP("cam", 0)
	w.AwaitCode("NetStream.Play.Start")
	for _, tt := range []struct {
		publish    bool
		name       string
		code, says string
	}{
		{true, "cam", "NetStream.Publish.BadName", "publisher already"},
		{true, "other", "NetStream.Publish.Denied", "--max-streams"},
		{true, "a b", "NetStream.Publish.Denied", "bad stream name"},
		{false, "other", "NetStream.Play.StreamNotFound", "no stream"},
		{false, "cam", "NetStream.Play.Failed", "--max-stream-viewers"},
	} {
		c := f.dialRTMP(0)
		var s livetest.Status
		if tt.publish {
			s = c.Publish(tt.name)
		} else {
			c.Play(tt.name)
			s = c.AwaitStatus()
		}
		if s.Level != "error" || s.Code != tt.code || !strings.Contains(s.Description, tt.says) {
			t.Errorf("publish %t, %q: %+v, want %s with %q", tt.publish, tt.name, s, tt.code,
				tt.says)
		}
		c.AwaitEnd()
	}
	unpublish(t, p)
	w.AwaitEnd()
	f.viewers(0)
}

// A publisher of an invalid message gets the reason, which names the limit and the flag. A
// publisher that is replaced gets the reason, too, and viewers stay.
func TestRTMPPublisherGetsTheReason(t *testing.T) {
	t.Parallel()
	sc := newScript(2, 3, 1000)
	for name, tt := range map[string]struct {
		end  func(f *rtmpFixture, p *livetest.RTMP)
		code string
		says string
	}{
		"a long message": {func(_ *rtmpFixture, p *livetest.RTMP) {
			_ = p.Send(rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: 6, Stream: rtmp.Stream},
				make([]byte, 70_000))
		}, "NetStream.Publish.Denied", "--max-tag-bytes"},
		"another publisher": {func(f *rtmpFixture, _ *livetest.RTMP) {
			unpublish(f.T, f.publishRTMP("cam", 0))
		}, "NetStream.Publish.BadName", "took over"},
		"silence": {func(f *rtmpFixture, p *livetest.RTMP) {}, "NetStream.Publish.Denied",
			"--publish-timeout"},
	} {
		atEachLatency(t, name, func(c *live.Config) {
			c.MaxTagBytes = 64 << 10
			if name == "silence" {
				c.PublishTimeout = 2 * time.Second // long enough for the earlier messages
			}
		}, func(t *testing.T, f *fixture) {
			fr := f.withRTMP(nil)
			w := fr.playRTMP("cam", 0)
			f.waiting("cam", 1)
			p := fr.publishRTMP("cam", 4096)
			_ = p.SendTags(append(sc.config, sc.tags...)...)
			for range len(sc.config) + len(sc.tags) {
				w.NextTag()
			}
			tt.end(fr, p)
			s := p.AwaitStatus()
			if s.Level != "error" || s.Code != tt.code ||
				!strings.Contains(s.Description, tt.says) {
				t.Errorf("%+v, want %s with %q", s, tt.code, tt.says)
			}
			p.AwaitEnd()
			w.AwaitEnd()
		})
	}
}

// A viewer that reads nothing is dropped when it is further behind than its allowance. Others lose
// nothing.
func TestSlowRTMPViewerIsDropped(t *testing.T) {
	f := serveRTMP(t, tightBy(live.Drop, func(c *live.Config) { c.LagBytes = 200 << 10 }))
	sc := newScript(20, 5, 8000)
	healthy := f.playRTMP("cam", 0)
	f.playRTMP("cam", smallBuffer)
	f.waiting("cam", 2)
	p := f.publishRTMP("cam", 4096)
	f.inStepRTMP(p, append(sc.config, sc.tags...), healthy)
	f.Logged("viewer is too far behind", `reason="behind by bytes"`)
	f.Logged("viewer ended", "form=rtmp", `reason="behind by bytes"`)
	unpublish(t, p)
}

// inStepRTMP publishes tags one by one, each after w has got the previous one.
func (f *rtmpFixture) inStepRTMP(p *livetest.RTMP, tags [][]byte, w *livetest.RTMP) {
	f.T.Helper()
	for i, tag := range tags {
		if err := p.SendTags(tag); err != nil {
			f.T.Fatal(err)
		}
		if got := w.NextTag(); !bytes.Equal(got, tag) {
			f.T.Fatalf("tag %d: the viewer got something else", i)
		}
	}
}

// With the other policy the viewer continues with whole messages at a keyframe when it reads again.
func TestSlowRTMPViewerSkips(t *testing.T) {
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, tightBy(live.Skip,
				func(c *live.Config) { c.LagBytes = 200 << 10 })).withRTMP(config(t))
			sc := newScript(30, 5, 8000)
			healthy := f.playRTMP("cam", 0)
			slow := f.playRTMP("cam", smallBuffer)
			f.waiting("cam", 2)
			p := f.publishRTMP("cam", 4096)
			f.inStepRTMP(p, sc.config, healthy)
			for range sc.config {
				slow.NextTag()
			}
			f.inStepRTMP(p, sc.tags, healthy)
			// It is too far behind, or has already been moved.
			f.Logged("level=WARN", "viewer=", "bytes=")
			unpublish(t, p)
			tags, _ := slow.Rest()
			missed := jumps(t, sc, tags, 0)
			if missed == 0 {
				t.Fatal("nothing was skipped")
			}
			if !bytes.Equal(tags[len(tags)-1], sc.tags[len(sc.tags)-1]) {
				t.Error("the last tag is missing")
			}
			f.Logged("viewer ended", fmt.Sprintf("%d frames", missed), "lag_bytes")
		})
	}
}

// A viewer that reads nothing for long is disconnected.
func TestAStalledRTMPViewerIsEnded(t *testing.T) {
	t.Parallel()
	f := serveRTMP(t, func(c *live.Config) {
		// Long enough for a healthy viewer on a busy machine.
		c.Unsent, c.StallTimeout = smallBuffer, time.Second
	})
	sc := newScript(4, 5, 50_000)
	f.playRTMP("cam", smallBuffer)
	f.waiting("cam", 1)
	p := f.publishRTMP("cam", 1<<16)
	_ = p.SendTags(append(sc.config, sc.tags...)...)
	f.Logged("viewer ended", "form=rtmp", "reason=stalled")
	unpublish(t, p)
}

// A paused viewer gets nothing of the stream, but its pings are answered. It resumes at the newest
// keyframe. A healthy viewer is served by the fanout's goroutine, and over TLS by its own.
func TestAnRTMPViewerPauses(t *testing.T) {
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil).withRTMP(config(t))
			sc := newScript(4, 5, 1000)
			other := f.playRTMP("cam", 0)
			w := f.playRTMP("cam", 0)
			f.waiting("cam", 2)
			p := f.publishRTMP("cam", 4096)
			const first, second = 13, 36
			f.inStepRTMP(p, append(sc.config, sc.tags[:first]...), other)
			for range len(sc.config) + first {
				w.NextTag()
			}
			w.Call(rtmp.Stream, "pause", nil, true, 0)
			w.AwaitCode("NetStream.Pause.Notify")
			f.inStepRTMP(p, sc.tags[first:second], other)
			if err := w.Ping(7); err != nil {
				t.Fatal(err)
			}
			for {
				m, err := w.Next()
				if err != nil {
					t.Fatal(err)
				}
				if m.Tag() != nil {
					t.Fatalf("a tag comes in a pause, at %d ms", m.Timestamp)
				}
				if v, ok := m.Pong(); ok && v == 7 {
					break
				}
			}
			w.Call(rtmp.Stream, "pause", nil, false, 0)
			w.AwaitCode("NetStream.Unpause.Notify")
			var got [][]byte
			want := append(append([][]byte{}, sc.config...), sc.tags[sc.keys[3]:second]...)
			for range want {
				got = append(got, w.NextTag())
			}
			wantTags(t, "after the pause", got, want)
			f.inStepRTMP(p, sc.tags[second:], other)
			unpublish(t, p)
			got, _ = w.Rest()
			wantTags(t, "at the end", got, sc.tags[second:])
		})
	}
}

// A viewer that waits for its stream and disconnects, or ends its request, frees its place at once.
func TestWaitingRTMPViewerMayHangUp(t *testing.T) {
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) {
				c.MaxViewers, c.ViewerWait = 2, time.Hour
			}).withRTMP(config(t))
			for _, end := range []func(c *livetest.RTMP){
				func(c *livetest.RTMP) { _ = c.Conn.Close() },
				func(c *livetest.RTMP) {
					c.Call(0, "deleteStream", nil, rtmp.Stream)
					c.AwaitEnd()
				},
				func(c *livetest.RTMP) { c.PingUntilItEnds() },
			} {
				c := f.playRTMP("cam", 0)
				f.waiting("cam", 1)
				_ = c.Ping(1) // players also announce the length of their buffer
				end(c)
				f.waiting("cam", 0)
			}
			f.Logged("viewer left while it waited", "stream=cam", "EOF")
			f.Logged("viewer left while it waited", "takes no answers")
		})
	}
}

// A viewer has sent so many requests while it waited that there is no room for the beginning of the
// stream. It frees its place.
func TestRTMPViewerWithAFullBuffer(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.MaxViewers = 1 }).withRTMP(nil)
	w := f.playRTMP("cam", 0)
	f.waiting("cam", 1)
	const answer = 18 // size of the answer to a ping, in bytes
	for v := range uint32(fanout.MaxReplies / answer) {
		_ = w.Ping(v)
	}
	sc := newScript(2, 3, 1000)
	p := f.publishRTMP("cam", 4096)
	_ = p.SendTags(sc.config...)
	_ = p.SendTags(sc.tags...)
	_, _ = io.Copy(io.Discard, io.LimitReader(w.Conn, 1))
	_ = w.Conn.Close()
	eventually(t, "the place to be free", func() bool { return f.Admitted() == 0 })
	unpublish(t, p)
}

// Requests of a waiting viewer are answered before the stream, and a pause applies from the
// beginning.
func TestWaitingRTMPViewerIsAnswered(t *testing.T) {
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil).withRTMP(config(t))
			w := f.playRTMP("cam", 0)
			f.waiting("cam", 1)
			const pings = 100
			for v := range uint32(pings) {
				_ = w.Ping(v)
			}
			w.Call(rtmp.Stream, "pause", nil, true, 0)
			sc := newScript(2, 3, 1000)
			p := f.publishRTMP("cam", 4096)
			_ = p.SendTags(sc.config...)
			for next := uint32(0); next < pings; {
				m, err := w.Next()
				if err != nil {
					t.Fatal(err)
				}
				if v, ok := m.Pong(); ok {
					if v != next {
						t.Fatalf("answer %d, want %d", v, next)
					}
					next++
				}
			}
			w.AwaitCode("NetStream.Pause.Notify")
			w.Call(rtmp.Stream, "pause", nil, false, 0)
			w.AwaitCode("NetStream.Unpause.Notify")
			_ = p.SendTags(sc.tags...)
			// If the stream ended before the viewer continues, the viewer would get nothing.
			last := sc.tags[sc.keys[1]:]
			var got [][]byte
			for len(got) == 0 || !bytes.Equal(got[len(got)-1], last[len(last)-1]) {
				got = append(got, w.NextTag())
			}
			wantTags(t, "after the pause", got[max(0, len(got)-len(last)):], last)
			unpublish(t, p)
			w.Rest()
		})
	}
}

// A heldConn checks that it has one writer at a time. A write of length bytes or more waits for the
// gate.
type heldConn struct {
	net.Conn
	t       *testing.T
	length  int
	waiting chan struct{} // signalled for each such write
	gate    chan struct{}
	writers atomic.Int32
}

func (c *heldConn) Write(p []byte) (int, error) {
	if c.writers.Add(1) > 1 {
		c.t.Errorf("%d bytes are written in the middle of something else", len(p))
	}
	defer c.writers.Add(-1)
	if len(p) >= c.length {
		c.waiting <- struct{}{}
		<-c.gate
	}
	return c.Conn.Write(p)
}

// Kept frames do not hold the memory of other data in their blocks: useless messages, alone or in
// an aggregate, and video dropped up to a keyframe.
func TestDroppedFramesAreReleased(t *testing.T) {
	const frames, useless = 200, 60_000
	sound := func(at int) []byte {
		return flvTag(flv.TypeAudio, uint32(at), append([]byte{0xaf, 1}, make([]byte, 200)...))
	}
	of := func(kind rtmp.Type, at int) rtmp.Message {
		return rtmp.Message{Type: kind, ChunkStream: 6, Stream: rtmp.Stream, Timestamp: uint32(at)}
	}
	for name, send := range map[string]func(p *livetest.RTMP, at int){
		"messages": func(p *livetest.RTMP, at int) {
			_ = p.SendTags(sound(at))
			_ = p.Send(of(99, at), make([]byte, useless))
		},
		"an aggregate": func(p *livetest.RTMP, at int) {
			var parts []byte
			for range 4 {
				parts = append(append(parts, sound(at)...),
					flvTag(99, uint32(at), make([]byte, useless))...)
			}
			if at%4 == 3 {
				_ = p.Send(of(rtmp.TypeAggregate, at), parts)
			}
		},
		"pictures": func(p *livetest.RTMP, at int) {
			_ = p.SendTags(sound(at), flvTag(flv.TypeVideo, uint32(at),
				append([]byte{0x27, 1, 0, 0, 0}, make([]byte, useless)...)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := serveRTMP(t, func(c *live.Config) { c.PublisherReturn = testTimeout })
			sc := newScript(1, 1, 100)
			first := f.publishRTMP("cam", 0)
			_ = first.SendTags(append(sc.config, sc.tags...)...)
			unpublish(t, first)
			f.Logged("stream waits for its publisher")
			p := f.publishRTMP("cam", 1<<20)
			before := millrace.DefaultPool().Stats().InUse
			was := f.LookUp("cam").Forms().Stats().PublishedFrames
			for i := range frames {
				send(p, i)
			}
			eventually(t, "all frames", func() bool {
				return f.LookUp("cam").Forms().Stats().PublishedFrames == was+frames
			})
			if held := millrace.DefaultPool().Stats().InUse - before; held > frames*1024+256<<10 {
				t.Errorf("%d bytes are held for %d frames of 200 bytes", held, frames)
			}
			unpublish(t, p)
		})
	}
}

// Answers to a viewer are sent between batches of the stream. While a write of the stream is
// blocked, the viewer sends two requests. The server reads the second when it has answered the
// first.
func TestAnAnswerWaitsForTheStream(t *testing.T) {
	const size = 5000
	f := serve(t, nil).withRTMP(nil)
	client, conn := net.Pipe()
	held := &heldConn{Conn: conn, t: t, length: size, waiting: make(chan struct{}, 1),
		gate: make(chan struct{})}
	var served sync.WaitGroup
	served.Go(func() { f.serveRTMP(held) })
	defer served.Wait()
	w := livetest.NewRTMP(t, client)
	w.Connect("live")
	w.Play("cam")
	f.waiting("cam", 1)
	sc := newScript(1, 1, size)
	p := f.publishRTMP("cam", 1<<16)
	_ = p.SendTags(append(sc.config, sc.tags...)...)
	done := make(chan [][]byte)
	var pongs []uint32
	go func() {
		var tags [][]byte
		for len(tags) < len(sc.config)+len(sc.tags) || len(pongs) < 2 {
			m, err := w.Next()
			if err != nil {
				t.Errorf("after %d tags: %v", len(tags), err)
				break
			}
			if v, ok := m.Pong(); ok {
				pongs = append(pongs, v)
			} else if tag := m.Tag(); tag != nil {
				tags = append(tags, tag)
			}
		}
		done <- tags
	}()
	<-held.waiting
	_ = w.Ping(1)
	_ = w.Ping(2)
	close(held.gate)
	wantTags(t, "the stream", <-done, append(sc.config, sc.tags...))
	if len(pongs) != 2 || pongs[0] != 1 || pongs[1] != 2 {
		t.Errorf("answers to pings %d, want 1 and 2", pongs)
	}
	unpublish(t, p)
	w.AwaitEnd()
}

// Slow and fast viewers pause and ping while the stream runs. They get whole messages, and all
// pings are answered.
func TestRTMPViewersPauseAndPing(t *testing.T) {
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) {
				c.Latency, c.Unsent, c.LagBytes, c.KeepBytes, c.MaxTagBytes = time.Millisecond,
					smallBuffer, 100<<10, 400<<10, 64<<10
			}).withRTMP(config(t))
			sc := newScript(60, 5, 4000)
			clients := []*livetest.RTMP{f.playRTMP("cam", 0), f.playRTMP("cam", smallBuffer),
				f.playRTMP("cam", 0)}
			f.waiting("cam", len(clients))
			p := f.publishRTMP("cam", 4096)
			var wg sync.WaitGroup
			const pings = 300
			got := make([][][]byte, len(clients))
			var answered sync.WaitGroup
			answered.Add(len(clients))
			for i, c := range clients {
				wg.Go(func() { // writer
					for n := range uint32(pings) {
						if i > 0 && n%10 == 9 {
							// The viewer resumes at the end.
							c.Call(rtmp.Stream, "pause", nil, n%20 == 9, 0)
						}
						if err := c.Ping(n); err != nil {
							t.Errorf("viewer %d, ping %d: %v", i, n, err)
							return
						}
					}
				})
				wg.Go(func() { // reader
					next := uint32(0)
					defer func() {
						if next < pings {
							answered.Done()
						}
					}()
					for {
						m, err := c.Next()
						if err != nil {
							if err != io.EOF || next != pings {
								t.Errorf("viewer %d ends with %v after %d answers", i, err, next)
							}
							return
						}
						if v, ok := m.Pong(); ok {
							if v != next {
								t.Errorf("viewer %d: answer %d, want %d", i, v, next)
							}
							if next = v + 1; next == pings {
								answered.Done()
							}
						}
						if tag := m.Tag(); tag != nil {
							got[i] = append(got[i], tag)
						}
					}
				})
			}
			for i, tag := range append(sc.config, sc.tags...) {
				if err := p.SendTags(tag); err != nil {
					t.Fatal(err)
				}
				if i%10 == 0 {
					time.Sleep(time.Millisecond) // about 40 Mbit/s; the result does not depend on it
				}
			}
			answered.Wait()
			unpublish(t, p)
			wg.Wait()
			for i, tags := range got {
				if len(tags) == 0 {
					t.Errorf("viewer %d got nothing", i)
				}
				// After a pause a viewer gets the newest GOP again.
				for _, run := range runs(sc, tags) {
					if len(run) > len(sc.config) && run[len(sc.config)][11] != 0x17 {
						t.Errorf("viewer %d continues with no keyframe", i)
					}
					jumps(t, sc, run, -1)
				}
			}
		})
	}
}

// runs splits the tags of a viewer where they restart with the metadata.
func runs(sc *script, tags [][]byte) (list [][][]byte) {
	for _, tag := range tags {
		if len(list) == 0 || bytes.Equal(tag, sc.config[0]) {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], tag)
	}
	return list
}

// A viewer that sends requests and reads no answers is disconnected.
func TestRTMPViewerThatReadsNoAnswersIsEnded(t *testing.T) {
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil).withRTMPOver(config(t), smallBuffer)
			sc := newScript(1, 2, 100)
			p := f.publishRTMP("cam", 4096)
			_ = p.SendTags(append(sc.config, sc.tags...)...)
			f.published("cam", 1)
			other := f.playRTMP("cam", 0)
			c := f.playRTMP("cam", 0)
			c.AwaitCode("NetStream.Play.Start")
			c.PingUntilItEnds()
			f.Logged("viewer ended", "form=rtmp", "reason=stalled")
			f.Logged("level=WARN", "viewer takes no answers")
			f.viewers(1)
			unpublish(t, p)
			other.AwaitEnd()
		})
	}
}

// A publisher that sends requests and reads no answers does not keep its name.
func TestRTMPPublisherThatReadsNoAnswersIsEnded(t *testing.T) {
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) {
				c.PublishTimeout = 500 * time.Millisecond
			}).withRTMPOver(config(t), smallBuffer)
			sc := newScript(1, 2, 100)
			c := f.publishRTMP("cam", 0)
			_ = c.SendTags(sc.config...)
			c.PingUntilItEnds()
			f.Logged("publisher ended")
			unpublish(t, f.publishRTMP("cam", 0))
		})
	}
}

// If a connection is not polled, and buffers nothing, the first unread answer ends the publisher at
// its timeout, or at once when another publisher takes over.
func TestUnreadAnswerEndsRTMPPublisher(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"timeout": time.Second,
		"takeover": time.Minute} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) { c.PublishTimeout = timeout }).withRTMP(nil)
			client, conn := net.Pipe()
			var served sync.WaitGroup
			served.Go(func() { f.serveRTMP(conn) })
			c := livetest.NewRTMP(t, client)
			c.Connect("live")
			if s := c.Publish("cam"); s.Level != "status" {
				t.Fatalf("publishing was refused: %+v", s)
			}
			_ = c.Ping(1)
			if name == "takeover" {
				unpublish(t, f.publishRTMP("cam", 0))
			}
			f.Logged("publisher ended", "publisher=pipe")
			served.Wait()
		})
	}
}

// A connection that becomes silent before its request is closed at its deadline. A connection that
// is cut is released.
func TestAnRTMPHandshakeHasADeadline(t *testing.T) {
	h := live.NewHub(testConfig())
	for name, sent := range map[string]string{
		"nothing": "", "half of C1": "\x03" + strings.Repeat("x", 700),
		"a handshake": "\x03" + strings.Repeat("\x00", 2*1536),
	} {
		client, server := nettest.TCPPair(t, false)
		_, _ = io.WriteString(client, sent)
		if _, _, err := rtmpserver.New(h).Accept(server,
			time.Now().Add(50*time.Millisecond)); err == nil {
			t.Errorf("%s: the handshake was accepted, want a deadline", name)
		}
		if _, err := io.Copy(io.Discard, client); err != nil &&
			!strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v, want the end of the connection", name, err)
		}
	}
}

// A publisher that has ended its stream may publish or play again on the same connection. A stream
// ends when the client ends it, and not when the client ends another one.
func TestRTMPPublishAgain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		latency time.Duration // from 5 ms on, the connection is polled
		config  func(t *testing.T) *tls.Config
	}{
		{"read at once", 0, nil},
		{"read by the clock", 20 * time.Millisecond, nil},
		{"TLS", 20 * time.Millisecond, tlsServer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) { c.Latency, c.PublisherReturn = tt.latency, 0 })
			f.nextTimeout = testTimeout
			var config *tls.Config
			if tt.config != nil {
				config = tt.config(t)
			}
			r := f.withRTMP(config)
			sc := newScript(1, 10, 500)
			c := r.dialRTMP(0)
			for i, name := range []string{"one", "two", "one"} {
				if i > 0 {
					c.Call(0, "createStream", nil)
				}
				if s := c.Publish(name); s.Code != "NetStream.Publish.Start" {
					t.Fatalf("publishing %s again: %+v, want NetStream.Publish.Start", name, s)
				}
				c.Call(0, "deleteStream", nil, 99)
				c.Call(0, "FCUnpublish", nil, "other")
				if err := c.SendTags(append(sc.config[1:], sc.tags...)...); err != nil {
					t.Fatal(err)
				}
				w := f.Watcher("/live/"+name, 0)
				w.Next(len(sc.header))
				c.Call(0, "FCUnpublish", nil, name)
				if err := c.SendTags(sc.tags[2:]...); err != nil { // some tags are still in transit
					t.Fatal(err)
				}
				c.Call(0, "deleteStream", nil, rtmp.Stream)
				c.AwaitCode("NetStream.Unpublish.Success")
				w.Rest()
			}
			live := f.Publisher("live")
			live.Send(sc.whole())
			f.published("live", len(sc.whole())-len(sc.header))
			c.Play("live")
			c.NextTag()
			live.End()
			c.AwaitCode("NetStream.Play.UnpublishNotify")
		})
	}
}

// A connection that is unused after the end of its stream is closed.
func TestRTMPConnectionEndsAfterItsStream(t *testing.T) {
	t.Parallel()
	f := serveRTMP(t, nil)
	c := f.publishRTMP("cam", 0)
	if err := c.SendTags(newScript(1, 2, 100).config...); err != nil {
		t.Fatal(err)
	}
	unpublish(t, c)
	c.AwaitEnd() // after nextTimeout
}
