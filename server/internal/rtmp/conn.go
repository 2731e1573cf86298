// Package rtmp serves live streams over RTMP: publishers and viewers.
//
// A [Service] serves the connections of a listener, and asks the gate who may. An [Acceptor] makes
// a [Conn] of each, which publishes or watches.
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

// A Conn is a connection of a client that speaks RTMP: Acceptor.Accept, and then Publish or Watch,
// or Refuse. After Publish, Next may return another request.
type Conn struct {
	acceptor *Acceptor
	conn     net.Conn
	out      *writer
	r        *millrace.Reader
	proto    *rtmp.ServerConn
	ended    bool

	// Terms limit the request. The caller of Publish or Watch sets them before.
	Terms live.Terms
}

// A writer is the current destination of protocol replies.
type writer struct{ io.Writer }

// An Acceptor accepts clients of RTMP, for the streams of a Hub.
type Acceptor struct {
	hub     *live.Hub
	cfg     *live.Config
	clients *millrace.Pool // account of the blocks with input from clients that do not publish
}

// New returns an Acceptor for the streams of h.
func New(h *live.Hub) *Acceptor {
	return &Acceptor{hub: h, cfg: h.Config(), clients: millrace.DefaultPool().Account()}
}

// ClientBytes returns the bytes of the blocks with input from clients that do not publish.
func (d *Acceptor) ClientBytes() int64 { return d.clients.Stats().InUse }

// Accept performs the handshake with a client, and returns its request. It takes ownership of conn:
// Publish, Watch and Refuse end its life, and after an error it is closed. All must happen before
// the deadline.
func (d *Acceptor) Accept(conn net.Conn, deadline time.Time) (*Conn, *rtmp.Request, error) {
	c := &Conn{acceptor: d, conn: conn, out: &writer{conn}, r: millrace.NewReader(plain(conn))}
	c.proto = rtmp.NewServerConn(c.r, c.out, d.cfg.MaxTag())
	c.countInput()
	want, err := c.awaitRequest(deadline, c.proto.Accept)
	if err != nil {
		return nil, nil, err
	}
	return c, want, nil
}

// countInput accounts for the input of a client that does not publish.
func (c *Conn) countInput() {
	c.proto.SetPool(c.acceptor.clients)
	conn := c.conn
	c.proto.SetMessageTimeout(c.acceptor.cfg.StallTimeout, func() { _ = conn.Close() })
}

// Next returns the client's next request after it has ended its published stream, or nil: then the
// connection has ended.
func (c *Conn) Next(deadline time.Time) *rtmp.Request {
	if c.ended {
		return nil
	}
	want, _ := c.awaitRequest(deadline, c.proto.NextRequest)
	return want
}

// awaitRequest returns the result of next, which must come before the deadline. After an error the
// connection has ended.
func (c *Conn) awaitRequest(deadline time.Time, next func() (*rtmp.Request, error)) (*rtmp.Request,
	error) {
	_ = c.conn.SetDeadline(deadline)
	cut := make(chan struct{})
	stop := context.AfterFunc(c.acceptor.hub.Closing(), func() {
		defer close(cut)
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	})
	want, err := next()
	if !stop() {
		<-cut // so that it does not cut the answer
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

// Conn returns the TCP connection between two requests. The caller may only close it.
func (c *Conn) Conn() net.Conn {
	if tcp := tcpconn.Of(c.conn); tcp != nil {
		return tcp
	}
	return c.conn
}

// RemoteAddr returns the address of the client.
func (c *Conn) RemoteAddr() string { return c.conn.RemoteAddr().String() }

// log returns the log of the server.
func (c *Conn) log() *slog.Logger { return c.acceptor.cfg.Log }

// plain returns the TCP connection that conn is, or conn. A Reader of a TCP connection holds no
// memory while it waits.
func plain(conn net.Conn) io.ReadWriter {
	if tcp := tcpconn.Plain(conn); tcp != nil {
		return tcp
	}
	return conn
}

// close ends the connection.
func (c *Conn) close() {
	_ = c.conn.Close()
	c.release()
}

// release releases the memory that the protocol holds, at the end of the connection.
func (c *Conn) release() {
	c.ended = true
	c.proto.Release()
	c.r.Release()
}

// Refuse tells the client the reason of a refusal, and ends the connection.
func (c *Conn) Refuse(want *rtmp.Request, why error) {
	_ = c.conn.SetDeadline(time.Now().Add(tcpconn.LingerTime))
	if c.proto.Refuse(errorCode(want, live.PublishStatus(why)), live.Explain(why)) == nil {
		tcpconn.Linger(c.conn)
	}
	c.close()
}

// errorCode is RTMP's name of a refusal. Encoders show it to their users, some of them only if they
// know it.
func errorCode(want *rtmp.Request, status int) string {
	switch {
	case want.Publish && status == http.StatusConflict:
		return "NetStream.Publish.BadName"
	case want.Publish:
		return "NetStream.Publish.Denied"
	case status == http.StatusNotFound:
		return "NetStream.Play.StreamNotFound"
	}
	return "NetStream.Play.Failed"
}

// Publish relays the client's stream as name until it ends. It ends the connection, unless the
// client has ended its stream itself; then Next may follow. An error is a [refuse.Refusal] that the
// caller answers with Refuse.
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

// endPublish tells the client why its stream has ended, if it does not know, and ends the
// connection.
func (c *Conn) endPublish(why error) {
	switch {
	case why == nil:
		// It may publish again, and GStreamer takes an end before its own deleteStream for a
		// failure.
		c.read(plain(c.conn))
		c.countInput()
		return
	case errors.Is(why, io.ErrUnexpectedEOF):
		c.close()
		return
	}
	c.Refuse(&rtmp.Request{Publish: true}, why)
}

// receive publishes messages until the client ends the stream, and returns nil then.
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

// listenTo reads the connection as a publisher's, until takeBack.
func (c *Conn) listenTo(p *live.Publisher) ingest.Conn {
	in := p.Ingest(c.conn)
	c.out.Writer = in
	c.proto.SetPool(p.Memory())
	limit := c.acceptor.cfg.PublishTimeout
	c.proto.SetMessageTimeout(limit, func() { p.End(live.ErrSlowMessage(limit)) })
	c.read(in)
	return in
}

// takeBack ends listenTo. It reports whether there still is a connection.
func (c *Conn) takeBack(in ingest.Conn) bool {
	conn, err := in.Release()
	if err != nil {
		return false
	}
	c.conn, c.out.Writer = conn, conn
	return true
}

// read sets the source of the bytes after those already read from the connection.
func (c *Conn) read(rest io.Reader) {
	early, _ := c.r.Peek(c.r.Buffered())
	if len(early) > 0 {
		rest = io.MultiReader(bytes.NewReader(bytes.Clone(early)), rest)
	}
	c.r.Reset(rest)
}
