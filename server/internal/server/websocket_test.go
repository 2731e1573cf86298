package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A socketClient is a viewer over WebSocket.
type socketClient struct {
	net.Conn
	r   *bufio.Reader
	res *http.Response
}

// openSocket requests path as a WebSocket, with more header lines, and reads the response header.
func (f *fixture) openSocket(path, header string) *socketClient {
	f.T.Helper()
	conn := nettest.Dial(f.T, f.Addr, 0)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n", path,
		f.Addr, header)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		f.T.Fatal(err)
	}
	return &socketClient{conn, r, res}
}

// readFrame reads a frame of the server.
func readFrame(t testing.TB, r io.Reader) (opcode byte, payload []byte) {
	t.Helper()
	var h [10]byte
	read := func(p []byte) {
		if _, err := io.ReadFull(r, p); err != nil {
			t.Fatal(err)
		}
	}
	read(h[:2])
	n := uint64(h[1])
	switch {
	case h[0]&0x80 == 0 || h[1]&0x80 != 0:
		t.Fatalf("frame % x: want one that is unmasked, and the last of its message", h[:2])
	case n == 126:
		read(h[2:4])
		n = uint64(binary.BigEndian.Uint16(h[2:]))
	case n == 127:
		read(h[2:10])
		n = binary.BigEndian.Uint64(h[2:])
	}
	payload = make([]byte, n)
	read(payload)
	return h[0] & 0xf, payload
}

