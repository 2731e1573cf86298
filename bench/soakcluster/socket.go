package soakcluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync/atomic"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// socket watches the stream at a node over WebSocket.
func (v *viewer) socket(ctx context.Context, n *node) error {
	return v.patient(ctx, n.number, func(ctx context.Context, arrivals *atomic.Int64) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", n.addr)
		if err != nil {
			return err
		}
		if n.isTLS() {
			conn = tls.Client(conn, &tls.Config{RootCAs: n.roots, ServerName: "127.0.0.1"})
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_, err = fmt.Fprintf(conn, "GET /live/%s.flv HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\n"+
			"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", v.name, n.addr)
		var res *http.Response
		in := bufio.NewReaderSize(conn, 64<<10)
		if err == nil {
			res, err = http.ReadResponse(in, nil)
		}
		if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
			err = &load.RefusedError{Status: res.Status}
		}
		if err != nil {
			_ = conn.Close()
			return err
		}
		return v.follow(ctx, httpflv.Over(&messages{in: in, conn: conn}), n.number, arrivals)
	})
}

// messages reads the payloads of a server's binary WebSocket messages. A close frame with the code
// 1000 is io.EOF.
type messages struct {
	in   *bufio.Reader
	conn net.Conn
	rest uint64 // bytes of the current message that were not read
}

func (m *messages) Read(p []byte) (int, error) {
	for m.rest == 0 {
		if err := m.next(); err != nil {
			return 0, err
		}
	}
	n, err := m.in.Read(p[:min(uint64(len(p)), m.rest)])
	m.rest -= uint64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (m *messages) next() error {
	var h [10]byte
	if _, err := io.ReadFull(m.in, h[:2]); err != nil {
		return io.ErrUnexpectedEOF // without a close frame
	}
	size, more := uint64(h[1]), 0
	switch h[1] {
	case 126:
		more = 2
	case 127:
		more = 8
	}
	if _, err := io.ReadFull(m.in, h[2:2+more]); err != nil {
		return io.ErrUnexpectedEOF
	}
	switch more {
	case 2:
		size = uint64(binary.BigEndian.Uint16(h[2:]))
	case 8:
		size = binary.BigEndian.Uint64(h[2:])
	}
	const last = 0x80
	switch {
	case h[0] == last|2 && h[1] < 128:
		m.rest = size
		return nil
	case h[0] == last|8 && size == 2:
		var code [2]byte
		if _, err := io.ReadFull(m.in, code[:]); err != nil || binary.BigEndian.Uint16(code[:]) != 1000 {
			return io.ErrUnexpectedEOF
		}
		return io.EOF
	}
	return fmt.Errorf("%w: a WebSocket frame begins with %x", httpflv.ErrFormat, h[:2])
}

func (m *messages) Close() error { return m.conn.Close() }

// pushedStreams matches the names of the streams that the nodes send to site.ingest.
const pushedStreams = "soak-?"

// isPushed reports whether the nodes send the stream on.
func (s *stream) isPushed() bool { return len(s.name) == len(pushedStreams) }

// pushed watches the stream at the server to which the nodes send it.
func (v *viewer) pushed(ctx context.Context, _ *node) error {
	return v.flv(ctx, false, "http://"+v.site.ingest.Addr, -1)
}

const ofPushed = "FLV of a stream that is sent on"

// newPushedViewer returns a viewer of a stream that the nodes send on.
func newPushedViewer(s *stream) *viewer {
	return &viewer{stream: s, kind: ofPushed, way: (*viewer).pushed, rand: s.random(1 << 15)}
}

// startIngest starts the server to which the nodes send streams.
func (s *site) startIngest(ctx context.Context) (err error) {
	addr, err := measure.FreeAddr()
	if err == nil {
		s.ingestRTMP, err = measure.FreeAddr()
	}
	if err != nil {
		return err
	}
	s.ingest, err = measure.StartServer(ctx, addr, exec.Command(s.cfg.Program, "serve", "--listen",
		addr, "--rtmp", s.ingestRTMP, "--log-level", "warn"))
	return err
}

// pushFlags are the flags of a node that send streams on.
func (s *site) pushFlags() []string {
	return []string{"--push", "live/" + pushedStreams + "=rtmp://" + s.ingestRTMP + "/live/{name}"}
}
