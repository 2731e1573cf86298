package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/rtmp"
	"github.com/millrace-io/millrace/internal/relay/relaytest"
)

// rtmpAddr starts a listener of RTMP for f, and returns its address. wrap is what a connection is put into, or nil.
func (f *fixture) rtmpAddr(wrap func(net.Conn) net.Conn) string {
	f.T.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.T.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if wrap != nil {
				conn = wrap(conn)
			}
			serving.Go(func() { f.serveRTMP(conn) })
		}
	})
	f.T.Cleanup(func() {
		_ = ln.Close()
		f.stop()
		serving.Wait()
	})
	return ln.Addr().String()
}

// serveRTMP does what package server does, without its rules.
func (f *fixture) serveRTMP(conn net.Conn) {
	c, want, err := f.AcceptRTMP(conn, time.Now().Add(testTimeout))
	if err != nil {
		return
	}
	name := strings.TrimPrefix(want.Path, "live/")
	if want.Publish {
		err = c.Publish(name)
	} else {
		err = c.Watch(context.Background(), name)
	}
	if err != nil {
		c.Refuse(want, err)
	}
}

// made waits until n messages have been made of the stream.
func (f *fixture) made(name string, n int) {
	f.T.Helper()
	eventually(f.T, "the messages of "+name, func() bool {
		s := f.lookUp(name)
		s.mu.Lock()
		defer s.mu.Unlock()
		r := s.made[formatRTMP]
		return r != nil && r.ring.Stats().PublishedFrames >= uint64(n)
	})
}

// all returns the stream's tags.
func (s *script) all() [][]byte { return slices.Concat(s.config, s.tags) }

// Whatever a stream is published by, its viewers get the same tags, those of the stream.
func TestRTMPInAndOut(t *testing.T) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		f := serve(t, func(c *Config) { c.Latency = latency })
		addr := f.rtmpAddr(nil)
		sc := newScript(2, 5, 9000) // in several chunks
		for name, publish := range map[string]func(){
			"http": func() {
				p := f.Publisher("http")
				p.Send(sc.whole())
				p.End()
			},
			"rtmp": func() {
				p := f.RTMP(addr, 0)
				if s := p.Publish("rtmp"); !strings.HasPrefix(s, "status NetStream.Publish.Start") {
					t.Fatal(s)
				}
				p.SendTags(sc.all()...)
				p.Command("deleteStream", 0, nil, 1)
				if s := p.Status(); !strings.HasPrefix(s, "status NetStream.Unpublish.Success") {
					t.Error(s)
				}
			},
		} {
			var watching sync.WaitGroup
			var byRTMP, byFLV [][]byte
			watching.Go(func() {
				v := f.RTMP(addr, 0)
				v.AskPlay(name)
				byRTMP = v.Tags()
			})
			watching.Go(func() { byFLV = cut(t, f.Watcher("/live/"+name+".flv", 0).Rest()[13:]) })
			f.waiting(name, 2)
			publish()
			watching.Wait()
			for form, got := range map[string][][]byte{"RTMP": byRTMP, "FLV": byFLV} {
				if !slices.EqualFunc(got, sc.all(), bytes.Equal) {
					t.Errorf("latency %v, published by %s: a viewer of %s has %d other tags, want %d", latency, name, form, len(got), len(sc.all()))
				}
			}
		}
		f.stop()
	}
}

// A late viewer begins at the last key frame, behind what it needs for it.
func TestRTMPLateViewer(t *testing.T) {
	f := serve(t, nil)
	addr := f.rtmpAddr(nil)
	sc := newScript(3, 5, 3000)
	p := f.RTMP(addr, 0)
	p.Publish("cam")
	p.SendTags(sc.all()...)
	f.published("cam", len(sc.whole())-13)
	v := f.RTMP(addr, 0)
	if s := v.Play("cam"); !strings.HasPrefix(s, "status NetStream.Play.Start") {
		t.Fatal(s)
	}
	f.viewers(1)
	more := flvTag(flv.TypeAudio, 1000, []byte("\xaf\x01more"))
	p.SendTags(more)
	p.Command("FCUnpublish", 0, nil, "cam")
	want := append(slices.Concat(sc.config, sc.tags[sc.keys[2]:]), more)
	if got := v.Tags(); !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d tags, want %d", len(got), len(want))
	}
}