// masked returns a client's frame. The mask is 0.
func masked(opcode byte, payload string) []byte {
	return append([]byte{0x80 | opcode, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// A stream over WebSocket has the bytes of the stream over HTTP. Pings are answered between
// messages, and the end of the stream closes the WebSocket with the code 1000.
func TestWatchOverWebSocket(t *testing.T) {
	f := serve(t, nil)
	film := sampleReel(8)
	for _, path := range []string{"/live/cam.flv", "/live/cam.mp4"} {
		p := f.Publisher("cam")
		p.Send(film.config().bytes(5))
		over, plain := f.openSocket(path, ""), f.Watcher(path, 0)
		if over.res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("status %s", over.res.Status)
		}
		rest := film.rest()
		p.Send(bytes.Join(rest[:100], nil))
		_, _ = over.Write(masked(9, "ping"))
		_, _ = over.Write(masked(2, "ignored"))
		var got []byte
		pongs := 0
		for opcode := byte(0); opcode != 8; {
			var payload []byte
			switch opcode, payload = readFrame(t, over.r); opcode {
			case 2:
				if got = append(got, payload...); pongs < 0 {
					t.Error("a message after the end")
				}
			case 10:
				if pongs++; string(payload) != "ping" {
					t.Errorf("pong %q", payload)
				}
				p.Send(bytes.Join(rest[100:], nil))
				p.End()
			case 8:
				if string(payload) != "\x03\xe8" {
					t.Errorf("close frame with % x, want code 1000", payload)
				}
			default:
				t.Errorf("frame of type %d", opcode)
			}
		}
		if want := plain.Rest(); pongs != 1 || !bytes.Equal(got, want) {
			t.Errorf("%s: %d pongs, %d bytes, want 1, and the %d bytes of the stream over HTTP", path, pongs,
				len(got), len(want))
		}
		_ = over.Close()
	}
}

// A WebSocket needs a stream, the token, and a page of this server or of a site in --cors.
func TestWebSocketIsRefused(t *testing.T) {
	f := serve(t, func(c *Config) {
		c.ReadToken, c.CORS, c.ViewerWait = "secret", "https://allowed.example", 0
	})
	p := f.PublisherBy(http.DefaultClient, "cam?token=secret")
	p.Send(sampleReel(2).bytes(5))
	f.published("cam", 1000)
	for _, tt := range []struct {
		path, header string
		status       int
	}{
		{"/live/cam.flv", "", http.StatusUnauthorized},
		{"/live/none.flv?token=secret", "", http.StatusNotFound},
		{"/live/cam.flv?token=secret", "Origin: https://other.example\r\n", http.StatusForbidden},
		{"/live/cam.flv?token=secret", "Origin: https://allowed.example\r\n", 101},
		{"/live/cam.flv?token=secret", "Origin: http://" + f.Addr + "\r\n", 101},
	} {
		w := f.openSocket(tt.path, tt.header)
		if w.res.StatusCode != tt.status {
			t.Errorf("%s %q: %s, want %d", tt.path, tt.header, w.res.Status, tt.status)
		}
		_ = w.Close()
	}
	eventually(t, "no viewers", func() bool { return f.hub.Viewers() == 0 })
	p.End()
}

// A client that sends pings and reads nothing is disconnected.
func TestWebSocketWithManyPings(t *testing.T) {
	f := serve(t, nil)
	p := f.Publisher("cam")
	p.Send(sampleReel(2).bytes(5))
	w := f.openSocket("/live/cam.flv", "")
	ping := masked(9, strings.Repeat("p", 100))
	for range 1 << 20 {
		if _, err := w.Write(ping); err != nil {
			break
		}
	}
	eventually(t, "no viewers", func() bool { return f.hub.Viewers() == 0 })
	p.End()
}

// A deadlineListener records the last write deadline of its last connection.
type deadlineListener struct {
	net.Listener
	last atomic.Pointer[time.Time]
}

func (l *deadlineListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return deadlineConn{conn, l}, err
}

type deadlineConn struct {
	net.Conn
	of *deadlineListener
}

func (c deadlineConn) SetWriteDeadline(t time.Time) error {
	c.of.last.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

// The deadline for the handshake does not end the viewer.
func TestWebSocketHasNoWriteDeadline(t *testing.T) {
	ln := &deadlineListener{Listener: listen(t)}
	book := &logBook{}
	cfg := Defaults()
	cfg.Log, cfg.PublisherReturn = slog.New(slog.NewTextHandler(book, nil)), 0
	f := serveOn(t, cfg, book, Listeners{Main: ln})
	p := f.Publisher("cam")
	p.Send(sampleReel(2).bytes(5))
	f.published("cam", 1000)
	w := f.openSocket("/live/cam.flv", "")
	defer w.Close()
	if opcode, _ := readFrame(t, w.r); opcode != 2 {
		t.Fatalf("frame of type %d", opcode)
	}
	if last := ln.last.Load(); last == nil || !last.IsZero() {
		t.Errorf("the write deadline is %v, want none", last)
	}
	p.End()
}

// If the handshake of a viewer is refused, the hook gets a play_end event.
func TestHookOfRefusedWebSocket(t *testing.T) {
	var ends atomic.Int64
	program := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); strings.Contains(string(text), "play_end") {
			ends.Add(1)
		}
	}))
	defer program.Close()
	f := serve(t, func(c *Config) { c.Hook, c.CORS = program.URL, "" })
	p := f.Publisher("cam")
	p.Send(sampleReel(2).bytes(5))
	f.published("cam", 1000)
	w := f.openSocket("/live/cam.flv", "Origin: https://other.example\r\n")
	if w.res.StatusCode != http.StatusForbidden {
		t.Errorf("%s, want 403", w.res.Status)
	}
	_ = w.Close()
	eventually(t, "the end of the viewer", func() bool { return ends.Load() == 1 })
	p.End()
}

// A client that closes the WebSocket gets a close frame, and nothing after it.
func TestWebSocketIsClosedByTheClient(t *testing.T) {
	f := serve(t, nil)
	film := sampleReel(8)
	p := f.Publisher("cam")
	p.Send(film.bytes(5))
	w := f.openSocket("/live/cam.flv", "")
	if opcode, _ := readFrame(t, w.r); opcode != 2 {
		t.Errorf("frame of type %d", opcode)
	}
	_, _ = w.Write(masked(8, "\x03\xe8"))
	for opcode := byte(2); opcode != 8; {
		var payload []byte
		if opcode, payload = readFrame(t, w.r); opcode == 8 && string(payload) != "\x03\xe8" {
			t.Errorf("close frame with % x, want code 1000", payload)
		}
	}
	p.Send(bytes.Join(film.rest().later(8000), nil))
	if rest, err := io.ReadAll(w.r); len(rest) > 0 {
		t.Errorf("%d bytes after the close frame, %v", len(rest), err)
	}
	_ = w.Close()
	eventually(t, "no viewers", func() bool { return f.hub.Viewers() == 0 })
	p.End()
}
