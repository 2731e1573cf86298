package rtmp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
)

// app is the smallest argument of connect.
func app(name string) rtmp.Object {
	return rtmp.Object{{"app", name}, {"tcUrl", "rtmp://127.0.0.1/" + name}}
}

// The messages of real programs, in order, and the answers.
func TestScripts(t *testing.T) {
	metadata := "\x02\x00\x0d@setDataFrame\x02\x00\x0aonMetaData\x08\x00\x00\x00\x01\x00\x05width\x00\x40\x94\x00\x00\x00\x00\x00\x00\x00\x00\x09"
	video := "\x17\x01\x00\x00\x00picture"
	media := rawChunks(4, 18, 0, 1, metadata, 4096, false) + rawChunks(4, 9, 40, 1, video, 4096,
		false) +
		rawChunks(4, 8, 41, 1, "\xaf\x01sound", 4096, false)
	gotMedia := []string{"data 0 " + metadata, "video 40 " + video, "audio 41 \xaf\x01sound"}
	for _, tt := range []struct {
		name   string
		in     string
		client string
		got    []string
		said   []string
		end    error
	}{
		{"OBS publishes",
			control(1, 4096) + command("connect", 1,
				append(app("live"), rtmp.Property{"type", "nonprivate"},
					rtmp.Property{"flashVer", "FMLE/3.0 (compatible; FMSc/1.0)"})) +
				command("releaseStream", 2, nil, "camera") + command("FCPublish", 3, nil,
				"camera") +
				command("createStream", 4, nil) + command("_checkbw", 5, nil) +
				commandOn(1, "publish", 6, nil, "camera", "live") + media +
				command("FCUnpublish", 7, nil, "camera") + command("deleteStream", 8, nil, 1),
			"FMLE/3.0 (compatible; FMSc/1.0)", gotMedia,
			lines(connected, "0: _result 2 null null", "0: _result 3 null null",
				"0: _result 4 null 1", "0: _result 5 null null",
				publishing[0],
				"0: onFCPublish 0 null {level=status code=NetStream.Publish.Start description=live/camera}",
				publishing[1],
				"0: onFCUnpublish 0 null {level=status code=NetStream.Unpublish.Success description=live/camera}", unpublished),
			io.EOF},
		{"ffmpeg publishes, in chunks as large as the server's",
			command("connect", 1, append(app("live"), rtmp.Property{"type", "nonprivate"},
				rtmp.Property{"flashVer", "FMLE/3.0 (Lavf)"})) +
				control(1, 1<<20) + command("releaseStream", 2, nil,
				"camera") + command("FCPublish", 3, nil, "camera") +
				command("createStream", 4, nil) + command("_checkbw", 5, nil) + commandOn(1,
				"publish", 6, nil, "camera", "live") +
				media + command("FCUnpublish", 7, nil, "camera") + command("deleteStream", 8, nil,
				1),
			"FMLE/3.0 (Lavf)", gotMedia,
			lines(connected, "0: _result 2 null null", "0: _result 3 null null",
				"0: _result 4 null 1", "0: _result 5 null null",
				publishing[0],
				"0: onFCPublish 0 null {level=status code=NetStream.Publish.Start description=live/camera}",
				publishing[1],
				"0: onFCUnpublish 0 null {level=status code=NetStream.Unpublish.Success description=live/camera}", unpublished),
			io.EOF},
		{"GStreamer publishes, and deletes its stream without FCUnpublish",
			control(1, 65536) + command("connect", 1, app("live")) + control(5,
				2_500_000) + command("releaseStream", 2, nil, "camera") +
				command("FCPublish", 3, nil, "camera") + command("createStream", 4, nil) +
				commandOn(1, "publish", 5, nil, "camera", "live") + media + commandOn(1,
				"deleteStream", 0, nil, 1),
			"", gotMedia,
			lines(connected, "0: _result 2 null null", "0: _result 3 null null",
				"0: _result 4 null 1", publishing[0],
				"0: onFCPublish 0 null {level=status code=NetStream.Publish.Start description=live/camera}",
				publishing[1], unpublished),
			io.EOF},
		{"publish without a type, and the connection ends",
			command("connect", 1, app("live")) + command("createStream", 2, nil) + commandOn(1,
				"publish", 3, nil, "camera"),
			"", nil, lines(connected, "0: _result 2 null 1", publishing), io.ErrUnexpectedEOF},
		{"rtmpdump plays",
			command("connect", 1, append(app("live"), rtmp.Property{"flashVer", "LNX 10,0,32,18"},
				rtmp.Property{"fpad", false})) +
				control(5, 2_500_000) + userControl(3,
				"\x00\x00\x00\x00\x00\x00\x01\x2c") + command("createStream", 2, nil) +
				command("FCSubscribe", 3, nil, "camera") + commandOn(1, "play", 4, nil, "camera",
				-2000) +
				userControl(3, "\x00\x00\x00\x01\x00\x00\x8c\xa0") + command("deleteStream", 0, nil,
				1),
			"LNX 10,0,32,18", nil,
			lines(connected, "0: _result 2 null 1", "0: _result 3 null null", playing), io.EOF},
		{"Flash plays, pauses, seeks and continues, with commands of AMF3",
			command("connect", 1, append(app("live"), rtmp.Property{"objectEncoding", 3})) +
				amf3(17, command("createStream", 2, nil)) + command("getStreamLength", 3, nil,
				"camera") +
				amf3(17, commandOn(1, "play", 0, nil, "camera", -1, -1, true)) +
				commandOn(1, "pause", 0, nil, true, 1000) + commandOn(1, "pause", 0, nil, true,
				1000) +
				amf3(17, commandOn(1, "seek", 0, nil, 0)) + commandOn(1, "pause", 0, nil, false,
				1000) +
				commandOn(1, "receiveAudio", 0, nil, true) + commandOn(1, "closeStream", 0, nil),
			"", []string{"command 0 ", "command 0 "},
			lines(connected, "0: _result 2 null 1", "0: _result 3 null 0", playing,
				"1: onStatus 0 null {level=status code=NetStream.Pause.Notify description=paused}",
				"1: onStatus 0 null {level=status code=NetStream.Pause.Notify description=paused}",
				`1: onStatus 0 null {level=status code=NetStream.Seek.Notify description="a live stream has one place to be at"}`,
				`1: onStatus 0 null {level=status code=NetStream.Unpause.Notify description="continuing with the newest video"}`),
			io.EOF},
		{"a second stream on one connection",
			command("connect", 1, app("live")) + command("createStream", 2,
				nil) + command("createStream", 3, nil) +
				commandOn(1, "publish", 4, nil, "camera", "live") + commandOn(2, "publish", 5, nil,
				"other", "live"),
			"", nil, lines(connected, "0: _result 2 null 1", "0: _result 3 null 1", publishing,
				`1: onStatus 0 null {level=error code=NetStream.Failed description="a connection carries one stream here"}`),
			io.ErrUnexpectedEOF},
		{"other streams than its own are deleted",
			command("connect", 1, app("live")) + command("createStream", 2, nil) + commandOn(1,
				"publish", 3, nil, "camera") +
				command("deleteStream", 4, nil, 99) + command("deleteStream", 0, nil,
				0) + command("FCUnpublish", 5, nil, "other") +
				commandOn(7, "closeStream", 0, nil) + media + command("FCUnpublish", 6, nil,
				"camera"),
			"", gotMedia, lines(connected, "0: _result 2 null 1", publishing,
				"0: _result 4 null null", "0: _result 5 null null",
				"0: onFCUnpublish 0 null {level=status code=NetStream.Unpublish.Success description=live/camera}", unpublished), io.EOF},
		{"the stream that it has opened under a number of its own",
			command("connect", 1, app("live")) + command("createStream", 2, nil) + commandOn(2,
				"publish", 3, nil, "camera") +
				media + commandOn(2, "deleteStream", 0, nil, 2),
			"", gotMedia, lines(connected, "0: _result 2 null 1", publishing, unpublished), io.EOF},
		{"a stream is deleted before there is one",
			command("connect", 1, app("live")) + command("deleteStream", 2, nil,
				1) + command("closeStream", 0, nil) +
				command("createStream", 3, nil) + commandOn(1, "publish", 4, nil, "camera"),
			"", nil, lines(connected, "0: _result 2 null null", "0: _result 3 null 1", publishing),
			io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := talk(t, asChunks(tt.in), grant)
			if v.accepted != nil {
				t.Fatal(v.accepted)
			}
			if v.request.Path != "live/camera" || v.request.Client != tt.client ||
				len(v.request.Query) > 0 {
				t.Errorf("%+v, want live/camera of %s", v.request, tt.client)
			}
			var got []string
			for _, m := range v.got {
				got = append(got, m.Type.String()+" "+text(m.Timestamp)+" "+m.body)
			}
			sameLines(t, got, tt.got...)
			sameLines(t, v.said, tt.said...)
			if v.end != tt.end {
				t.Errorf("it ends with %v, want %v", v.end, tt.end)
			}
		})
	}
}