// Refusals say why, before the connection ends.
func TestRTMPRefusals(t *testing.T) {
	f := serve(t, func(c *Config) {
		c.ViewerWait, c.Takeover, c.MaxTagBytes, c.MaxStreams = 0, TakeoverNever, 10<<10, 1
	})
	addr := f.rtmpAddr(nil)
	refused := func(got, want string, c *relaytest.RTMP) {
		t.Helper()
		if !strings.HasPrefix(got, "error "+want) {
			t.Errorf("%q, want an error %q", got, want)
		}
		if _, _, err := c.Next(); err != io.EOF {
			t.Errorf("%v after it, want the end", err)
		}
	}
	v := f.RTMP(addr, 0)
	refused(v.Play("cam"), `NetStream.Play.StreamNotFound: no stream "cam"`, v)
	v = f.RTMP(addr, 0)
	refused(v.Publish("bad name"), "NetStream.Publish.Denied: bad stream name", v)
	p := f.RTMP(addr, 0)
	p.Publish("cam")
	v = f.RTMP(addr, 0)
	refused(v.Publish("cam"), "NetStream.Publish.BadName: this name has a publisher already", v)
	v = f.RTMP(addr, 0)
	refused(v.Publish("other"), "NetStream.Publish.Denied: the server has 1 streams", v)
	p.Send(rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: 6, Stream: 1}, make([]byte, 10<<10+1))
	refused(p.Status(), "NetStream.Publish.Denied: rtmp: bytes of one message: 10241, limit 10240 (--max-tag-bytes)", p)
}

// A publisher that is replaced, or whose server shuts down, is told so.
func TestRTMPPublisherIsToldWhyItEnds(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{"by the clock": nil, "as packets come": noSocket} {
		f := serve(t, nil)
		addr := f.rtmpAddr(wrap)
		first, second := f.RTMP(addr, 0), f.RTMP(addr, 0)
		first.Publish("cam")
		first.SendTags(newScript(1, 1, 100).all()...)
		f.stream("cam")
		if s := second.Publish("cam"); !strings.HasPrefix(s, "status NetStream.Publish.Start") {
			t.Errorf("%s: %s", name, s)
		}
		if s := first.Status(); s != "error NetStream.Publish.BadName: another publisher took over this stream" {
			t.Errorf("%s: %s", name, s)
		}
		go f.stop()
		if s := second.Status(); s != "error NetStream.Publish.Denied: the server is shutting down" {
			t.Errorf("%s: %s", name, s)
		}
	}
}

// noSocket hides that a connection is a socket, as TLS does.
func noSocket(c net.Conn) net.Conn { return struct{ net.Conn }{c} }

// What a viewer asks is answered between messages, while a stream is sent to it, and when there is none.
func TestRTMPPings(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{"writev": nil, "write": noSocket} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil)
			addr := f.rtmpAddr(wrap)
			sc := newScript(50, 5, 20_000)
			v := f.RTMP(addr, smallBuffer)
			v.AskPlay("cam")
			f.waiting("cam", 1)
			p := f.RTMP(addr, 0)
			p.Publish("cam")
			const pings = 500
			var sending sync.WaitGroup
			sending.Go(func() { p.SendTags(sc.all()...) })
			sending.Go(func() {
				for i := range pings {
					v.Ping(uint32(i))
				}
			})
			want := sc.all()
			for ponged := 0; ponged < pings || len(want) > 0; {
				m, body, err := v.Next()
				if err != nil {
					t.Fatalf("%d answers, %d tags to come: %v", ponged, len(want), err)
				}
				switch m.Type {
				case rtmp.TypeUserControl:
					if body[1] == 7 {
						if got := binary.BigEndian.Uint32(body[2:]); got != uint32(ponged) {
							t.Fatalf("answer %d is %d", ponged, got)
						}
						ponged++
					}
				case rtmp.TypeAudio, rtmp.TypeVideo:
					for want[0][0] == byte(flv.TypeScript) {
						want = want[1:]
					}
					if !bytes.Equal(body, want[0][11:len(want[0])-4]) {
						t.Fatalf("a tag is damaged, %d to come", len(want))
					}
					want = want[1:]
				}
			}
			sending.Wait()
			v.Ping(99) // with nothing else to send
			for {
				if m, body, err := v.Next(); err != nil {
					t.Fatal(err)
				} else if m.Type == rtmp.TypeUserControl && binary.BigEndian.Uint32(body[2:]) == 99 {
					break
				}
			}
		})
	}
}

// A viewer that asks and takes no answers is ended when so many wait.
func TestRTMPViewerThatTakesNoAnswers(t *testing.T) {
	f := serve(t, func(c *Config) { c.Unsent = smallBuffer })
	addr := f.rtmpAddr(nil)
	p := f.RTMP(addr, 0)
	p.Publish("cam")
	p.SendTags(newScript(1, 1, 100).all()...)
	v := f.RTMP(addr, smallBuffer)
	v.Play("cam")
	f.viewers(1)
	ping := binary.BigEndian.AppendUint32([]byte{2, 0, 0, 0, 0, 0, 6, 4, 0, 0, 0, 0, 0, 6}, 1)
	many := bytes.Repeat(ping, 1000)
	eventually(t, "the viewer to be ended", func() bool {
		_, err := v.Conn.Write(many)
		return err != nil
	})
	f.viewers(0)
	f.Logged("viewer ended", "form=rtmp", "reason=")
}

