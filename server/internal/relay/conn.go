package relay

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/tcpconn"
)

// A path is how a viewer's bytes reach its connection.
type path uint8

const (
	pathWritev path = iota // the connection was taken over; one system call per batch
	pathWrite              // the same without writev: TLS, or another system than Linux
	pathWriter             // through an http.ResponseWriter: HTTP/2, or a wrapper without Unwrap

	paths // how many there are
)

func (p path) String() string { return [paths]string{"writev", "write", "responsewriter"}[p] }

// A viewerConn is the connection of a viewer. One goroutine at a time writes to it; any goroutine may end it, which makes
// a write that waits fail.
type viewerConn interface {
	path() path
	// tryWrite writes line and then c without waiting, and cuts off what was taken. full means that the connection takes
	// no more at present. Only pathWritev has it.
	tryWrite(line *[]byte, c *millrace.Chain, out *vector) (full bool, err error)
	// write writes line and then c to their end, and stores the time in progress when something was taken.
	write(line *[]byte, c *millrace.Chain, out *tally, progress *atomic.Int64) error
	// finish ends the connection when everything was written.
	finish()
	// abort ends the connection at once. If reset is set, the kernel drops what the client has not taken; otherwise it
	// would try to deliver that for minutes.
	abort(reset bool)
}

// A tally counts what was written, for all viewers of a round.
type tally struct {
	calls int64 // of writev
	bytes int64
}

// take adds other to t, and empties other.
func (t *tally) take(other *tally) {
	t.calls += other.calls
	t.bytes += other.bytes
	*other = tally{}
}

// flush adds t to the figures of a Hub. Once a round is enough: one atomic addition for all viewers.
func (t *tally) flush(c *counters, p path) {
	if t.bytes == 0 && t.calls == 0 {
		return
	}
	c.writeCalls.Add(t.calls)
	c.written[p].Add(t.bytes)
	*t = tally{}
}

// newStreamConn returns the way to write to conn, which was taken over. talks means that the client sends something now
// and then, which is read to its end before the connection is closed.
func newStreamConn(conn net.Conn, talks bool) viewerConn {
	base := streamConn{conn: conn, talks: talks}
	if s := newSocketConn(base); s != nil {
		return s
	}
	return &plainConn{streamConn: base, w: plain(conn)}
}

// A streamConn is a connection that was taken over.
type streamConn struct {
	conn  net.Conn
	talks bool
}

// closeGrace limits the time in which a client that talks may take the end of its stream and close the connection.
const closeGrace = 5 * time.Second

// finish leaves the rest to the reader of a client that talks. If the server closed the connection at once, the kernel
// would reset it because of what the client sends meanwhile, and the client would lose what it has not read yet.
func (c *streamConn) finish() {
	if c.talks {
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
		_ = tcp.Close() // before TLS can wait to say goodbye
	}
	_ = c.conn.Close()
}

// A plainConn is written to by an ordinary Write: over TLS, and on systems without writev here.
type plainConn struct {
	streamConn
	w io.Writer
}

func (c *plainConn) path() path { return pathWrite }

func (c *plainConn) tryWrite(*[]byte, *millrace.Chain, *vector) (full bool, err error) {
	panic("relay: this connection cannot be tried")
}

func (c *plainConn) write(line *[]byte, body *millrace.Chain, out *tally, _ *atomic.Int64) error {
	return writeThrough(c.w, line, body, out)
}

// writeThrough writes line and then c to an ordinary writer.
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

// A responseConn is written to through a ResponseWriter, until the handler returns.
type responseConn struct {
	w       http.ResponseWriter
	control *http.ResponseController

	mu       lock.Mutex // so that w is not used after its handler
	returned bool
}

func newResponseConn(w http.ResponseWriter) *responseConn {
	return &responseConn{w: w, control: http.NewResponseController(w)}
}

func (c *responseConn) path() path { return pathWriter }

func (c *responseConn) tryWrite(*[]byte, *millrace.Chain, *vector) (full bool, err error) {
	panic("relay: this connection cannot be tried")
}

func (c *responseConn) write(line *[]byte, body *millrace.Chain, out *tally, _ *atomic.Int64) error {
	if err := writeThrough(c.w, line, body, out); err != nil {
		return err
	}
	return c.control.Flush()
}

// finish does nothing: the last bytes are still on their way when the handler returns.
func (c *responseConn) finish() {}

func (c *responseConn) abort(bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.returned {
		_ = c.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// release ends the use of the ResponseWriter.
func (c *responseConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
}
