// Package rtmp is as much of an RTMP client as a load on an RTMP server needs:
// it publishes the tags of package load, and plays a stream to count them.
package rtmp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/load"
)

// Message types.
const (
	typeSetChunkSize  = 1
	typeAbort         = 2
	typeAck           = 3
	typeUserControl   = 4
	typeWindowAckSize = 5
	typePeerBandwidth = 6
	typeCommand       = 20
)

// Events of a user control message.
const (
	eventSetBufferLength = 3
	eventPingRequest     = 6
	eventPingResponse    = 7
)

// ChunkSize is what this client sends, and asks nothing else of the server
// than to do as it likes.
const ChunkSize = 4096

// defaultWindow is how much may arrive before an acknowledgement while the
// server has not said.
const defaultWindow = 2_500_000

// Server is an RTMP server. It implements load.Protocol.
type Server struct {
	Addr string // host:port
	App  string // application, "live" when empty
	Dial load.DialFunc

	// WatchDial is for players, when not nil.
	WatchDial load.DialFunc
}

var _ load.Protocol = (*Server)(nil)

func (s *Server) String() string { return "rtmp://" + s.Addr + "/" + s.app() }

func (s *Server) app() string {
	if s.App == "" {
		return "live"
	}
	return s.App
}

// conn is a connection past the handshake. Reading belongs to one goroutine,
// writing is locked inside writer.
type conn struct {
	net  net.Conn
	stop func() bool // keeps ctx from closing the connection
	in   *reader
	out  *writer
}

// connect dials, shakes hands, and enters the application.
func (s *Server) connect(ctx context.Context, dial load.DialFunc) (*conn, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	nc, err := dial(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	c := &conn{net: nc, stop: context.AfterFunc(ctx, func() { nc.Close() })}
	c.out = newWriter(nc)
	c.in = newReader(millrace.NewReader(nc), c.out)
	if err := c.enter(s); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) enter(s *Server) error {
	c.net.SetDeadline(time.Now().Add(10 * time.Second))
	if err := handshake(c.net, c.in.r); err != nil {
		return fmt.Errorf("rtmp: handshake: %w", err)
	}
	if err := c.out.setChunkSize(ChunkSize); err != nil {
		return err
	}
	_, err := c.call("connect", 1, object{
		{"app", s.app()},
		{"type", "nonprivate"},
		{"flashVer", "FMLE/3.0 (compatible; millrace-bench)"},
		{"tcUrl", s.String()},
	})
	if err != nil {
		return err
	}
	reply, err := c.call("createStream", 2, nil)
	if err != nil {
		return err
	}
	if id, ok := last(reply).(float64); ok {
		c.out.stream = uint32(id)
	}
	return nil
}

// call sends a command and waits for its result.
func (c *conn) call(name string, transaction float64, args ...any) ([]any, error) {
	if err := c.out.command(0, append([]any{name, transaction}, args...)...); err != nil {
		return nil, err
	}
	for {
		values, err := c.in.nextCommand()
		if err != nil {
			return nil, fmt.Errorf("rtmp: %s: %w", name, err)
		}
		if len(values) < 2 || values[1] != transaction {
			continue
		}
		switch values[0] {
		case "_result":
			return values, nil
		case "_error":
			return nil, &load.RefusedError{Status: fmt.Sprint(name, ": ", last(values))}
		}
	}
}

// awaitStatus waits for an onStatus with the given code.
func (c *conn) awaitStatus(code string) error {
	for {
		values, err := c.in.nextCommand()
		if err != nil {
			return fmt.Errorf("rtmp: waiting for %s: %w", code, err)
		}
		if values[0] != "onStatus" {
			continue
		}
		info, _ := last(values).(object)
		switch {
		case info.get("code") == code:
			return c.net.SetDeadline(time.Time{})
		case info.get("level") == "error":
			return &load.RefusedError{Status: fmt.Sprint(info.get("code"))}
		}
	}
}

func last(values []any) any {
	if len(values) == 0 {
		return nil
	}
	return values[len(values)-1]
}

// close ends the connection. Only the goroutine that reads may call it.
func (c *conn) close() error {
	c.stop()
	err := c.net.Close()
	c.in.r.Release()
	return err
}

// handshake is the plain one: a zero version in C1 asks for no digests.
func handshake(w io.Writer, r io.Reader) error {
	const size = 1536
	c := make([]byte, 1+size)
	c[0] = 3
	rand.Read(c[9:])
	if _, err := w.Write(c); err != nil {
		return err
	}
	s := make([]byte, 1+2*size)
	if _, err := io.ReadFull(r, s[:1+size]); err != nil {
		return err
	}
	if s[0] != 3 {
		return fmt.Errorf("version %d, want 3", s[0])
	}
	if _, err := w.Write(s[1 : 1+size]); err != nil { // C2 is S1
		return err
	}
	if _, err := io.ReadFull(r, s[1+size:]); err != nil {
		return err
	}
	if string(s[1+size+8:]) != string(c[9:]) {
		return errors.New("S2 does not repeat C1")
	}
	return nil
}
