// Package rtmp serves publishers and viewers of live streams over RTMP.
//
// A [Service] serves the connections of a listener. It asks the gate whether a client may publish
// or watch. An [Acceptor] performs the handshake and returns a [Conn], which publishes or watches a
// stream.
package rtmp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/ingest"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A Conn is the connection of an RTMP client, which Acceptor.Accept returns. The caller then calls
// Publish, Watch or Refuse. If a publisher has ended its stream, the caller may then call Next for
// another request.
type Conn struct {
	acceptor *Acceptor
	conn     net.Conn
	out      *writer
	r        *millrace.Reader
	proto    *rtmp.ServerConn
	ended    bool

	// Terms are the limits for the request. The caller must set them before Publish or Watch.
	Terms live.Terms
}

// A writer sends RTMP messages. Its embedded Writer changes, for example when a stream begins.
type writer struct{ io.Writer }

// An Acceptor accepts RTMP clients for the streams of a Hub.
type Acceptor struct {
	hub     *live.Hub
	cfg     *live.Config
	clients *millrace.Pool // account for received data of clients that do not publish
}

// New returns an Acceptor for the streams of h.
func New(h *live.Hub) *Acceptor {
	return &Acceptor{hub: h, cfg: h.Config(), clients: millrace.DefaultPool().Account()}
}

// ClientBytes returns the size of the memory, in bytes, that holds data received from clients that
// do not publish.
func (d *Acceptor) ClientBytes() int64 { return d.clients.Stats().InUse }

// Accept performs the handshake with a client, and returns the client's request. If the request
// does not arrive before the deadline, Accept returns an error. Accept takes ownership of conn, and
// closes conn if it returns an error. Otherwise the caller must call Publish, Watch or Refuse.
func (d *Acceptor) Accept(conn net.Conn, deadline time.Time) (*Conn, *rtmp.Request, error) {
	c := &Conn{acceptor: d, conn: conn, out: &writer{conn}, r: millrace.NewReader(plainConn(conn))}
	c.proto = rtmp.NewServerConn(c.r, c.out, d.cfg.MaxTag())
	c.countInput()
	want, err := c.awaitRequest(deadline, c.proto.Accept)
	if err != nil {
		return nil, nil, err
	}
	return c, want, nil
}

// countInput makes the Acceptor count the memory for received data. It also sets a time limit: if
// the client takes longer than StallTimeout to send a message, the connection is closed. Publishers
// have other limits; see listenTo.
func (c *Conn) countInput() {
	c.proto.SetPool(c.acceptor.clients)
	conn := c.conn
	c.proto.SetMessageTimeout(c.acceptor.cfg.StallTimeout, func() { _ = conn.Close() })
}

// Next returns the next request of a publisher that has ended its stream. If the connection has
// ended, Next returns nil.
func (c *Conn) Next(deadline time.Time) *rtmp.Request {
	if c.ended {
		return nil
	}
	want, _ := c.awaitRequest(deadline, c.proto.NextRequest)
	return want
}

// awaitRequest calls receive, and interrupts receive at the deadline or when the server shuts down.
// If awaitRequest returns an error, it has closed the connection.
func (c *Conn) awaitRequest(deadline time.Time, receive func() (*rtmp.Request, error)) (
	*rtmp.Request, error) {
	_ = c.conn.SetDeadline(deadline)
	cut := make(chan struct{})
	stop := context.AfterFunc(c.acceptor.hub.Closing(), func() {
		defer close(cut)
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	})
	want, err := receive()
	if !stop() {
		<-cut // wait, so that the deadline does not affect the response
		if err == nil {
			err = refuse.ErrShutdown
		}
	}
	if err != nil {
		if want != nil {
			c.Refuse(want, err)
		} else {
			c.close()
		}
		return nil, err
	}
	_ = c.conn.SetDeadline(time.Time{})
	return want, nil
}

// Conn returns the client's TCP connection. Conn may be called between two requests. The caller may
// close the returned connection, but must not read from it or write to it.
func (c *Conn) Conn() net.Conn {
	if tcp := tcpconn.Of(c.conn); tcp != nil {
		return tcp
	}
	return c.conn
}

// RemoteAddr returns the address of the client.
func (c *Conn) RemoteAddr() string { return c.conn.RemoteAddr().String() }

func (c *Conn) log() *slog.Logger { return c.acceptor.cfg.Log }

// plainConn returns the TCP connection that conn wraps. A Reader that reads from the TCP connection
// uses no memory while it waits for data. If conn uses TLS, plainConn returns conn.
func plainConn(conn net.Conn) io.ReadWriter {
	if tcp := tcpconn.Plain(conn); tcp != nil {
		return tcp
	}
	return conn
}