// asChunks changes a session that command has built in chunks of 128 bytes, and that sets another
// chunk size. It rewrites the messages after that in the new size.
func asChunks(in string) string {
	list, err := slowMessages(in)
	if err != nil {
		panic(err)
	}
	out, chunk := "", 128
	for _, m := range list {
		out += rawChunks(m.ChunkStream, byte(m.Type), m.Timestamp, m.Stream, m.body, chunk, true)
		if m.Type == rtmp.TypeSetChunkSize {
			chunk = int(binary.BigEndian.Uint32([]byte(m.body)))
		}
	}
	return out
}

// slowMessages reads a session in which each message is one chunk, or in chunks of 128 bytes.
func slowMessages(in string) (list []slowMessage, err error) {
	for len(in) > 0 {
		size := int(in[4])<<16 | int(in[5])<<8 | int(in[6])
		m := rtmp.Message{Type: rtmp.Type(in[7]), ChunkStream: int(in[0]), Size: size,
			Timestamp: uint32(in[1])<<16 | uint32(in[2])<<8 | uint32(in[3]),
			Stream:    binary.LittleEndian.Uint32([]byte(in[8:]))}
		in = in[12:]
		var body string
		for len(body) < size {
			n := min(128, size-len(body))
			body += in[:n]
			if in = in[n:]; len(body) < size {
				if in[0] != 0xc0|byte(m.ChunkStream) {
					return nil, errors.New("not in chunks of 128 bytes")
				}
				in = in[1:]
			}
		}
		list = append(list, slowMessage{m, body})
	}
	return list, nil
}

