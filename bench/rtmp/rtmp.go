// Package rtmp is an RTMP client with only the features that a load test of an RTMP server needs.
// It publishes the tags of package load, and plays a stream to count its tags.
//
// The client is written by hand, because a load generator must use less CPU time than the server
// that it measures. The command "bench relay -contenders millrace-rtmp@50ms -case 1x200" reports
// the generator's CPU time (medians of seven rounds of 12 s):
//
//	2.36 s/GB  viewers use gortmplib v1.0.1
//	1.55 s/GB  viewers use only the chunk parser of gortmplib
//	0.99 s/GB  viewers use this client
//
// Package relay checks a server's output with gortmplib.
package rtmp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/load"
)

const (
	typeSetChunkSize  = 1
	typeAck           = 3
	typeUserControl   = 4
	typeWindowAckSize = 5
	typePeerBandwidth = 6
	typeCommand       = 20
)

const (
	eventSetBufferLength = 3
	eventPingRequest     = 6
	eventPingResponse    = 7
)

// ChunkSize is the size in bytes of the chunks that this client sends.
const ChunkSize = 4096

// defaultWindow is the number of bytes that the client may receive before it must send an
// acknowledgement, unless the server sets another number.
const defaultWindow = 2_500_000

// A Server implements load.Protocol for an RTMP server. Viewers get the complete payload of each
// tag in Arrival.Head.
type Server struct {
	Addr string // host:port
}

var _ load.Protocol = (*Server)(nil)

func (s *Server) String() string { return "rtmp://" + s.Addr + "/" + app }

const app = "live"

// A conn is a connection after the handshake. Only one goroutine may read; several may write.
type conn struct {
	net  net.Conn
	stop func() bool // prevents the end of ctx from closing the connection
	in   *reader
	out  *writer
}

func (s *Server) connect(ctx context.Context) (*conn, error) {
	nc, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", s.Addr)
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
		{"app", app},
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
	if len(reply) < 8 {
		return errProtocol
	}
	// The last value is the number of the message stream.
	c.out.stream = uint32(math.Float64frombits(binary.BigEndian.Uint64(reply[len(reply)-8:])))
	return nil
}

// call sends a command and returns the AMF0 values of the server's result.
func (c *conn) call(name string, transaction float64, args ...any) ([]byte, error) {
	if err := c.out.command(0, append([]any{name, transaction}, args...)...); err != nil {
		return nil, err
	}
	result, refusal := appendAMF(nil, "_result", transaction), appendAMF(nil, "_error", transaction)
	for {
		reply, err := c.in.nextCommand()
		switch {
		case err != nil:
			return nil, fmt.Errorf("rtmp: %s: %w", name, err)
		case bytes.HasPrefix(reply, result):
			return reply, nil
		case bytes.HasPrefix(reply, refusal):
			return nil, &load.RefusedError{Status: fmt.Sprintf("%s: %q", name, reply)}
		}
	}
}

// awaitStatus waits for an onStatus command with the given code, and then removes the deadline of
// the connection.
func (c *conn) awaitStatus(code string) error {
	status, level := appendAMF(nil, "onStatus"), appendAMF(appendName(nil, "level"), "error")
	for {
		reply, err := c.in.nextCommand()
		switch {
		case err != nil:
			return fmt.Errorf("rtmp: waiting for %s: %w", code, err)
		case !bytes.HasPrefix(reply, status):
		case bytes.Contains(reply, appendAMF(nil, code)):
			return c.net.SetDeadline(time.Time{})
		case bytes.Contains(reply, level):
			return &load.RefusedError{Status: fmt.Sprintf("%q", reply)}
		}
	}
}

// close must be called by the goroutine that reads from c.
func (c *conn) close() error {
	c.stop()
	err := c.net.Close()
	c.in.r.Release()
	return err
}

// handshake sends version 0 in C1, which requests a handshake without digests.
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
	if _, err := w.Write(s[1 : 1+size]); err != nil { // C2 is a copy of S1
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

// A publication is a stream that is sent to the server. Another goroutine reads the server's
// messages and answers pings.
type publication struct {
	c    *conn
	done chan struct{} // closed when the reading goroutine has ended
	err  error         // why the reading goroutine ended; set before done is closed
}

// Publish implements load.Protocol.
func (s *Server) Publish(ctx context.Context, name string) (load.Publication, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	err = c.out.command(c.out.stream, "publish", 3.0, nil, name, "live")
	if err == nil {
		err = c.awaitStatus("NetStream.Publish.Start")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	p := &publication{c: c, done: make(chan struct{})}
	go p.listen()
	return p, nil
}

func (p *publication) listen() {
	defer close(p.done)
	defer p.c.close()
	for p.err == nil {
		_, p.err = p.c.in.next()
	}
}

// setDataFrame is the AMF0 string that makes the server store the metadata that follows it.
var setDataFrame = appendAMF(nil, "@setDataFrame")

func (p *publication) WriteTag(t load.Tag) error {
	w := p.c.out
	switch t.Kind {
	case load.Audio:
		return w.message(csAudio, t.Kind, w.stream, t.Timestamp, t.Payload)
	case load.Video:
		return w.message(csVideo, t.Kind, w.stream, t.Timestamp, t.Payload)
	default:
		return w.message(csData, t.Kind, w.stream, t.Timestamp, setDataFrame, t.Payload)
	}
}

func (p *publication) Close() error {
	p.c.net.SetDeadline(time.Now().Add(time.Second))
	err := p.c.out.command(0, "deleteStream", 4.0, nil, float64(p.c.out.stream))
	p.c.net.Close()
	<-p.done
	return err
}

type subscription struct{ c *conn }

// bufferLength is the length of the player's buffer that the client announces, in milliseconds.
const bufferLength = 1000

// liveOnly is the start parameter of a play command that does not accept recordings.
const liveOnly = -1000.0

// Watch implements load.Protocol.
func (s *Server) Watch(ctx context.Context, name string) (load.Subscription, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	err = c.out.event(eventSetBufferLength, c.out.stream, bufferLength)
	if err == nil {
		err = c.out.command(c.out.stream, "play", 3.0, nil, name, liveOnly)
	}
	if err == nil {
		err = c.awaitStatus("NetStream.Play.Start")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return &subscription{c: c}, nil
}

func (s *subscription) Next(a *load.Arrival) error { return s.c.in.nextMedia(a) }

func (s *subscription) Close() error { return s.c.close() }
