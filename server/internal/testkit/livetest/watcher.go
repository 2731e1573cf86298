package livetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A Watcher is a viewer with its own connection.
type Watcher struct {
	t    testing.TB
	Conn net.Conn
	R    *bufio.Reader
	Res  *http.Response // set by Begin
}

// Watcher requests path on a new connection, and reads the head of the response. rcvbuf is the
// connection's receive buffer in bytes; 0 means the system's default.
func (c *Client) Watcher(path string, rcvbuf int) *Watcher {
	c.T.Helper()
	w := c.Ask(path, rcvbuf)
	w.Begin()
	return w
}

// Ask requests the given path on a new connection, and returns a Watcher for the response. The
// caller must call Watcher.Begin to read the head of the response. The argument rcvbuf is the size
// of the connection's receive buffer in bytes. 0 means the system's default.
func (c *Client) Ask(path string, rcvbuf int) *Watcher {
	c.T.Helper()
	return c.AskOn(nettest.Dial(c.T, c.Addr, rcvbuf), path)
}

// AskOn requests the given path on an open connection, and returns a Watcher for the response. The
// caller must call Watcher.Begin to read the head of the response.
func (c *Client) AskOn(conn net.Conn, path string) *Watcher {
	_ = conn.SetDeadline(time.Now().Add(2 * nettest.Timeout))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, c.Addr)
	return &Watcher{t: c.T, Conn: conn, R: bufio.NewReader(conn)}
}

// Begin reads the head of the response. If the status is not 200, the test ends.
func (w *Watcher) Begin() {
	w.t.Helper()
	res, err := http.ReadResponse(w.R, nil)
	if err != nil {
		w.t.Fatalf("the response's head: %v", err)
	}
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		w.t.Fatalf("status %d: %s", res.StatusCode, body)
	}
	w.Res = res
}

// Next reads the next n bytes of the body.
func (w *Watcher) Next(n int) []byte {
	w.t.Helper()
	p := make([]byte, n)
	if m, err := io.ReadFull(w.Res.Body, p); err != nil {
		w.t.Fatalf("after %d of %d bytes: %v", m, n, err)
	}
	return p
}

// Rest reads the rest of the body.
func (w *Watcher) Rest() []byte {
	w.t.Helper()
	p, err := io.ReadAll(w.Res.Body)
	if err != nil {
		w.t.Fatalf("after %d bytes: %v", len(p), err)
	}
	return p
}