// amf3 converts a message of AMF0 to AMF3.
func amf3(kind byte, message string) string {
	list, err := slowMessages(message)
	if err != nil {
		panic(err)
	}
	return rawChunks(3, kind, 0, list[0].Stream, "\x00"+list[0].body, 128, false)
}

// publishTo is a session up to the publish command.
func publishTo(connect rtmp.Object, name string) string {
	return command("connect", 1, connect) + command("createStream", 2, nil) + commandOn(1,
		"publish", 3, nil, name)
}

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name         string
		connect      any
		stream       any
		path, client string
		query        url.Values
	}{
		{"plain", app("live"), "camera", "live/camera", "", url.Values{}},
		{"no stream name", app("live/camera"), "", "live/camera", "", url.Values{}},
		{"a stream name that is null", app("live/camera"), nil, "live/camera", "", url.Values{}},
		{"several levels in the application", app("a/b/c"), "d", "a/b/c/d", "", url.Values{}},
		{"several levels in the name", app("a"), "b/c/d", "a/b/c/d", "", url.Values{}},
		{"slashes around", app("/live/"), "/camera/", "live/camera", "", url.Values{}},
		{"no application", rtmp.Object{}, "camera", "camera", "", url.Values{}},
		{"connect with null", nil, "camera", "camera", "", url.Values{}},
		{"connect with a strict array", values{"app", "live"}, "camera", "camera", "",
			url.Values{}},
		{"an application that is a number", rtmp.Object{{"app", 1}}, "camera", "camera", "",
			url.Values{}},
		{"a query behind the name", app("live"), "camera?key=a%20b&x=1", "live/camera", "",
			url.Values{"key": {"a b"}, "x": {"1"}}},
		{"a query behind the application", rtmp.Object{{"app", "live?key=a"}}, "camera",
			"live/camera", "", url.Values{"key": {"a"}}},
		{"a query behind an application with a slash", rtmp.Object{{"app", "live/?key=a"}},
			"camera", "live/camera", "",
			url.Values{"key": {"a"}}},
		{"a query behind the address", rtmp.Object{{"app", "live"},
			{"tcUrl", "rtmp://h/live?key=a"}}, "camera", "live/camera", "",
			url.Values{"key": {"a"}}},
		{"that of the name comes first", rtmp.Object{{"app", "live?key=b&y=2"},
			{"tcUrl", "rtmp://h/live?key=c&y=3&z=4"}},
			"camera?key=a", "live/camera", "", url.Values{"key": {"a"}, "y": {"2"}, "z": {"4"}}},
		{"a query alone", app("live/camera"), "?key=a", "live/camera", "",
			url.Values{"key": {"a"}}},
		{"escapes that are none", app("live"), "camera?%zz&key=a%4&100%", "live/camera", "",
			url.Values{"%zz": {""}, "key": {"a%4"}, "100%": {""}}},
		{"a key as typed", app("live"), "camera?key=a+b/c;d=e!f==&&x=a?b", "live/camera", "",
			url.Values{"key": {"a+b/c;d=e!f=="}, "x": {"a?b"}}},
		{"a key that ends with a slash", app("live"), "camera?key=a/", "live/camera", "",
			url.Values{"key": {"a/"}}},
		{"an address divided in its query", rtmp.Object{{"app", "live/camera?key=a"},
			{"tcUrl", "rtmp://h/live/camera?key=a"}}, "b==", "live/camera", "",
			url.Values{"key": {"a/b=="}}},
		{"an address divided in its query, late", app("live/camera?key=a/b"), "c&x=1",
			"live/camera", "",
			url.Values{"key": {"a/b/c"}, "x": {"1"}}},
		{"an address divided after slashes in a row", app("live/camera?key=a"), "/b/",
			"live/camera", "",
			url.Values{"key": {"a//b/"}}},
		{"a query before the name", app("live?key=a/b"), "camera", "live/camera", "",
			url.Values{"key": {"a/b"}}},
		{"two queries", app("live/hall?key=a"), "camera?x=1", "live/hall/camera", "",
			url.Values{"key": {"a"}, "x": {"1"}}},
		{"the program", rtmp.Object{{"app", "live"}, {"flashVer", "x 1.0"}}, "camera",
			"live/camera", "x 1.0", url.Values{}},
	} {
		for _, name := range []string{"publish", "play"} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				in := command("connect", 1, tt.connect) + command("createStream", 2,
					nil) + commandOn(1, name, 3, nil, tt.stream)
				v := talk(t, in, grant)
				want := &rtmp.Request{Publish: name == "publish", Path: tt.path, Query: tt.query,
					Client: tt.client}
				if v.accepted == nil {
					want.RawQuery = v.request.RawQuery // see TestRawQuery
				}
				if v.accepted != nil || !reflect.DeepEqual(v.request, want) {
					t.Errorf("%+v, %v, want %+v", v.request, v.accepted, want)
				}
			})
		}
	}
	t.Run("connect with an ECMA array", func(t *testing.T) {
		body := amf("connect", 1) + "\x08\x00\x00\x00\x00\x00\x03app\x02\x00\x04live\x00\x00\x09"
		v := talk(t, rawMessage(20, 0, body)+commandOn(1, "publish", 3, nil, "camera"), grant)
		if v.accepted != nil || v.request.Path != "live/camera" {
			t.Errorf("%+v, %v, want live/camera accepted", v.request, v.accepted)
		}
	})
}

