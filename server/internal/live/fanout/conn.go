package fanout

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// A path is a way to write frames to a viewer: with writev, with Write, or through an HTTP
// response.
type path uint8

const (
	pathWritev path = iota // a plain socket on Linux; one system call per batch
	pathWrite              // a connection over TLS, or on another system
	pathWriter             // an http.ResponseWriter: for HTTP/2, or a wrapper without Unwrap

	paths
)

func (p path) String() string { return [paths]string{"writev", "write", "responsewriter"}[p] }

// A Conn is the connection of a viewer, made by [NewConn] or [NewResponseConn]. Only one goroutine
// at a time may write to it. Any goroutine may end it, which makes a blocked write fail.
type Conn interface {
	path() path
	// tryWrite writes the bytes of line and then the bytes of c, without waiting. It removes the
	// accepted bytes from line and c. full is true if the connection accepts no more at present.
	// Only a Conn with the path pathWritev supports tryWrite.
	tryWrite(line *[]byte, c *millrace.Chain, out *vector) (full bool, err error)
	// write sends all bytes of line and then of c. It waits if necessary, and counts the sent bytes
	// in out. If the path is pathWritev, write stores the current time in progress whenever the
	// connection has accepted some bytes.
	write(line *[]byte, c *millrace.Chain, out *tally, progress *atomic.Int64) error
	// finish ends the connection after the last byte was written.
	finish()
	// abort ends the connection at once. If reset is set, the kernel drops the unsent bytes.
	// Otherwise the kernel tries to deliver them, which may take minutes.
	abort(reset bool)
}

// NewConn returns a Conn that writes to conn, and closes conn when the viewer has ended. The caller
// may read from conn.
//
// An interactive client keeps sending while it watches. Its connection stays open for up to
// closeGrace after the stream, because the kernel resets a closed connection when data arrives.
//
// maxUnsent limits the unsent bytes in the kernel; 0 means the system's default.
func NewConn(conn net.Conn, interactive bool, maxUnsent int) Conn {
	tcpconn.BoundUnsent(tcpconn.Of(conn), maxUnsent)
	base := streamConn{conn: conn, interactive: interactive}
	if s := newSocketConn(base); s != nil {
		return s
	}
	w := io.Writer(conn)
	if tcp := tcpconn.Plain(conn); tcp != nil {
		w = tcp
	}
	return &plainConn{streamConn: base, w: w}
}

// A streamConn has the methods that close the network connection of a viewer. socketConn and
// plainConn embed it.
type streamConn struct {
	conn        net.Conn
	interactive bool
}

// closeGrace is how long a client may take to read the end of its stream and close the connection.
// It applies only to clients that keep sending while they watch.
const closeGrace = 5 * time.Second

// finish closes the connection, or only its sending side if the client is interactive. After a full
// close, more data from the client would reset the connection, and unread bytes would be lost.
func (c *streamConn) finish() {
	if c.interactive {
		_ = c.conn.SetReadDeadline(time.Now().Add(closeGrace))
		if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			return
		}
	}
	_ = c.conn.Close()
}

func (c *streamConn) abort(reset bool) {
	if tcp := tcpconn.Of(c.conn); reset && tcp != nil {
		_ = tcp.SetLinger(0)
		_ = tcp.Close() // first, because closing a TLS connection may wait for a write
	}
	_ = c.conn.Close()
}

// A plainConn is a Conn for TLS connections, and for all connections on systems other than Linux.
type plainConn struct {
	streamConn
	w io.Writer
}

func (c *plainConn) path() path { return pathWrite }

func (c *plainConn) tryWrite(*[]byte, *millrace.Chain, *vector) (full bool, err error) {
	panic("fanout: this connection cannot be tried")
}

func (c *plainConn) write(line *[]byte, body *millrace.Chain, out *tally, _ *atomic.Int64) error {
	return writeThrough(c.w, line, body, out)
}

// writeThrough writes *line and then the bytes in c with Write calls. It counts the bytes in out.
func writeThrough(w io.Writer, line *[]byte, c *millrace.Chain, out *tally) error {
	if len(*line) > 0 {
		n, err := w.Write(*line)
		out.bytes += int64(n)
		if err != nil {
			return err
		}
		*line = nil
	}
	n, err := c.WriteTo(w)
	out.bytes += n
	return err
}

// A ResponseConn writes to a viewer through an http.ResponseWriter.
type ResponseConn struct {
	w       http.ResponseWriter
	control *http.ResponseController

	mu       lock.Mutex // held so that abort does not use w after its handler has returned
	returned bool
}

// NewResponseConn returns a Conn that writes through w. The handler must call Release before it
// returns.
func NewResponseConn(w http.ResponseWriter) *ResponseConn {
	return &ResponseConn{w: w, control: http.NewResponseController(w)}
}

func (c *ResponseConn) path() path { return pathWriter }

func (c *ResponseConn) tryWrite(*[]byte, *millrace.Chain, *vector) (full bool, err error) {
	panic("fanout: this connection cannot be tried")
}

func (c *ResponseConn) write(line *[]byte, body *millrace.Chain, out *tally,
	_ *atomic.Int64) error {
	if err := writeThrough(c.w, line, body, out); err != nil {
		return err
	}
	return c.control.Flush()
}

// finish does nothing: the response ends when the handler returns.
func (c *ResponseConn) finish() {}

func (c *ResponseConn) abort(bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.returned {
		_ = c.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// Release makes the ResponseConn stop using its ResponseWriter. The handler must call it before it
// returns.
func (c *ResponseConn) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
}
