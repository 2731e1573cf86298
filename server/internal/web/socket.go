package web

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/websocket"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
)

// wantsSocket reports whether a request asks for a WebSocket.
func wantsSocket(r *http.Request) bool {
	return r.ProtoMajor == 1 && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// serveSocket serves v over WebSocket: each batch of frames is a binary message. It takes over the
// connection, and returns at once. Pages of other sites may watch if Origins.Allow has set the CORS
// header of the response.
func (d Handler) serveSocket(viewers live.Admission, v *live.Viewer, w http.ResponseWriter,
	r *http.Request, terms *live.Terms) {
	var opts websocket.Options
	if w.Header()["Access-Control-Allow-Origin"] != nil {
		opts.CheckOrigin = func(*http.Request) bool { return true }
	}
	opts.MaxMessage = maxInput
	over := &socketConn{}
	socket, err := websocket.Accept(hijacker{w, over}, r, &opts)
	if err != nil { // Accept has answered
		v.Decline()
		terms.End(err.Error(), 0)
		return
	}
	_ = over.Conn.SetWriteDeadline(time.Time{}) // Accept has set one
	over.since = time.Now()
	to := v.Connect(fanout.NewConn(over.Conn, true, d.cfg.Unsent))
	to.SetWebSocket()
	to.Append(v.Head())
	over.to.Store(to)
	viewers.Start(v, func() { drainSocket(to, socket) })
}

// drainSocket reads and ignores the messages of a viewer until it disconnects. Pings are answered.
func drainSocket(to *fanout.Viewer, socket *websocket.Conn) {
	for {
		var message millrace.Chain
		_, err := socket.Next(&message)
		message.Release()
		if err != nil { // Next has released the socket's memory
			return
		}
	}
}

// A hijacker is a ResponseWriter that wraps the connection that Hijack returns.
type hijacker struct {
	http.ResponseWriter
	over *socketConn
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.over.Conn = conn
	return h.over, rw, nil
}

// A socketConn is the connection of a WebSocket on which a viewer is served. The WebSocket's
// control frames become replies of the viewer, so that they are not sent within a message.
type socketConn struct {
	net.Conn
	to    atomic.Pointer[fanout.Viewer] // nil until the viewer is served
	since time.Time                     // when that began
	read  int64                         // bytes that the viewer has sent since
}

var (
	errPings = errors.New("a viewer sends pings and reads nothing")
	errInput = errors.New("a viewer sends too much")
)

// inputRate is how many bytes a viewer may send each second on average, in addition to maxInput:
// some pings.
const inputRate = 1 << 10

func (c *socketConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if to := c.to.Load(); to != nil {
		c.read += int64(n)
		if c.read > maxInput+inputRate*int64(time.Since(c.since).Seconds()) {
			to.End(fanout.Failed)
			return n, errInput
		}
	}
	return n, err
}

// SetReadDeadline sets a deadline until the viewer has ended. The deadline at which the connection
// is closed then must not change.
func (c *socketConn) SetReadDeadline(t time.Time) error {
	if to := c.to.Load(); to != nil && to.Reason() != fanout.Connected {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *socketConn) Write(p []byte) (int, error) {
	switch to := c.to.Load(); {
	case to == nil:
		return c.Conn.Write(p)
	case !to.Reply(p):
		return 0, errPings
	case len(p) > 0 && p[0] == closeFrame:
		to.SetPaused(true) // nothing may follow
	}
	return len(p), nil
}

// closeFrame is the first byte of a close frame.
const closeFrame = 0x88

// CloseWrite does nothing. The WebSocket calls it after a close frame, and then waits for a while
// for the client to close the connection. In this time, the frame is sent.
func (c *socketConn) CloseWrite() error { return nil }

// SetWriteDeadline sets a deadline only until the viewer is served.
func (c *socketConn) SetWriteDeadline(t time.Time) error {
	if c.to.Load() != nil {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}