// RawQuery has the query as the client sent it, once.
func TestRawQuery(t *testing.T) {
	for _, tt := range []struct{ app, address, key, want string }{
		{"live", "rtmp://h/live", "camera", ""},
		{"live", "rtmp://h/live", "camera?u=x;v=y+z&a=%zz", "u=x;v=y+z&a=%zz"},
		{"live?a=1", "rtmp://h/live?a=1", "camera?b=2", "b=2&a=1"},
		{"live", "rtmp://h/live?a=1", "camera?b=2", "b=2&a=1"},
		{"live/camera?a=x", "rtmp://h/live/camera?a=x", "y/z", "a=x/y/z"},
	} {
		in := publishTo(rtmp.Object{{"app", tt.app}, {"tcUrl", tt.address}}, tt.key)
		v := talk(t, in, grant)
		if v.accepted != nil || v.request.RawQuery != tt.want {
			t.Errorf("%+v: %+v, %v, want the query as it was sent", tt, v.request, v.accepted)
		}
	}
}

// Only clients that announce Enhanced RTMP get an answer of Enhanced RTMP, because old clients may
// fail at it.
func TestEnhancedWhenAsked(t *testing.T) {
	for _, tt := range []struct {
		name string
		with rtmp.Object
		want bool
	}{
		{"an old client", nil, false},
		{"fourCcList", rtmp.Object{{"fourCcList", values{"hvc1"}}}, true},
		{"capsEx", rtmp.Object{{"capsEx", 1}}, true},
		{"both", rtmp.Object{{"fourCcList", values{"*"}}, {"capsEx", 15}}, true},
	} {
		v := talk(t, publishTo(append(app("live"), tt.with...), "camera"), grant)
		if v.accepted != nil {
			t.Fatal(v.accepted)
		}
		const enhanced = " capsEx=7 fourCcList=[*] videoFourCcInfoMap={*=4} audioFourCcInfoMap={*=4}}"
		if got := strings.Contains(v.said[2], enhanced); got != tt.want {
			t.Errorf("%s: the answer offers enhanced RTMP or does not, against the request: %s",
				tt.name, v.said[2])
		}
		if !tt.want && strings.Contains(v.said[2], "ourCc") {
			t.Errorf("%s: the answer names codecs that were not asked for: %s", tt.name, v.said[2])
		}
	}
}

// A client that announces the ability can be asked to reconnect, as Enhanced RTMP describes it.
func TestReconnect(t *testing.T) {
	for _, tt := range []struct {
		caps any
		want bool
	}{{nil, false}, {6, false}, {1, true}, {15, true}, {"1", false}, {math.NaN(), false},
		{math.Inf(1), false}} {
		var can bool
		v := talk(t, publishTo(append(app("live"), rtmp.Property{"capsEx", tt.caps}), "camera"),
			func(c *rtmp.ServerConn) error {
				can = c.CanReconnect()
				return c.RequestReconnect("an update")
			})
		if v.accepted != nil {
			t.Fatal(v.accepted)
		}
		if can != tt.want {
			t.Errorf("capsEx %v: reconnect %v, want %v", tt.caps, can, tt.want)
		}
		sameLines(t, v.said[len(v.said)-1:],
			`0: onStatus 0 null {level=status code=NetConnection.Connect.ReconnectRequest description="an update"}`)
	}
}

func TestRefuse(t *testing.T) {
	v := talk(t, publishTo(app("live"), "camera"), func(c *rtmp.ServerConn) error {
		return c.Refuse("NetStream.Publish.BadName", "somebody else publishes it")
	})
	sameLines(t, v.said, lines(connected, "0: _result 2 null 1",
		`1: onStatus 0 null {level=error code=NetStream.Publish.BadName description="somebody else publishes it"}`)...)
}

