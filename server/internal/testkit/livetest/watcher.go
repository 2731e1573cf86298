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

// Watcher asks for path and reads the head of the response. The connection's receive buffer has
// rcvbuf bytes, or with 0 as many as the system chooses.
func (c *Client) Watcher(path string, rcvbuf int) *Watcher {
	c.T.Helper()
	w := c.Ask(path, rcvbuf)
	w.Begin()
	return w
}

// Ask is Watcher without the head, which Begin reads.
func (c *Client) Ask(path string, rcvbuf int) *Watcher {
	c.T.Helper()
	return c.AskOn(nettest.Dial(c.T, c.Addr, rcvbuf), path)
}

// AskOn is Ask on a connection that is there.
func (c *Client) AskOn(conn net.Conn, path string) *Watcher {
	_ = conn.SetDeadline(time.Now().Add(2 * nettest.Timeout))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, c.Addr)
	return &Watcher{t: c.T, Conn: conn, R: bufio.NewReader(conn)}
}

// Begin reads the head of the response.
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

// Rest reads the body to its end.
func (w *Watcher) Rest() []byte {
	w.t.Helper()
	p, err := io.ReadAll(w.Res.Body)
	if err != nil {
		w.t.Fatalf("after %d bytes: %v", len(p), err)
	}
	return p
}
