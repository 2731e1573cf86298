package rtmp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/media/rtmp"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]rtmp.Address{
		"rtmp://example.com/live/key": {Host: "example.com:1935", App: "live", Key: "key"},
		"rtmps://example.com/live/key": {Host: "example.com:443", TLS: true, App: "live",
			Key: "key"},
		"rtmp://[::1]:19/a/b/key?x=1/2&y=z": {Host: "[::1]:19", App: "a/b", Key: "key?x=1/2&y=z"},
		"rtmp://[::1]/live/a%20b":           {Host: "[::1]:1935", App: "live", Key: "a%20b"},
	} {
		if got, err := rtmp.ParseAddress(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		if got, _ := rtmp.ParseAddress(text); strings.Contains(got.String(), got.Key) {
			t.Errorf("%s: String has the key: %v", text, got)
		}
	}
	for _, text := range []string{"", "secret", "rtmp://host", "rtmp://host/secret",
		"rtmp://host/live/", "rtmp:///live/secret", "http://host/live/secret",
		"rtmp://u:secret@host/live/key", "rtmp://host:x/live/secret", "rtmp://host/%zz/secret",
		"rtmp://:1935/live/secret"} {
		if got, err := rtmp.ParseAddress(text); err == nil || strings.Contains(err.Error(),
			"secret") {
			t.Errorf("%q: %+v, %v, want an error without the key", text, got, err)
		}
	}
}

// dialClient connects, and publishes at to. The test must call stop.
func dialClient(t *testing.T, addr string, to rtmp.Address) (c *rtmp.ClientConn, conn net.Conn,
	stop func()) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r := millrace.NewReader(conn)
	c = rtmp.NewClientConn(r, conn, 1<<16)
	if err := c.Publish(to, "test"); err != nil {
		t.Error(err)
	}
	return c, conn, func() {
		_ = conn.Close()
		c.Release()
		r.Release()
	}
}

// publishAll publishes what s has recorded, and waits until the server has ended the stream.
func (s *recorder) publishAll(t *testing.T, addr string, to rtmp.Address) error {
	c, conn, stop := dialClient(t, addr, to)
	defer stop()
	var end, out, announce millrace.Chain
	defer out.Release()
	c.AppendEnd(&end)
	waited := make(chan error, 1)
	go func() { waited <- c.Wait() }()
	var enc rtmp.Encoder
	defer enc.Release()
	enc.SetChunkSize(&announce, 1<<16) // c has sent it already
	announce.Release()
	s.mu.Lock()
	for i, m := range s.messages {
		var body millrace.Chain
		s.bodies[i].CloneTo(&body)
		m.Stream = rtmp.Stream
		if err := enc.Append(&out, m, &body); err != nil {
			t.Error(err)
		}
	}
	s.mu.Unlock()
	out.Merge(&end)
	_, err := out.WriteTo(conn)
	if err == nil {
		err = conn.(*net.TCPConn).CloseWrite() // ffmpeg waits for it
	}
	if err != nil {
		t.Error(err)
	}
	return <-waited
}

// A client publishes at this package's server and at ffmpeg.
func TestClientPublishes(t *testing.T) {
	program := need.Program(t, "ffmpeg")
	source := filepath.Join(t.TempDir(), "source.flv")
	run(t, program, "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-f",
		"lavfi", "-i", "sine", "-t", "2", "-c:v", "flv", "-q:v", "1", "-c:a", "adpcm_swf", "-ar",
		"22050", "-f", "flv", source)
	want := packets(t, "-i", source)
	first := record(t)
	run(t, program, "-v", "error", "-i", source, "-c", "copy", "-f", "flv", first.url("/live/camera"))
	<-first.requests
	<-first.ended
	to := rtmp.Address{Host: "example.com:1935", App: "live", Key: "camera?token=secret"}

	t.Run("server", func(t *testing.T) {
		second := record(t)
		err := first.publishAll(t, second.ln.Addr().String(), to)
		var status *rtmp.StatusError
		if !errors.As(err, &status) || status.Code != "NetStream.Unpublish.Success" {
			t.Errorf("Wait: %v, want the end of the stream", err)
		}
		request := <-second.requests
		if !request.Publish || request.Path != "live/camera" ||
			request.Query.Get("token") != "secret" || !strings.Contains(request.Client, "test") {
			t.Errorf("the server has got %+v", request)
		}
		if err := <-second.ended; err != io.EOF {
			t.Errorf("the publisher ends with %v", err)
		}
		samePackets(t, packets(t, "-i", second.url("/live/camera")), want)
	})
	t.Run("ffmpeg", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0") // for a free port
		if err != nil {
			t.Fatal(err)
		}
		addr := ln.Addr().String()
		_ = ln.Close()
		var got []string
		var wg sync.WaitGroup
		wg.Go(func() { got = packets(t, "-listen", "1", "-i", "rtmp://"+addr+"/live/camera") })
		await(t, addr)
		to := to
		to.Key = "camera"
		_ = first.publishAll(t, addr, to)
		wg.Wait()
		samePackets(t, got, want)
	})
}