func TestAppendEnd(t *testing.T) {
	in := command("connect", 1, app("live")) + command("createStream", 2, nil) + commandOn(1,
		"play", 3, nil, "camera")
	r := millrace.NewReader(strings.NewReader(plainHandshake + in))
	defer r.Release()
	var out bytes.Buffer
	c := rtmp.NewServerConn(r, &out, 1<<20)
	defer c.Release()
	if _, err := c.Accept(); err != nil {
		t.Fatal(err)
	}
	if c.ChunkSize() != 1<<20 || c.Paused() {
		t.Error(c.ChunkSize(), c.Paused())
	}
	var end millrace.Chain
	defer end.Release()
	c.AppendEnd(&end)
	sameLines(t, said(t, slices.Concat([]byte(control(1, 1<<20)), end.Bytes())), "event 1 of 1",
		`1: onStatus 0 null {level=status code=NetStream.Play.UnpublishNotify description="live/camera has ended"}`,
		`1: onStatus 0 null {level=status code=NetStream.Play.Stop description="live/camera has ended"}`)
}

// Messages of any size that arrive before a client may publish.
func TestLimitsBeforeARequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    string
		error string
	}{
		{"a large command", string(rawHeader(0, 3, 0, 16<<10+1, 20, 0)),
			"rtmp: bytes of one message: 16385, limit 16384"},
		{"pictures", string(rawHeader(0, 3, 0, 1<<20, 9, 1)),
			"rtmp: bytes of one message: 1048576, limit 16384"},
		{"commands in half", command("connect", 1, app("live")) + "\x03\x00", "unexpected EOF"},
		{"nothing", "", "unexpected EOF"},
	} {
		if v := talk(t, tt.in, grant); v.accepted == nil || v.accepted.Error() != tt.error {
			t.Errorf("%s: %v, want %s", tt.name, v.accepted, tt.error)
		}
	}
	v := talk(t, publishTo(app("live"), "camera")+string(rawHeader(0, 3, 0, 1<<20+1, 9, 1)), grant)
	if v.end == nil || v.end.Error() != "rtmp: bytes of one message: 1048577, limit 1048576" {
		t.Errorf("a large picture: %v", v.end)
	}
}

// A client that may not publish yet does not hold a large block with each part of an unfinished
// message.
func TestMemoryBeforeARequest(t *testing.T) {
	var in strings.Builder
	in.WriteString(plainHandshake + control(1, 1<<10))
	unknown := string(rawHeader(0, 5, 0, 4<<10, 99, 0)) + strings.Repeat("u", 1<<10) +
		strings.Repeat("\xc5"+strings.Repeat("u", 1<<10), 3)
	first := string(rawHeader(0, 3, 0, 12<<10, 20, 0))
	for range 11 {
		in.WriteString(first + strings.Repeat("c", 1<<10) + strings.Repeat(unknown, 15))
		first = "\xc3"
	}
	pool, def := millrace.NewPool(), millrace.DefaultPool()
	before := def.Stats().InUse
	most := int64(0)
	src := strings.NewReader(in.String())
	r := pool.NewReader(readerFunc(func(p []byte) (int, error) {
		most = max(most, pool.Stats().InUse+def.Stats().InUse-before)
		return src.Read(p)
	}), 4096)
	defer r.Release()
	c := rtmp.NewServerConn(r, io.Discard, 1<<24-1)
	defer c.Release()
	if _, err := c.Accept(); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	// Unfinished messages, and two blocks of 64 KiB: the Reader's, and a second one while the first
	// is read.
	if most > 192<<10 {
		t.Errorf("%d bytes held", most)
	}
}

// A playing client can make the server hold at most 4 KiB, however it splits unfinished messages,
// at any time.
func TestMemoryOfAPlayer(t *testing.T) {
	play := command("connect", 1, app("live")) + command("createStream", 2, nil) + commandOn(1,
		"play", 3, nil, "camera")
	part := func(chunks, size, sent int) string {
		return string(rawHeader(0, chunks, 0, size, 18, 1)) + strings.Repeat("p", sent)
	}
	var many, heads strings.Builder
	for i := range 20 {
		many.WriteString(part(10+i, 4<<10, 512))
		heads.WriteString(part(10+i, 100, 1))
	}
	for name, in := range map[string]string{
		"a long message": play + control(1, 65534) + part(10, 65535, 65534),
		"two messages": play + control(1, 4<<10-1) + part(10, 4<<10,
			4<<10-1) + part(11, 4<<10, 4<<10-1),
		"many messages":                 play + control(1, 512) + many.String(),
		"many chunk streams":            play + control(1, 1) + heads.String(),
		"a long message before it asks": control(1, 10<<10) + part(10, 16<<10, 10<<10) + play,
		"an aggregate": play + control(1,
			65534) + string(rawHeader(0, 10, 0, 65535, 22, 1)) + strings.Repeat("p", 65534),
	} {
		pool := millrace.NewPool(millrace.IdleLimit(0))
		r := millrace.NewReader(strings.NewReader(plainHandshake + in))
		c := rtmp.NewServerConn(r, io.Discard, 1<<24-1)
		c.SetPool(pool)
		want, err := c.Accept()
		if want == nil || want.Publish {
			t.Fatalf("%s: %v, %v, want a player", name, want, err)
		}
		var none millrace.Chain
		refused := err != nil
		for err == nil {
			_, err = c.Next(&none)
		}
		if _, ok := errors.AsType[*rtmp.LimitError](err); !ok {
			t.Errorf("%s: %v, want a LimitError", name, err)
		}
		r.Release()
		if n := pool.Stats().InUse; n > 8<<10 && !refused {
			t.Errorf("%s: %d bytes held", name, n)
		}
		c.Release()
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%s: %d bytes are left", name, n)
		}
	}
}

