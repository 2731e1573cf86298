package websocket

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
)

// Options are the limits and features of a Conn. The zero value has the defaults.
type Options struct {
	// MaxMessage is the maximum length of a client's message in bytes. The default is 1 MiB.
	MaxMessage int

	// IdleTimeout limits the time without a message or control frame from the client. To keep a
	// silent client connected, call [Conn.Ping] at shorter intervals. The default is 0, which means
	// no limit.
	IdleTimeout time.Duration

	// MessageTimeout limits the time from the first to the last byte of a message. The default is
	// 30 seconds.
	MessageTimeout time.Duration

	// WriteTimeout limits the time of each write to the client. The default is 30 seconds.
	WriteTimeout time.Duration

	// Subprotocols are the server's subprotocols, the preferred one first.
	Subprotocols []string

	// CheckOrigin reports whether a client may connect, according to the Origin header of its
	// request. By default, pages of the same host may connect. Requests without an Origin header
	// are also accepted, because they do not come from browsers.
	CheckOrigin func(r *http.Request) bool

	// Pool supplies the memory blocks of received messages. The default is millrace.DefaultPool().
	Pool *millrace.Pool
}

const (
	defaultMaxMessage = 1 << 20
	defaultTimeout    = 30 * time.Second
)

// keyGUID is appended to the client's key (RFC 6455, section 1.3).
const keyGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// Accept answers a WebSocket request and returns the connection, which the caller closes. If the
// request is not acceptable, Accept sends an HTTP error and returns an error. opts may be nil.
//
// The ResponseWriter w must implement [http.Hijacker], directly or through Unwrap methods. In
// net/http, only responses to HTTP/1.1 requests do.
func Accept(w http.ResponseWriter, r *http.Request, opts *Options) (*Conn, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if status, err := o.check(r); err != nil {
		if status == http.StatusUpgradeRequired {
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Sec-WebSocket-Version", "13")
		}
		http.Error(w, err.Error(), status)
		return nil, err
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "websocket: the connection cannot be taken over", http.StatusInternalServerError)
		return nil, fmt.Errorf("websocket: %w", err)
	}
	protocol := o.subprotocol(r)
	c := newConn(conn, rw.Reader, protocol, o)
	if err := c.respond(r.Header.Get("Sec-WebSocket-Key")); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// check returns an error and an HTTP status if r is not acceptable (RFC 6455, section 4.2.1).
func (o *Options) check(r *http.Request) (status int, err error) {
	switch {
	case !hasToken(r.Header["Connection"], "upgrade") || !hasToken(r.Header["Upgrade"], "websocket"):
		return http.StatusUpgradeRequired, errors.New("websocket: not a WebSocket request")
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, errors.New("websocket: the method is not GET")
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return http.StatusUpgradeRequired, errors.New("websocket: the version is not 13")
	}
	if key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key")); err != nil ||
		len(key) != 16 {
		return http.StatusBadRequest, errors.New("websocket: Sec-WebSocket-Key is not 16 bytes in Base64")
	}
	allowed := o.CheckOrigin
	if allowed == nil {
		allowed = sameOrigin
	}
	if !allowed(r) {
		return http.StatusForbidden, errors.New("websocket: pages of this origin may not connect")
	}
	return 0, nil
}

func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

func hasToken(lists []string, token string) bool {
	for _, list := range lists {
		for t := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

func (o *Options) subprotocol(r *http.Request) string {
	for _, p := range o.Subprotocols {
		if slices.ContainsFunc(r.Header["Sec-Websocket-Protocol"], func(list string) bool {
			return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
				return strings.TrimSpace(s) == p
			})
		}) {
			return p
		}
	}
	return ""
}

func (c *Conn) respond(key string) error {
	sum := sha1.Sum([]byte(key + keyGUID))
	b := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if c.protocol != "" {
		b += "Sec-WebSocket-Protocol: " + c.protocol + "\r\n"
	}
	if err := c.conn.SetDeadline(time.Time{}); err != nil { // set by net/http
		return err
	}
	var out millrace.Chain
	out.AppendCopy([]byte(b + "\r\n"))
	return c.WriteFrames(&out)
}

// A prefixedConn is a connection with bytes that have already been read. Read returns these bytes
// first.
type prefixedConn struct {
	net.Conn
	prefix []byte
}

// NetConn returns the inner connection. A millrace.Reader uses NetConn so that it holds no block of
// memory while it waits for bytes.
func (c *prefixedConn) NetConn() net.Conn { return c.Conn }

func (c *prefixedConn) Read(p []byte) (int, error) {
	if len(c.prefix) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.prefix)
	c.prefix = c.prefix[n:]
	return n, nil
}

// withBuffered returns a Reader that reads the bytes buffered in r, and then conn.
func withBuffered(conn net.Conn, r *bufio.Reader) io.Reader {
	n := r.Buffered()
	if n == 0 {
		return conn
	}
	p, _ := r.Peek(n) // cannot fail
	return &prefixedConn{conn, slices.Clone(p)}
}
