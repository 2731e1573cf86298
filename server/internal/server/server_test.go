package server

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

func TestLoggedPageAddressWorks(t *testing.T) {
	for want, a := range map[string]net.Addr{
		"http://127.0.0.1:8080/": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080},
		"http://127.0.0.1:9191/": &net.TCPAddr{IP: net.IPv6unspecified, Port: 9191},
		"http://127.0.0.1:9192/": &net.TCPAddr{IP: net.IPv4zero, Port: 9192},
		"http://127.0.0.1:9193/": &net.TCPAddr{Port: 9193},
		"http://[::1]:80/":       &net.TCPAddr{IP: net.IPv6loopback, Port: 80},
	} {
		if got := new(Server).pageLink(a); got != want {
			t.Errorf("%v: %s, want %s", a, got, want)
		}
	}
}

// An http2RawFrame is an HTTP/2 frame as a client sends and reads it.
type http2RawFrame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

const (
	frameData, frameHeaders, frameSettings, framePing, frameGoAway, frameWindowUpdate = 0, 1, 4, 6,
		7, 8

	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

func (f http2RawFrame) bytes() []byte {
	p := []byte{byte(len(f.payload) >> 16), byte(len(f.payload) >> 8), byte(len(f.payload)), f.kind,
		f.flags}
	return append(binary.BigEndian.AppendUint32(p, f.stream), f.payload...)
}

func readHTTP2Frame(r io.Reader) (http2RawFrame, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return http2RawFrame{}, err
	}
	f := http2RawFrame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
	f.payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err := io.ReadFull(r, f.payload)
	return f, err
}

// dialHTTP2 opens a connection and sends an HTTP/2 client's preface.
func (f *fixture) dialHTTP2() net.Conn {
	f.T.Helper()
	conn := f.Dial("")
	_, _ = conn.Write(append([]byte(http2Preface), http2RawFrame{kind: frameSettings}.bytes()...))
	return conn
}

// pinged sends a ping and returns the frames before its answer. After that, the server has read
// everything that was sent before.
func pinged(t *testing.T, conn net.Conn) (frames []http2RawFrame) {
	t.Helper()
	_, _ = conn.Write(http2RawFrame{kind: framePing, payload: make([]byte, 8)}.bytes())
	for {
		frame, err := readHTTP2Frame(conn)
		if err != nil {
			t.Fatal(err)
		}
		if frame.kind == framePing {
			return frames
		}
		frames = append(frames, frame)
	}
}

// http2Head is the HPACK header block of a request for /live/x, without the method.
const http2Head = "\x86\x04\x07/live/x\x41\x09localhost"

// An HTTP/2 connection holds at most 300 KiB for a client: neither a frame nor the unread bodies
// may be longer.
func TestHTTP2MemoryIsBounded(t *testing.T) {
	f := serve(t, nil)
	conn := f.dialHTTP2()
	const maxStreams, initialWindow, maxFrame = 3, 4, 5
	// The initial values of HTTP/2.
	settings := map[uint16]uint32{initialWindow: 1<<16 - 1, maxFrame: 16 << 10}
	window := uint32(1<<16 - 1) // window of the connection
	for _, frame := range pinged(t, conn) {
		switch {
		case frame.kind == frameSettings:
			for p := frame.payload; len(p) >= 6; p = p[6:] {
				settings[binary.BigEndian.Uint16(p)] = binary.BigEndian.Uint32(p[2:])
			}
		case frame.kind == frameWindowUpdate && frame.stream == 0:
			window += binary.BigEndian.Uint32(frame.payload)
		}
	}
	if settings[maxFrame] > 16<<10 || settings[initialWindow] > 256<<10 || window > 256<<10 ||
		settings[maxStreams] == 0 || settings[maxStreams] > 128 {
		t.Errorf("the server announces %v, and a window of %d bytes", settings, window)
	}
	// POST, and then a frame that is too long, which ends the connection.
	_, _ = conn.Write(http2RawFrame{kind: frameHeaders, flags: 4, stream: 1,
		payload: []byte("\x83" + http2Head)}.bytes())
	_, _ = conn.Write(http2RawFrame{kind: frameData, stream: 1,
		payload: make([]byte, 16<<10+1)}.bytes())
	for {
		frame, err := readHTTP2Frame(conn)
		if err != nil {
			t.Fatalf("no GOAWAY: %v", err)
		}
		if frame.kind == frameGoAway {
			if code := binary.BigEndian.Uint32(frame.payload[4:]); code != 6 { // FRAME_SIZE_ERROR
				t.Errorf("GOAWAY with code %d %s", code,
					strings.ToValidUTF8(string(frame.payload[8:]), "?"))
			}
			break
		}
	}
}

// The body of a reader's request is dropped, because the reader may wait for long.
func TestBodiesOfHTTP2ReadersAreDropped(t *testing.T) {
	const conns, frames = 32, 15
	f := serve(t, nil)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	data := http2RawFrame{kind: frameData, stream: 1, payload: make([]byte, 16<<10)}.bytes()
	before := heap()
	for range conns {
		conn := f.dialHTTP2()
		pinged(t, conn)
		// GET
		_, _ = conn.Write(http2RawFrame{kind: frameHeaders, flags: 4, stream: 1,
			payload: []byte("\x82" + http2Head)}.bytes())
		for range frames {
			_, _ = conn.Write(data)
		}
		pinged(t, conn)
	}
	if grown := heap() - before; grown > conns*frames*int64(len(data))/2 {
		t.Errorf("the heap has grown by %d bytes for %d connections", grown, conns)
	}
}