// Unfinished messages of a publisher are in its own pool. So are those of aggregates, even if they
// are copied.
func TestMemoryOfAPublisher(t *testing.T) {
	pool, def := millrace.NewPool(), millrace.DefaultPool()
	before := def.Stats().InUse
	tag := "\x09\x00\x00\x05" + "\x00\x00\x00\x00\x00\x00\x00" + "\x27\x01abc" + "\x00\x00\x00\x10"
	r := millrace.NewReader(strings.NewReader(plainHandshake + publishTo(app("live"), "camera") +
		string(rawHeader(0, 7, 0, len(tag), 22, 1)) + tag +
		string(rawHeader(0, 8, 0, 1<<20, 9, 1)) + strings.Repeat("v", 128) +
		"\xc8" + strings.Repeat("v", 128)))
	defer r.Release()
	c := rtmp.NewServerConn(r, io.Discard, 1<<24-1)
	defer c.Release()
	c.SetPool(pool)
	if _, err := c.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var got millrace.Chain
	defer got.Release()
	if m, err := c.Next(&got); err != nil || m.Type != rtmp.TypeVideo {
		t.Fatal(m, err)
	}
	if _, err := c.Next(&got); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	if n := def.Stats().InUse - before; n > 1<<10 { // the headers of answers
		t.Errorf("%d bytes are not in its pool", n)
	}
}

// A message has a time limit, whatever else arrives in the meantime.
func TestMessageTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		play := command("connect", 1, app("live")) + command("createStream", 2, nil) + commandOn(1,
			"play", 3, nil, "camera")
		ping := control(6, 0)
		for _, tt := range []struct {
			name  string
			parts []string // one part per second
			ends  bool
		}{
			{"half a message", []string{string(rawHeader(0, 10, 0, 100, 18, 1)) + "p"}, true},
			{"half a header", []string{"\x0a\x00"}, true},
			{"half a message, and others", append([]string{string(rawHeader(0, 10, 0, 300, 18,
				1)) + strings.Repeat("p", 128)},
				slices.Repeat([]string{ping}, 20)...), true},
			{"whole messages", slices.Repeat([]string{ping}, 20), false},
			{"a message in two parts, now and then",
				slices.Repeat([]string{string(rawHeader(0, 10, 0, 2, 18, 1)) + "p", "p"}, 20),
				false},
			{"nothing", []string{""}, false},
			{"two messages that take turns", slices.Repeat([]string{
				string(rawHeader(0, 10, 0, 129, 18, 1)) + strings.Repeat("p", 128),
				string(rawHeader(0, 11, 0, 129, 18, 1)) + strings.Repeat("p", 128), "\xcap",
				"\xcbp"}, 20), false},
		} {
			ours, theirs := net.Pipe()
			r := millrace.NewReader(ours)
			c := rtmp.NewServerConn(r, io.Discard, 1<<20)
			began := time.Now()
			var first atomic.Int64
			c.SetMessageTimeout(10*time.Second, func() {
				first.CompareAndSwap(0, int64(time.Since(began)))
				_ = ours.Close()
			})
			go func() {
				_, _ = io.WriteString(theirs, plainHandshake+play)
				for _, p := range tt.parts {
					_, _ = io.WriteString(theirs, p)
					time.Sleep(time.Second)
				}
				time.Sleep(20 * time.Second)
				_ = theirs.Close()
			}()
			if _, err := c.Accept(); err != nil {
				t.Fatalf("%s: Accept: %v, want nil", tt.name, err)
			}
			var none millrace.Chain
			for {
				if _, err := c.Next(&none); err != nil {
					break
				}
				none.Release()
			}
			expired := time.Duration(first.Load())
			if tt.ends != (expired == 10*time.Second) || !tt.ends && expired != 0 {
				t.Errorf("%s: it ended after %v", tt.name, expired)
			}
			c.Release()
			r.Release()
			_ = theirs.Close()
			synctest.Wait()
		}
	})
}

