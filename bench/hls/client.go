package hls

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/millrace-io/millrace"
)

// A client sends HTTP/1.1 requests to a server, one after the other, over one keep-alive
// connection. Only one goroutine may use it. It allocates nothing per request, and holds no buffer
// while it waits.
type client struct {
	net  net.Conn
	stop func() bool // prevents the end of ctx from closing the connection
	r    *millrace.Reader
	addr string

	request []byte
	kept    []byte       // the body that getText returns; reused
	keep    func([]byte) // appends to kept
}

// responseTime is the time limit for a response. It is longer than any target duration.
const responseTime = 20 * time.Second

// connect returns a client. The end of ctx closes the connection.
func connect(ctx context.Context, addr string) (*client, error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &client{net: conn, stop: context.AfterFunc(ctx, func() { conn.Close() }),
		r: millrace.NewReader(conn), addr: addr}
	c.keep = func(p []byte) { c.kept = append(c.kept, p...) }
	return c, nil
}

func (c *client) close() {
	c.stop()
	c.net.Close()
	c.r.Release()
}

type statusError struct {
	status int
	path   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

var errHTTP = errors.New("not HTTP/1.1")

// get requests a path with a query, and calls yield with the pieces of the response body, in order.
// A piece is valid until yield returns. The result gzipped reports whether the body is compressed.
func (c *client) get(path, query string, yield func([]byte)) (gzipped bool, err error) {
	b := append(c.request[:0], "GET "...)
	b = append(b, path...)
	b = append(b, query...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.addr...)
	b = append(b, "\r\nUser-Agent: millrace-bench\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n"...)
	c.request = b
	if err := c.net.SetDeadline(time.Now().Add(responseTime)); err != nil {
		return false, err
	}
	if _, err := c.net.Write(b); err != nil {
		return false, err
	}
	h, err := c.head()
	if err != nil {
		return false, err
	}
	if h.status != 200 {
		err = &statusError{h.status, path}
		yield = func([]byte) {}
	}
	if e := c.body(h, yield); e != nil {
		return false, e
	}
	return h.gzipped, err
}

type responseHead struct {
	status  int
	length  int
	chunked bool
	gzipped bool
}

func (c *client) head() (h responseHead, err error) {
	line, err := c.readLine()
	if err != nil {
		return h, err
	}
	if len(line) < 12 || string(line[:9]) != "HTTP/1.1 " {
		return h, errHTTP
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, errHTTP
	}
	h.length = -1
	for {
		line, err := c.readLine()
		if err != nil {
			return h, err
		}
		if len(line) == 0 {
			return h, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case equalFold(name, "content-length"):
			if h.length, err = strconv.Atoi(string(value)); err != nil || h.length < 0 {
				return h, errHTTP
			}
		case equalFold(name, "transfer-encoding"):
			h.chunked = true
		case equalFold(name, "content-encoding"):
			h.gzipped = equalFold(value, "gzip")
		}
	}
}

// equalFold reports whether b and word are equal, ignoring the case of ASCII letters.
func equalFold(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range b {
		if b[i]|0x20 != word[i]|0x20 {
			return false
		}
	}
	return true
}

// readLine returns the next line without its line ending. The line is valid until the next read.
func (c *client) readLine() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err == io.EOF && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return bytes.TrimRight(line, "\r\n"), err
}

func (c *client) body(h responseHead, yield func([]byte)) error {
	if !h.chunked {
		if h.length < 0 {
			return errHTTP
		}
		return c.r.ReadRange(h.length, yield)
	}
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return errHTTP
		}
		if err := c.r.ReadRange(int(n), yield); err != nil {
			return err
		}
		if line, err := c.readLine(); err != nil || len(line) > 0 {
			return errors.Join(errHTTP, err)
		}
		if n == 0 {
			return nil
		}
	}
}

// getText requests a path with a query, and returns the complete response body. If gzipped is true,
// the body is compressed; see plainText. The body is valid until the next request.
func (c *client) getText(path, query string) (text []byte, gzipped bool, err error) {
	c.kept = c.kept[:0]
	gzipped, err = c.get(path, query, c.keep)
	return c.kept, gzipped, err
}

func plainText(text []byte, gzipped bool) ([]byte, error) {
	if !gzipped {
		return text, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
