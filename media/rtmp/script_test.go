package rtmp_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
)

const handshakeSize = 1536

// plainHandshake is the handshake of a client without digests: C0, C1 and C2.
var plainHandshake = "\x03" + strings.Repeat("\x00", 8) + strings.Repeat("c",
	handshakeSize-8) + strings.Repeat("2", handshakeSize)

// command builds a command on the connection, and commandOn one on a message stream, in chunks of
// 128 bytes.
func command(name string, transaction int, args ...any) string {
	return commandOn(0, name, transaction, args...)
}

func commandOn(stream uint32, name string, transaction int, args ...any) string {
	return rawChunks(3, 20, 0, stream, amf(append(values{name, transaction}, args...)...), 128,
		false)
}

func amf(list ...any) string { return string(rtmp.AppendAMF(nil, list...)) }

// userControl builds a user control message.
func userControl(event uint16, p string) string {
	return string(rawHeader(0, 2, 0, 2+len(p), 4, 0)) + string(binary.BigEndian.AppendUint16(nil,
		event)) + p
}

// A conversation is the exchange between a client and a ServerConn.
type conversation struct {
	request  *rtmp.Request
	accepted error         // result of Accept
	got      []slowMessage // results of Next
	end      error         // error of Next
	said     []string      // the messages to the client, one line each
	s1, s2   string
}

// grant starts the session, as most servers do.
func grant(c *rtmp.ServerConn) error { return c.Start() }

// talk sends a client's session to a ServerConn, after a plain handshake.
func talk(t *testing.T, in string, decide func(*rtmp.ServerConn) error) *conversation {
	t.Helper()
	return talkRaw(t, plainHandshake+in, decide)
}

func talkRaw(t *testing.T, in string, decide func(*rtmp.ServerConn) error) *conversation {
	t.Helper()
	r := millrace.NewReader(strings.NewReader(in))
	defer r.Release()
	var out bytes.Buffer
	c := rtmp.NewServerConn(r, &out, 1<<20)
	defer c.Release()
	v := &conversation{}
	if v.request, v.accepted = c.Accept(); v.accepted == nil {
		if err := decide(c); err != nil {
			t.Fatal(err)
		}
		for v.end == nil {
			var body millrace.Chain
			var m rtmp.Message
			if m, v.end = c.Next(&body); v.end == nil {
				v.got = append(v.got, slowMessage{m, string(body.Bytes())})
			}
			body.Release()
		}
	}
	b := out.Bytes()
	if len(b) < 1+2*handshakeSize {
		return v
	}
	v.s1, v.s2 = string(b[1:1+handshakeSize]), string(b[1+handshakeSize:1+2*handshakeSize])
	v.said = said(t, b[1+2*handshakeSize:])
	return v
}

// said describes messages of a server.
func said(t *testing.T, b []byte) (lines []string) {
	t.Helper()
	list, err := slowDecode(b, 1<<24)
	if err != io.EOF {
		t.Fatalf("the server sends what the reference cannot read: %v", err)
	}
	for _, m := range list {
		lines = append(lines, describe(m))
	}
	return lines
}

func describe(m slowMessage) string {
	number := func() uint32 { return binary.BigEndian.Uint32([]byte(m.body)) }
	switch m.Type {
	case rtmp.TypeAcknowledgement, rtmp.TypeWindowSize, rtmp.TypeSetPeerBandwidth:
		return fmt.Sprint(m.Type, " ", number())
	case rtmp.TypeUserControl:
		return fmt.Sprintf("event %d of %d", m.body[1], binary.BigEndian.Uint32([]byte(m.body[2:])))
	case rtmp.TypeCommand, rtmp.TypeData:
		list, err := rtmp.ParseAMF([]byte(m.body))
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%d:", m.Stream)
		for _, v := range list {
			b.WriteString(" " + text(v))
		}
		return b.String()
	}
	return fmt.Sprintf("%v of %d bytes", m.Type, m.Size)
}

// text describes an AMF value.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if strings.ContainsAny(v, " ") || v == "" {
			return strconv.Quote(v)
		}
		return v
	case rtmp.Object:
		var list []string
		for _, p := range v {
			list = append(list, p.Name+"="+text(p.Value))
		}
		return "{" + strings.Join(list, " ") + "}"
	case values:
		var list []string
		for _, e := range v {
			list = append(list, text(e))
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	return fmt.Sprint(v)
}

// sameLines compares the messages to a client.
func sameLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("the client is told\n%s\nwant\n%s", g, w)
	}
}

// The messages of a server in answer to connect, publish and play, for live/camera.
var (
	connected = []string{
		"window size 2500000", "set peer bandwidth 2500000",
		"0: _result 1 {fmsVer=FMS/3,5,7,7009 capabilities=31 mode=1} " +
			"{level=status code=NetConnection.Connect.Success description=connected objectEncoding=0}",
	}
	publishing = []string{"event 0 of 1",
		`1: onStatus 0 null {level=status code=NetStream.Publish.Start description="live/camera is being published"}`}
	playing = []string{"event 0 of 1",
		`1: onStatus 0 null {level=status code=NetStream.Play.Reset description="live/camera is being played from now on"}`,
		`1: onStatus 0 null {level=status code=NetStream.Play.Start description="live/camera is being played"}`,
		"1: |RtmpSampleAccess true true"}
	unpublished = `1: onStatus 0 null {level=status code=NetStream.Unpublish.Success description="live/camera is not published any more"}`
)

// lines joins lists of lines and lines.
func lines(parts ...any) (list []string) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			list = append(list, p)
		case []string:
			list = append(list, p...)
		}
	}
	return list
}