// After Start, chunks of 4096 bytes are not copied.
func TestPublishedChunksAreNotCopied(t *testing.T) {
	pool := millrace.NewPool()
	body := strings.Repeat("x", 40_000)
	r := pool.NewReader(strings.NewReader(plainHandshake+publishTo(app("live"), "camera")+control(1,
		4096)+
		rawChunks(6, 9, 40, 1, body, 4096, false)), 4096)
	c := rtmp.NewServerConn(r, io.Discard, 1<<20)
	if _, err := c.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var got millrace.Chain
	before := millrace.DefaultPool().Stats().InUse
	if _, err := c.Next(&got); err != nil || got.Len() != len(body) {
		t.Fatal(err)
	}
	if copied := millrace.DefaultPool().Stats().InUse - before; copied != 0 {
		t.Errorf("copied to %d bytes", copied)
	}
	c.Release()
	r.Release()
	got.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A deadline between any two bytes loses no message and no interruption.
func TestNextAfterDeadlines(t *testing.T) {
	src := &stuttering{parts: [][]byte{[]byte(plainHandshake + publishTo(app("live"), "camera"))}}
	for _, b := range []byte(userControl(6, "abcd") + rawChunks(6, 9, 40, 1,
		strings.Repeat("x", 300), 128, false) +
		commandOn(1, "pause", 4, nil, true, 0) + rawMessage(8, 41,
		"sound") + command("deleteStream", 5, nil, 1)) {
		src.parts = append(src.parts, []byte{b})
	}
	r := millrace.NewReader(src)
	defer r.Release()
	var out bytes.Buffer
	c := rtmp.NewServerConn(r, &out, 1<<20)
	defer c.Release()
	if _, err := c.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var got []string
	var err error
	for err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		var body millrace.Chain
		var m rtmp.Message
		if m, err = c.Next(&body); err == nil {
			got = append(got, fmt.Sprint(m.Type, " of ", body.Len()))
		}
		body.Release()
	}
	sameLines(t, got, "video of 300", "command of 0", "audio of 5")
	if err != io.EOF || !c.Paused() {
		t.Error(err, c.Paused())
	}
	if n := bytes.Count(out.Bytes(), []byte("\x00\x07abcd")); n != 1 {
		t.Errorf("%d answers to a ping", n)
	}
}

// A failing write ends the current call.
func TestWriteFails(t *testing.T) {
	for n := range 4 {
		r := millrace.NewReader(strings.NewReader(plainHandshake + publishTo(app("live"),
			"camera") + userControl(6, "abcd") + rawMessage(9, 0, "x")))
		w := &failing{after: n}
		c := rtmp.NewServerConn(r, w, 1<<20)
		_, err := c.Accept()
		if err == nil {
			err = c.Start()
		}
		var body millrace.Chain
		if err == nil {
			_, err = c.Next(&body)
		}
		if err != errFailing || body.Len() > 0 {
			t.Errorf("after %d writes: %v, %d bytes", n, err, body.Len())
		}
		c.Release()
		r.Release()
	}
}

// If the answer to a message cannot be written, the message does not become a part of the next one.
func TestNextAfterAFailedWrite(t *testing.T) {
	r := millrace.NewReader(strings.NewReader(plainHandshake + publishTo(app("live"),
		"camera") + userControl(6, "abcd") + rawMessage(9, 0, "x")))
	defer r.Release()
	w := &counter{}
	c := rtmp.NewServerConn(r, writerFunc(func(p []byte) (int, error) {
		if n, _ := w.Write(p); bytes.Contains(p, []byte("abcd")) {
			return n, errFailing
		}
		return len(p), nil
	}), 1<<20)
	defer c.Release()
	if _, err := c.Accept(); err != nil {
		t.Fatal(err)
	}
	var body millrace.Chain
	defer body.Release()
	if _, err := c.Next(&body); err != errFailing || body.Len() > 0 {
		t.Errorf("%v, %d bytes, want the error of the write", err, body.Len())
	}
	if m, err := c.Next(&body); err != nil || body.Len() != m.Size {
		t.Errorf("%v, %d bytes of %d", err, body.Len(), m.Size)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var errFailing = errors.New("the connection is gone")

// failing fails after some writes. Its connection does not accept several pieces at once.
type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errFailing
	}
	return len(p), nil
}

// A peer is a client at the other end of a connection that can wait for answers.
type peer struct {
	t    *testing.T
	conn net.Conn
	r    *millrace.Reader
	dec  *rtmp.Decoder
}

// dial starts a ServerConn with serve in a goroutine, and returns its client. done waits for serve
// and returns its error.
func dial(t *testing.T, serve func(c *rtmp.ServerConn) error) (p *peer, done func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	here, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		r := millrace.NewReader(there)
		c := rtmp.NewServerConn(r, there, 1<<24-1)
		err := serve(c)
		c.Release()
		r.Release()
		_ = there.Close()
		ended <- err
	}()
	_ = here.SetDeadline(time.Now().Add(time.Minute))
	p = &peer{t: t, conn: here, r: millrace.NewReader(here)}
	p.dec = rtmp.NewDecoder(p.r, 1<<20)
	return p, func() error {
		_ = here.Close()
		p.dec.Release()
		p.r.Release()
		return <-ended
	}
}

// send writes s. It fails the test if the server has closed the connection.
func (p *peer) send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, s); err != nil {
		p.t.Fatal(err)
	}
}

// hear returns the server's next message.
func (p *peer) hear() string {
	p.t.Helper()
	var c millrace.Chain
	defer c.Release()
	m, err := p.dec.Next(&c)
	if err != nil {
		p.t.Fatal(err)
	}
	return describe(slowMessage{m, string(c.Bytes())})
}

