package livetest

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A Publisher publishes a stream over HTTP with a chunked body, as encoders do.
type Publisher struct {
	t      testing.TB
	Body   *io.PipeWriter // body of the request
	answer chan Response
}

// Publisher starts to publish a stream over HTTP/1.
func (c *Client) Publisher(name string) *Publisher {
	c.T.Helper()
	return c.PublisherBy(http.DefaultClient, name)
}

// PublisherBy is like Publisher, but uses the given HTTP client.
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

// Send writes b to the body.
func (p *Publisher) Send(b []byte) {
	p.t.Helper()
	if _, err := p.Body.Write(b); err != nil {
		p.t.Errorf("publishing: %v", err)
	}
}

// End ends the body and returns the response.
func (p *Publisher) End() Response {
	p.t.Helper()
	_ = p.Body.Close()
	return p.Wait()
}

// Cut aborts the request in the middle of the body.
func (p *Publisher) Cut() { _ = p.Body.CloseWithError(errCut) }

var errCut = errors.New("the publisher is cut")

// Wait waits for the response and returns it.
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
