// Package livetest publishes and watches streams of a server under test.
package livetest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A Client makes requests to the server at Addr. The test fails and ends if a request or a
// connection cannot be created.
type Client struct {
	T    testing.TB
	Addr string
	Log  *nettest.LogBook // the server's log
}

// URL returns the URL of the given path on the server.
func (c *Client) URL(path string) string { return "http://" + c.Addr + path }

// Logged waits until the server's log has a line that contains all words.
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

// A Response is a response with its complete body.
type Response struct {
	Status int // 0 if the request failed; Body then has the error
	Header http.Header
	Body   string
}

// Do makes a request over HTTP/1 and returns the response.
func (c *Client) Do(req *http.Request) Response { return Do(http.DefaultClient, req) }

// Do makes a request with the given HTTP client and returns the response.
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

// HTTP2 returns a client for HTTP/2 without TLS. The argument window is the size of the receive
// buffer for each response, in bytes.
func HTTP2(t testing.TB, window int) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Dial opens a connection and writes the request in head. It replaces each "\n" with "\r\n".
func (c *Client) Dial(head string) net.Conn {
	c.T.Helper()
	conn := nettest.Dial(c.T, c.Addr, 0)
	_ = conn.SetDeadline(time.Now().Add(2 * nettest.Timeout))
	_, _ = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n"))
	return conn
}