// until skips the server's messages up to a line.
func (p *peer) until(line string) {
	p.t.Helper()
	for p.hear() != line {
	}
}

// shake performs the handshake step by step.
func (p *peer) shake() {
	p.t.Helper()
	p.send("\x03" + strings.Repeat("\x00", 8) + strings.Repeat("c", handshakeSize-8))
	s := make([]byte, 1+2*handshakeSize)
	if _, err := io.ReadFull(p.r, s); err != nil {
		p.t.Fatal(err)
	}
	p.send(string(s[1 : 1+handshakeSize]))
}

// A client that waits for each answer gets it.
func TestClientThatWaits(t *testing.T) {
	p, done := dial(t, func(c *rtmp.ServerConn) error {
		if _, err := c.Accept(); err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return err
		}
		var body millrace.Chain
		defer body.Release()
		_, err := c.Next(&body)
		return err
	})
	p.shake()
	p.send(command("connect", 1, app("live")))
	p.until(connected[2])
	p.send(command("_checkbw", 2, nil))
	p.until("0: _result 2 null null")
	p.send(command("createStream", 3, nil))
	p.until("0: _result 3 null 1")
	p.send(userControl(6, "\x01\x02\x03\x04"))
	p.until("event 7 of 16909060")
	p.send(commandOn(1, "publish", 4, nil, "camera"))
	p.until(publishing[1])
	p.send(userControl(6, "\x00\x00\x00\x05"))
	p.until("event 7 of 5")
	p.send(command("deleteStream", 5, nil, 1))
	p.until(unpublished)
	if err := done(); err != io.EOF {
		t.Error(err)
	}
}

// A client that sends at most one window without an acknowledgement can send a larger message.
func TestAcknowledgesInsideAMessage(t *testing.T) {
	const window, size = 64 << 10, 1 << 20
	p, done := dial(t, func(c *rtmp.ServerConn) error {
		if _, err := c.Accept(); err != nil {
			return err
		}
		if err := c.Start(); err != nil {
			return err
		}
		var body millrace.Chain
		defer body.Release()
		if m, err := c.Next(&body); err != nil || m.Size != size {
			t.Error(m, err)
		}
		_, err := c.Next(&body)
		return err
	})
	p.shake()
	setup := control(5, window) + publishTo(app("live"), "camera")
	p.send(setup)
	p.until(publishing[1])
	p.send(control(1, 1<<24-1))
	message := rawMessage(9, 0, strings.Repeat("x", size))
	sent, told := len(setup)+16, 0
	for len(message) > 0 {
		n := min(window-(sent-told), len(message))
		p.send(message[:n])
		message = message[n:]
		sent += n
		for sent-told >= window/2 { // wait for all acknowledgements that are due
			told = acknowledged(t, p.hear())
		}
	}
	p.send(command("deleteStream", 5, nil, 1))
	p.until(unpublished)
	if err := done(); err != io.EOF {
		t.Error(err)
	}
}

func acknowledged(t *testing.T, line string) (n int) {
	t.Helper()
	if v, ok := strings.CutPrefix(line, "acknowledgement "); ok {
		for _, c := range v {
			n = 10*n + int(c-'0')
		}
		return n
	}
	t.Fatalf("the server says %q, want an acknowledgement", line)
	return 0
}

// The client's window determines how often bytes are acknowledged.
func TestAcknowledgements(t *testing.T) {
	for name, tt := range map[string]struct {
		set         string
		least, most int
	}{
		"no window said":    {"", 4, 4}, // 5 MB in total, acknowledged every 1.25 MB
		"10 MB":             {control(5, 10_000_000), 1, 1},
		"100,000":           {control(5, 100_000), 50, 110},
		"1 byte":            {control(5, 1), 100, 10_000},
		"0":                 {control(5, 0), 100, 10_000},
		"4 GiB":             {control(5, 1<<32-1), 0, 0},
		"half a number":     {rawMessage(5, 0, "\x00\x01"), 4, 4},
		"a number and more": {rawMessage(5, 0, "\x00\x98\x96\x80 more"), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := publishTo(app("live"), "camera") + tt.set + control(1, 1<<20)
			for range 100 {
				in += rawMessage(9, 0, strings.Repeat("x", 51_000))
			}
			v := talk(t, in, grant)
			n := 0
			for _, line := range v.said {
				if strings.HasPrefix(line, "acknowledgement ") {
					n++
				}
			}
			if len(v.got) != 100 {
				t.Errorf("%d messages, want 100", len(v.got))
			}
			if n < tt.least || n > tt.most {
				t.Errorf("%d acknowledgements, want %d to %d", n, tt.least, tt.most)
			}
		})
	}

	// A client with a window of one byte gets one acknowledgement for 512 bytes.
	v := talk(t, publishTo(app("live"), "camera")+control(5,
		1)+strings.Repeat(rawMessage(9, 0, "x"), 1000), grant)
	if n := strings.Count(strings.Join(v.said, " "), "acknowledgement"); n < 20 || n > 30 {
		t.Errorf("%d acknowledgements of 13,000 bytes", n)
	}
}
