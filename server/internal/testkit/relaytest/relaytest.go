// Package relaytest publishes to a server under test and watches it, as encoders and players do.
package relaytest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A Client makes requests to the server at Addr. It ends the test where a request cannot be made.
type Client struct {
	T    testing.TB
	Addr string
	Log  *nettest.LogBook // of the server
}

// URL returns the address of path.
func (c *Client) URL(path string) string { return "http://" + c.Addr + path }

// Logged waits until all of words stand in one line of the server's log.
func (c *Client) Logged(words ...string) {
	c.T.Helper()
	nettest.Eventually(c.T, fmt.Sprintf("a log line with %q", words), func() bool {
	lines:
		for line := range strings.Lines(c.Log.String()) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue lines
				}
			}
			return true
		}
		return false
	})
}

// A Response is an answer that was read to its end.
type Response struct {
	Status int // 0: an error, whose text is Body
	Header http.Header
	Body   string
}

// Do makes a request over HTTP/1.
func (c *Client) Do(req *http.Request) Response { return Do(http.DefaultClient, req) }

// Do makes a request with client.
func Do(client *http.Client, req *http.Request) Response {
	res, err := client.Do(req)
	if err != nil {
		return Response{Body: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		body = append(body, err.Error()...)
	}
	return Response{res.StatusCode, res.Header, string(body)}
}

// Get makes a GET request.
func (c *Client) Get(path string) Response {
	c.T.Helper()
	return c.Request(http.MethodGet, path, "")
}

// Request makes a request with headers given as "Name: value".
func (c *Client) Request(method, path, body string, header ...string) Response {
	c.T.Helper()
	req, err := http.NewRequest(method, c.URL(path), strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	for _, h := range header {
		name, value, ok := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		} else if ok {
			req.Header.Set(name, value)
		}
	}
	return c.Do(req)
}

// HTTP2 returns a client that speaks HTTP/2 without TLS and lets window bytes of an answer wait unread.
func HTTP2(t testing.TB, window int) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Dial opens a connection to write a request to by hand, and writes head, whose lines end with "\n".
func (c *Client) Dial(head string) net.Conn {
	c.T.Helper()
	conn := nettest.Dial(c.T, c.Addr, 0)
	_ = conn.SetDeadline(time.Now().Add(2 * nettest.Timeout))
	_, _ = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n"))
	return conn
}

// A Publisher sends a stream in chunks, as encoders do.
type Publisher struct {
	t      testing.TB
	Body   *io.PipeWriter // what is written to it is sent
	answer chan Response
}

// Publisher starts a publisher of the stream name, over HTTP/1.
func (c *Client) Publisher(name string) *Publisher {
	c.T.Helper()
	return c.PublisherBy(http.DefaultClient, name)
}

// PublisherBy starts a publisher whose requests client makes.
func (c *Client) PublisherBy(client *http.Client, name string) *Publisher {
	c.T.Helper()
	r, w := io.Pipe()
	p := &Publisher{t: c.T, Body: w, answer: make(chan Response, 1)}
	req, err := http.NewRequest(http.MethodPost, c.URL("/live/"+name), r)
	if err != nil {
		c.T.Fatal(err)
	}
	go func() {
		res := Do(client, req)
		_ = r.CloseWithError(io.ErrClosedPipe)
		p.answer <- res
	}()
	c.T.Cleanup(func() { _ = w.Close() })
	return p
}

// Send sends b.
func (p *Publisher) Send(b []byte) {
	p.t.Helper()
	if _, err := p.Body.Write(b); err != nil {
		p.t.Errorf("publishing: %v", err)
	}
}

// End ends the body and returns the answer.
func (p *Publisher) End() Response {
	p.t.Helper()
	_ = p.Body.Close()
	return p.Wait()
}

// Cut breaks the connection in the middle of the body.
func (p *Publisher) Cut() { _ = p.Body.CloseWithError(errCut) }

var errCut = errors.New("the publisher is cut")

// Wait returns the answer.
func (p *Publisher) Wait() Response {
	p.t.Helper()
	select {
	case res := <-p.answer:
		return res
	case <-time.After(nettest.Timeout):
		p.t.Fatal("the publisher got no answer")
		return Response{}
	}
}

// A Watcher is a viewer on a connection of its own.
type Watcher struct {
	t    testing.TB
	Conn net.Conn
	R    *bufio.Reader
	Res  *http.Response // set by Begin
}

// Watcher asks for path and reads the head of the response. The connection's receive buffer has rcvbuf bytes, or with 0
// as many as the system chooses.
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
