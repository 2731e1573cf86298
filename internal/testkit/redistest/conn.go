package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Endpoint has the data that a client needs to connect to a server.
type Endpoint struct {
	Network  string      // "tcp" or "unix"
	Addr     string      // host:port, or the path of a Unix socket
	Password string      // of the default user; may be empty
	TLS      *tls.Config // nil if the server does not use TLS
}

// Time limits for one connection attempt and for one reply. They are short, so that a caller that
// polls a server does not wait long while the server is paused.
const (
	dialTimeout  = time.Second
	replyTimeout = 5 * time.Second
)

func (e Endpoint) dial(ctx context.Context) (*conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	nc, err := d.DialContext(ctx, e.Network, e.Addr)
	if err != nil {
		return nil, err
	}
	if e.TLS != nil {
		nc = tls.Client(nc, e.TLS) // the first Write makes the handshake
	}
	c := &conn{Conn: nc, r: bufio.NewReader(nc)}
	if e.Password != "" {
		if _, err := c.do(ctx, "AUTH", e.Password); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// conn is a RESP2 connection for one goroutine at a time.
type conn struct {
	net.Conn
	r *bufio.Reader
}

type replyError string

func (e replyError) Error() string { return string(e) }

// do sends a command and returns the reply: a string, an int64, nil, or a []any of these and of
// errors. An error reply is returned as a [replyError]. do waits until the deadline of ctx, but at
// most for replyTimeout.
func (c *conn) do(ctx context.Context, args ...any) (any, error) {
	deadline := time.Now().Add(replyTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := c.Write(request(args...)); err != nil {
		return nil, err
	}
	v, err := c.readReply()
	if refused, ok := v.(replyError); ok {
		return nil, refused
	}
	return v, err
}

// request encodes a command. It formats arguments that are not a []byte with [fmt.Append].
func request(args ...any) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		word, ok := arg.([]byte)
		if !ok {
			word = fmt.Append(nil, arg)
		}
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b
}

// readReply reads one reply. An error reply is a value, not an error.
func (c *conn) readReply() (any, error) {
	line, err := c.r.ReadString('\n')
	if err == io.EOF && line != "" {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutSuffix(line[1:], "\r\n")
	n, notNumber := strconv.ParseInt(text, 10, 64)
	switch kind := line[0]; {
	case !ok:
	case kind == '+':
		return text, nil
	case kind == '-':
		return replyError(text), nil
	case notNumber != nil:
	case kind == ':':
		return n, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case n >= 0 && kind == '$':
		return c.readBulk(n)
	case n >= 0 && kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.readReply(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("redistest: malformed reply: %q", line)
}

func (c *conn) readBulk(n int64) (any, error) {
	p := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, p); err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	text, ok := strings.CutSuffix(string(p), "\r\n")
	if !ok {
		return nil, fmt.Errorf("redistest: malformed string: %q", p)
	}
	return text, nil
}