func (c *Conn) close() {
	_ = c.conn.Close()
	c.release()
}

// release releases the memory for received data. It must be called when the connection has ended.
func (c *Conn) release() {
	c.ended = true
	c.proto.Release()
	c.r.Release()
}

// Refuse refuses the request req. It sends err to the client as the reason, and closes the
// connection.
func (c *Conn) Refuse(req *rtmp.Request, err error) {
	_ = c.conn.SetDeadline(time.Now().Add(tcpconn.LingerTime))
	if c.proto.Refuse(errorCode(req, live.PublishStatus(err)), live.Explain(err)) == nil {
		tcpconn.Linger(c.conn)
	}
	c.close()
}

// errorCode returns the RTMP code for a refusal with the given HTTP status. Encoders show it to
// their users, and some show only codes that they know.
func errorCode(req *rtmp.Request, status int) string {
	switch {
	case req.Publish && status == http.StatusConflict:
		return "NetStream.Publish.BadName"
	case req.Publish:
		return "NetStream.Publish.Denied"
	case status == http.StatusNotFound:
		return "NetStream.Play.StreamNotFound"
	}
	return "NetStream.Play.Failed"
}

// Publish relays the client's stream under the given name. It returns nil when the stream has
// ended. If the client has ended it, the connection stays open, and the caller may call Next.
// Otherwise Publish has closed the connection.
//
// If the stream cannot begin, Publish returns a [refuse.Refusal], which the caller must pass to
// Refuse.
func (c *Conn) Publish(name string) error {
	p, err := c.acceptor.hub.Open(name, c.conn.RemoteAddr().String(), c.Terms)
	if err != nil {
		return err
	}
	defer p.Answered()
	p.SetReconnects(c.proto.CanReconnect())
	connected := true
	err = p.Run(func() error {
		if err := c.proto.Start(); err != nil {
			return err
		}
		in := c.listenTo(p)
		defer func() { connected = c.takeBack(in) }()
		return c.receive(p)
	})
	if connected {
		c.endPublish(err)
	} else {
		c.release()
	}
	return nil
}

// endPublish sends err to the client and closes the connection. If err is nil, the client has ended
// the stream, and the connection stays open.
func (c *Conn) endPublish(err error) {
	switch {
	case err == nil:
		// Send no message. The client may publish again, and GStreamer would treat a message that
		// arrives before its own deleteStream as a failure.
		c.setInput(plainConn(c.conn))
		c.countInput()
		return
	case errors.Is(err, io.ErrUnexpectedEOF):
		c.close()
		return
	}
	c.Refuse(&rtmp.Request{Publish: true}, err)
}

// receive reads messages and publishes them. It returns nil when the client ends the stream.
func (c *Conn) receive(p *live.Publisher) error {
	var tags tagMaker
	defer tags.release()
	asked := false
	for received := uint64(0); ; {
		if !asked && p.MustReconnect() {
			asked = true
			if err := c.proto.RequestReconnect(refuse.ErrShutdown.Reason); err != nil {
				return err
			}
		}
		m, err := c.proto.Next(&tags.body)
		p.Skip(int(c.proto.Received() - received))
		received = c.proto.Received()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := tags.publish(p, m); err != nil {
			return err
		}
	}
}

// listenTo gives the connection to package ingest, which then reads the publisher's data. When the
// stream has ended, the caller must call takeBack.
func (c *Conn) listenTo(p *live.Publisher) ingest.Conn {
	in := p.Ingest(c.conn)
	c.out.Writer = in
	c.proto.SetPool(p.Memory())
	limit := c.acceptor.cfg.PublishTimeout
	c.proto.SetMessageTimeout(limit, func() { p.End(live.ErrSlowMessage(limit)) })
	c.setInput(in)
	return in
}

// takeBack takes the connection back from package ingest, so that c can use it again. If the
// connection has ended, takeBack returns false.
func (c *Conn) takeBack(in ingest.Conn) bool {
	conn, err := in.Release()
	if err != nil {
		return false
	}
	c.conn, c.out.Writer = conn, conn
	return true
}

// setInput makes c read its buffered bytes and then r.
func (c *Conn) setInput(r io.Reader) {
	early, _ := c.r.Peek(c.r.Buffered())
	if len(early) > 0 {
		r = io.MultiReader(bytes.NewReader(bytes.Clone(early)), r)
	}
	c.r.Reset(r)
}
