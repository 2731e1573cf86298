// Package httpflv is a client for FLV streams over HTTP, for checks that compare received data with
// sent data. A viewer gets complete payloads, and a publisher gets the body of the server's
// response. The client of package load provides neither, to save CPU time.
package httpflv

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// Header is the beginning of every FLV stream: the file header and PreviousTagSize0.
const Header = "FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"

const (
	tagHeader = 11
	maxAnswer = 64 << 10
)

// ErrFormat means that a stream is not FLV.
var ErrFormat = errors.New("not FLV")

// A Publication sends tags in a request body. Only one goroutine may use it.
type Publication struct {
	// Answer is the response body. It is set after Close returns nil.
	Answer []byte

	body   *io.PipeWriter
	done   chan error // receives one value, the result of the request
	buf    []byte     // the last tag in its wire format
	header bool       // whether Header has been sent
}

// Publish begins a request that publishes a stream. It returns when the server requests the body
// with 100 Continue, which every server of this module does. The request is canceled when ctx ends.
// The error is a *load.RefusedError if the status is not 200.
func Publish(ctx context.Context, client *http.Client, url string) (*Publication, error) {
	r, w := io.Pipe()
	admitted := make(chan struct{})
	trace := &httptrace.ClientTrace{Got100Continue: func() { close(admitted) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost,
		url, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "video/x-flv")
	req.Header.Set("Expect", "100-continue")
	p := &Publication{body: w, done: make(chan error, 1)}
	// If the connection breaks, net/http waits for the body before it returns an error.
	stop := context.AfterFunc(ctx, func() { r.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		err := p.send(client, req)
		r.CloseWithError(err)
		p.done <- err
	}()
	select {
	case <-admitted:
		return p, nil
	case err := <-p.done:
		return nil, err
	}
}

func (p *Publication) send(client *http.Client, req *http.Request) error {
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &load.RefusedError{Status: res.Status}
	}
	p.Answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return err
}

// AppendTag appends a tag in its wire format, including the size that follows the tag.
func AppendTag(b []byte, t load.Tag) []byte {
	n := len(t.Payload)
	b = append(b, t.Kind, byte(n>>16), byte(n>>8), byte(n),
		byte(t.Timestamp>>16), byte(t.Timestamp>>8), byte(t.Timestamp), byte(t.Timestamp>>24), 0, 0,
		0)
	b = append(b, t.Payload...)
	return binary.BigEndian.AppendUint32(b, uint32(tagHeader+n))
}

// WriteTag implements load.Publication.
func (p *Publication) WriteTag(t load.Tag) error {
	p.buf = p.buf[:0]
	if !p.header {
		p.header = true
		p.buf = append(p.buf, Header...)
	}
	p.buf = AppendTag(p.buf, t)
	_, err := p.body.Write(p.buf)
	return err
}

// Close ends the stream and waits for the server's response.
func (p *Publication) Close() error {
	p.body.Close()
	return <-p.done
}

// BreakOff sends half a tag, aborts the request with err, and returns the result of the request. If
// the server has not responded yet, the result wraps err.
func (p *Publication) BreakOff(err error) error {
	p.body.Write(p.buf[:len(p.buf)/2])
	p.body.CloseWithError(err)
	return <-p.done
}

// A Subscription reads tags. Only one goroutine may use it.
type Subscription struct {
	body  io.Closer
	in    *bufio.Reader
	begun bool
	buf   []byte
}

// Watch requests a stream. It returns when the server has accepted the request. The request is
// canceled when ctx ends. The error is a *load.RefusedError if the status is not 200.
func Watch(ctx context.Context, client *http.Client, url string) (*Subscription, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, &load.RefusedError{Status: res.Status}
	}
	return Over(res.Body), nil
}

// Over returns a Subscription that reads FLV from body. It takes ownership of body.
func Over(body io.ReadCloser) *Subscription {
	return &Subscription{body: body, in: bufio.NewReaderSize(body, 64<<10)}
}

// Next implements load.Subscription. It sets a.Head to the complete payload, which is valid until
// the next call. The error is io.EOF if the body ends between two tags.
func (s *Subscription) Next(a *load.Arrival) error {
	if !s.begun {
		head, err := s.Read(len(Header))
		if err != nil {
			return err
		}
		if string(head) != Header {
			return fmt.Errorf("%w: begins with %x", ErrFormat, head)
		}
		s.begun = true
	}
	head, err := s.Peek(tagHeader)
	if err != nil {
		return err
	}
	n := int(head[1])<<16 | int(head[2])<<8 | int(head[3])
	tag, err := s.Read(tagHeader + n + 4)
	if err != nil {
		return err
	}
	if size := binary.BigEndian.Uint32(tag[tagHeader+n:]); int(size) != tagHeader+n {
		return fmt.Errorf("%w: a tag of %d bytes says %d at its end", ErrFormat, tagHeader+n, size)
	}
	*a = load.Arrival{
		Kind: tag[0], Timestamp: uint32(
			tag[7])<<24 | uint32(tag[4])<<16 | uint32(tag[5])<<8 | uint32(tag[6]),
		Size: n, Waited: true, At: time.Now(), Head: tag[tagHeader : tagHeader+n],
	}
	return nil
}

// Peek returns the next n bytes without consuming them. The number n must be at most 64 KiB. The
// bytes are valid until the next read.
func (s *Subscription) Peek(n int) ([]byte, error) {
	p, err := s.in.Peek(n)
	if err == io.EOF && len(p) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// Read reads n bytes. The returned bytes are valid until the next call to Read or Next.
func (s *Subscription) Read(n int) ([]byte, error) {
	if cap(s.buf) < n {
		s.buf = make([]byte, 2*n)
	}
	_, err := io.ReadFull(s.in, s.buf[:n])
	return s.buf[:n], err
}

// Close implements load.Subscription.
func (s *Subscription) Close() error { return s.body.Close() }

// A Server implements load.Protocol for an HTTP server. The address of a stream is URL + "/live/" +
// name + Ending.
type Server struct{ URL, Ending string }

// String implements load.Protocol.
func (s Server) String() string { return s.URL }

func (s Server) url(name string) string { return s.URL + "/live/" + name + s.Ending }

var client = &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute,
	DisableCompression: true}}

// Publish implements load.Protocol.
func (s Server) Publish(ctx context.Context, name string) (load.Publication, error) {
	return Publish(ctx, client, s.url(name))
}

// Watch implements load.Protocol.
func (s Server) Watch(ctx context.Context, name string) (load.Subscription, error) {
	return Watch(ctx, client, s.url(name))
}