// A viewer that pauses gets nothing, and then goes on at the newest key frame; it gets the end of a stream in any case.
func TestRTMPPause(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{"writev": nil, "write": noSocket} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil)
			addr := f.rtmpAddr(wrap)
			p := f.RTMP(addr, 0)
			p.Publish("cam")
			sc := newScript(3, 2, 1000)
			p.SendTags(slices.Concat(sc.config, sc.tags[:sc.keys[1]])...)
			v := f.RTMP(addr, 0)
			v.Play("cam")
			for range len(sc.config) + sc.keys[1] {
				if _, err := v.Tag(); err != nil {
					t.Fatal(err)
				}
			}
			v.Command("pause", 0, nil, true, 0)
			if s := v.Status(); !strings.HasPrefix(s, "status NetStream.Pause.Notify") {
				t.Error(s)
			}
			p.SendTags(sc.tags[sc.keys[1]:]...)
			f.made("cam", len(sc.all()))
			v.Ping(7)
			for {
				m, body, err := v.Next()
				if err != nil || m.Type == rtmp.TypeVideo {
					t.Fatalf("%v while it is paused, %v", m, err)
				}
				if m.Type == rtmp.TypeUserControl && body[5] == 7 {
					break
				}
			}
			v.Command("pause", 0, nil, false, 0)
			if s := v.Status(); !strings.HasPrefix(s, "status NetStream.Unpause.Notify") {
				t.Error(s)
			}
			for _, want := range slices.Concat(sc.config, sc.tags[sc.keys[2]:]) {
				if got, err := v.Tag(); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("another tag after the pause, %v", err)
				}
			}
			v.Command("pause", 0, nil, true, 0)
			v.Status()
			p.Command("deleteStream", 0, nil, 1)
			if tags := v.Tags(); len(tags) > 0 {
				t.Errorf("%d tags before the end", len(tags))
			}
		})
	}
}

// A slow viewer is moved forward, and told nothing of what is between; with the other policy it is dropped.
func TestRTMPLag(t *testing.T) {
	for _, policy := range []Policy{Skip, Drop} {
		f := serve(t, tight(policy))
		addr := f.rtmpAddr(nil)
		p := f.RTMP(addr, 0)
		p.Publish("cam")
		sc := newScript(30, 4, 20_000)
		p.SendTags(slices.Concat(sc.config, sc.tags[:sc.keys[1]])...)
		v := f.RTMP(addr, smallBuffer)
		v.Play("cam")
		f.viewers(1)
		p.SendTags(sc.tags[sc.keys[1]:]...)
		f.published("cam", len(sc.whole())-13)
		if policy == Drop {
			f.viewers(0)
			f.Logged("viewer ended", "form=rtmp", "behind")
			continue
		}
		p.Command("deleteStream", 0, nil, 1)
		tags := v.Tags()
		if len(tags) >= len(sc.all()) || len(tags) == 0 || !bytes.Equal(tags[len(tags)-1], sc.tags[len(sc.tags)-1]) {
			t.Errorf("%d tags of %d, and the last one is not the stream's", len(tags), len(sc.all()))
		}
		for i, at := 0, 0; i < len(tags); i++ {
			if tags[i][0] == byte(flv.TypeScript) || tags[i][12] == 0 {
				continue // of the preamble
			}
			n := slices.IndexFunc(sc.tags[at:], func(tag []byte) bool { return bytes.Equal(tag, tags[i]) })
			if n < 0 {
				t.Fatalf("tag %d is not of the stream, or out of order", i)
			}
			if n > 0 && !slices.Contains(sc.keys, at+n) {
				t.Errorf("the viewer was moved to tag %d, which is no key frame", at+n)
			}
			at += n + 1
		}
	}
}