// await waits until a program listens. It does not connect, because ffmpeg accepts one client.
func await(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return
		}
		_ = ln.Close()
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("no program listens")
}

// answers are a server's bytes after the handshake.
func clientTalk(answers string) error {
	hello := "\x03" + strings.Repeat("s", 2*1536)
	r := millrace.NewReader(strings.NewReader(hello + answers))
	defer r.Release()
	c := rtmp.NewClientConn(r, io.Discard, 4096)
	defer c.Release()
	err := c.Publish(rtmp.Address{Host: "h:1", App: "live", Key: "secret"}, "test")
	if err == nil {
		err = c.Wait()
	}
	return err
}

func answer(level, code, description string) rtmp.Object {
	return rtmp.Object{{"level", level}, {"code", code}, {"description", description}}
}

// What servers answer.
func TestClientIsAnswered(t *testing.T) {
	connected := command("_result", 1, rtmp.Object{{"fmsVer", "FMS/3"}},
		answer("status", "NetConnection.Connect.Success", ""))
	created := connected + command("onBWDone", 0, nil) + command("_error", 2, nil,
		answer("error", "NetConnection.Call.Failed", "releaseStream")) +
		command("_result", 4, nil, 1)
	status := func(level, code, description string) string {
		return commandOn(1, "onStatus", 0, nil, answer(level, code, description))
	}
	start := status("status", "NetStream.Publish.Start", "")
	const failed = "rtmp: the server answers "
	for _, tt := range []struct{ name, answers, want string }{
		{"the connection ends", "", "unexpected EOF"},
		{"it ends after connect", connected, "unexpected EOF"},
		{"it ends after the start", created + start, "unexpected EOF"},
		{"connect is refused", command("_error", 1, nil,
			answer("error", "NetConnection.Connect.Rejected", "no app")),
			failed + "NetConnection.Connect.Rejected: no app"},
		{"no stream is created", connected + command("_error", 4, nil), failed + "NetStream.Failed"},
		{"another stream", connected + command("_result", 4, nil, 5),
			"rtmp: the server creates message stream 5, want 1"},
		{"a stream without number", connected + command("_result", 4, nil),
			"rtmp: the server creates message stream <nil>, want 1"},
		{"publish is refused", created + status("error", "NetStream.Publish.BadName", "taken"),
			failed + "NetStream.Publish.BadName: taken"},
		{"publish gets an _error", created + command("_error", 5, nil), failed + "NetStream.Failed"},
		{"the server ends", created + start + status("status", "NetStream.Unpublish.Success", ""),
			failed + "NetStream.Unpublish.Success"},
		{"the server moves", created + start + status("status",
			"NetConnection.Connect.ReconnectRequest", "upgrade"),
			failed + "NetConnection.Connect.ReconnectRequest: upgrade"},
		{"other messages", created + start + rawMessage(9, 0, "picture") + rawMessage(20, 0, "") +
			commandOn(1, "onStatus", 0, nil), "unexpected EOF"},
		{"a large message", created + start + string(rawHeader(0, 4, 0, 1<<20, 20, 1)),
			"rtmp: bytes of one message: 1048576, limit 16384"},
		{"an answer twice", created + start + start, "unexpected EOF"},
	} {
		if err := clientTalk(tt.answers); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// FuzzClientConn sends arbitrary bytes to a ClientConn after a handshake.
func FuzzClientConn(f *testing.F) {
	f.Add([]byte(command("_result", 1, nil) + command("_result", 4, nil, 1) +
		commandOn(1, "onStatus", 0, nil, answer("status", "NetStream.Publish.Start", ""))))
	f.Add([]byte(control(5, 1) + userControl(6, "\x00\x00\x00\x01")))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := millrace.DefaultPool().Stats().InUse
		if err := clientTalk(string(in)); err == nil {
			t.Error("Wait returns nil")
		}
		if n := millrace.DefaultPool().Stats().InUse - before; n != 0 {
			t.Errorf("%d bytes held after Release", n)
		}
	})
}