// Messages that are nothing for viewers do no harm.
func TestRTMPOddMessages(t *testing.T) {
	f := serve(t, nil)
	addr := f.rtmpAddr(nil)
	v := f.RTMP(addr, 0)
	v.AskPlay("cam")
	f.waiting("cam", 1)
	p := f.RTMP(addr, 0)
	p.Publish("cam")
	media := func(kind rtmp.Type, body string) {
		p.Send(rtmp.Message{Type: kind, ChunkStream: 4, Stream: 1}, []byte(body))
	}
	media(rtmp.TypeData, "\x00\x01\x02\x03") // a time code
	media(rtmp.TypeData, "")
	media(rtmp.TypeAudio, "")
	media(rtmp.TypeVideo, "")
	media(rtmp.TypeAudio, "\xaf\x00") // a sequence header with nothing in it
	media(99, "what is this")
	sc := newScript(1, 2, 100)
	p.SendTags(sc.all()...)
	media(rtmp.TypeDataAMF3, "\x00\x02\x00\x05event") // passes, without its first byte
	p.Command("closeStream", 0, nil)
	want := append(sc.all(), flvTag(flv.TypeScript, 0, []byte("\x02\x00\x05event")))
	if got := v.Tags(); !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d tags, want %d: %q", len(got), len(want), got)
	}
}

// hvcC is the sequence header of a picture of 322x182 by x265: ffmpeg -f lavfi -i testsrc=size=322x182 -c:v libx265 -tag:v
// hvc1 x.mp4 has it in its hvcC box. (ffmpeg 5 cannot put it into FLV.)
const hvcC = "0101600000009000000000003cf000fcfdf8f800000f03200001001840010c01ffff01600000030090000003000003003c95" +
	"9809210001002a42010101600000030090000003000003003ca00a480b9c9596566924caf0168080000003008000000c8422" +
	"000100074401c172b46240"

// Codecs by FourCC, and the unofficial number 12 of H.265, reach viewers as they came, and MP4 where it knows them.
func TestRTMPEnhanced(t *testing.T) {
	record, err := hex.DecodeString(hvcC)
	if err != nil {
		t.Fatal(err)
	}
	video := func(at uint32, data string) []byte { return flvTag(flv.TypeVideo, at, []byte(data)) }
	sound := func(at uint32, data string) []byte { return flvTag(flv.TypeAudio, at, []byte(data)) }
	for name, tags := range map[string][][]byte{
		"hvc1": {
			video(0, "\x90hvc1"+string(record)), sound(0, "\x90Opushead"),
			video(0, "\x91hvc1\x00\x00\x28key"), sound(20, "\x91Opussound"), video(40, "\xa3hvc1delta"), video(80, "\xa3hvc1delta"),
		},
		"classic-12": {
			video(0, "\x1c\x00\x00\x00\x00"+string(record)), video(0, "\x1c\x01\x00\x00\x28key"),
			video(40, "\x2c\x01\xff\xff\xd8delta"), video(80, "\x2c\x01\x00\x00\x00delta"),
		},
		"av01": {video(0, "\x90av01head"), video(0, "\x91av01key"), video(40, "\xa1av01delta")},
	} {
		f := serve(t, nil)
		addr := f.rtmpAddr(nil)
		var watching sync.WaitGroup
		var byRTMP [][]byte
		var byMP4 []byte
		viewers := 1
		watching.Go(func() {
			v := f.RTMP(addr, 0)
			v.AskPlay(name)
			byRTMP = v.Tags()
		})
		if name != "av01" {
			viewers++
			watching.Go(func() { byMP4 = f.Watcher("/live/"+name+".mp4", 0).Rest() })
		}
		f.waiting(name, viewers)
		p := f.RTMP(addr, 0)
		p.Publish(name)
		p.SendTags(tags...)
		p.Command("deleteStream", 0, nil, 1)
		watching.Wait()
		if !slices.EqualFunc(byRTMP, tags, bytes.Equal) {
			t.Errorf("%s: %d tags, want %d: %q", name, len(byRTMP), len(tags), byRTMP)
		}
		if name != "av01" && (!bytes.Contains(byMP4, append([]byte("hvcC"), record...)) || !bytes.Contains(byMP4, []byte("key"))) {
			t.Errorf("%s: the MP4 of %d bytes has not the codec's record, or no picture", name, len(byMP4))
		}
	}
}

// A client that has not said what it wants by the deadline, or says something else, is closed.
func TestAcceptRTMPFails(t *testing.T) {
	h := New(testConfig())
	for _, tt := range []struct{ sends, want string }{
		{"\x03half a handshake", "i/o timeout"},
		{"\x06" + strings.Repeat("x", 1536), "RTMPE"},
		{"GET / HTTP/1.1\r\n\r\n", "HTTP"},
		{"\x16\x03\x01", "TLS"},
	} {
		client, conn := tcpPair(t, false)
		_, _ = io.WriteString(client, tt.sends)
		_, _, err := h.AcceptRTMP(conn, time.Now().Add(100*time.Millisecond))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.10q: %v, want %q", tt.sends, err, tt.want)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%.10q: the connection is open", tt.sends)
		}
	}
}
