package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
)

// httpFLV is FLV over HTTP/1.1. A publisher sends POST /live/NAME with a chunked body, and a viewer
// sends GET /live/NAME.
//
// httpFLV does not use http.Client, because the load generator would then need more CPU time than
// the server.
type httpFLV struct {
	url    *url.URL
	addr   string
	ending string
	token  string
	dial   DialFunc
}

// HTTPFLV returns the default Protocol, which publishes and watches FLV streams over HTTP.
func HTTPFLV(cfg Config) Protocol { return newHTTPFLV(cfg.WithDefaults()) }

func newHTTPFLV(cfg Config) *httpFLV {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		panic("load: URL not checked: " + err.Error())
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	return &httpFLV{url: u, addr: addr, ending: cfg.Ending, token: cfg.Token, dial: cfg.Dial}
}

func (h *httpFLV) String() string { return h.url.String() }

// open connects to the server and sends the head of an HTTP request. It returns the connection and
// a function that closes it. If ctx ends before the connection is closed, onDone is called with the
// connection.
func (h *httpFLV) open(ctx context.Context, head string, onDone func(net.Conn)) (
	net.Conn, func() error, error,
) {
	conn, err := h.dial(ctx, "tcp", h.addr)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { onDone(conn) })
	release := func() error {
		stop()
		return conn.Close()
	}
	if _, err := io.WriteString(conn, head); err != nil {
		release()
		return nil, nil, err
	}
	return conn, release, nil
}

func (h *httpFLV) head(method, name, more string) string {
	if h.token != "" {
		more += "Authorization: Bearer " + h.token + "\r\n"
	}
	return fmt.Sprintf(
		"%s %s/live/%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: millrace-load\r\n%s\r\n",
		method, strings.TrimSuffix(h.url.Path, "/"), name, h.ending, h.url.Host, more)
}

// readResponse reads the final response to a request. It calls onContinue for each 100 Continue
// before the final response. If the status is 300 or above, it returns a *RefusedError.
func readResponse(conn io.Reader, method string, onContinue func()) (*http.Response, error) {
	for r := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		switch {
		case err != nil:
			return nil, err
		case res.StatusCode >= 300:
			return nil, &RefusedError{Status: res.Status}
		case res.StatusCode >= 200:
			return res, nil
		case res.StatusCode == http.StatusContinue:
			onContinue()
		}
	}
}

var errNotFLV = errors.New("load: the stream is not FLV")

// flvPublication sends each tag as one chunk of a request body, with one write.
type flvPublication struct {
	conn    net.Conn
	release func() error
	buf     []byte
	head    bool // the FLV header has been sent

	ready    chan struct{} // closed when the server has sent 100 Continue
	answered chan struct{} // closed when the server has sent its response or disconnected
	refusal  error         // set before answered is closed; nil after a 2xx status
}

const (
	// expectTime is the time limit for a 100 Continue, which not every server sends.
	expectTime = time.Second
	// When the context of a publisher ends, endTime is the time limit for sending the end of the
	// body and receiving the server's response.
	endTime = 3 * time.Second
	// answerTime is how long a publisher waits, after a connection error, for a response that
	// explains the error.
	answerTime = time.Second
)

// Publish starts a publication. It waits for 100 Continue before it sends the body, so that a
// server that refuses the request can send a response instead of breaking the connection.
func (h *httpFLV) Publish(ctx context.Context, name string) (Publication, error) {
	more := "Content-Type: video/x-flv\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
	conn, release, err := h.open(ctx, h.head("POST", name, more), func(c net.Conn) {
		c.SetDeadline(time.Now().Add(endTime)) // time to send the end of the body
	})
	if err != nil {
		return nil, err
	}
	p := &flvPublication{conn: conn, release: release, ready: make(chan struct{}),
		answered: make(chan struct{})}
	go p.listen()
	if err := p.admitted(ctx); err != nil {
		release()
		<-p.answered
		return nil, err
	}
	return p, nil
}

func (p *flvPublication) admitted(ctx context.Context) error {
	late := time.NewTimer(expectTime)
	defer late.Stop()
	select {
	case <-p.ready:
	case <-late.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.answered:
		return p.refusal
	}
	return nil
}

// listen reads the server's response. If the server refuses the publication, listen closes the
// connection, so that WriteTag fails.
func (p *flvPublication) listen() {
	defer close(p.answered)
	_, p.refusal = readResponse(p.conn, http.MethodPost, sync.OnceFunc(func() { close(p.ready) }))
	if p.refusal != nil {
		p.conn.Close()
	}
}

// answer waits for the server's response. It returns an error if the server refuses the publication
// or sends no valid response. It returns nil if the server accepts the publication, or after the
// timeout.
func (p *flvPublication) answer(timeout time.Duration) error {
	select {
	case <-p.answered:
		return p.refusal
	case <-time.After(timeout):
		return nil
	}
}

func (p *flvPublication) WriteTag(t Tag) error {
	n := len(t.Payload)
	size, header := flvTagHeader+n+flvTagFooter, ""
	if !p.head {
		p.head = true
		header = "FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"
		size += len(header)
	}
	b := fmt.Appendf(p.buf[:0], "%x\r\n%s", size, header)
	b = append(b, t.Kind, byte(n>>16), byte(n>>8), byte(n),
		byte(t.Timestamp>>16), byte(t.Timestamp>>8), byte(t.Timestamp), byte(t.Timestamp>>24), 0, 0,
		0)
	b = append(b, t.Payload...)
	b = binary.BigEndian.AppendUint32(b, uint32(flvTagHeader+n))
	b = append(b, "\r\n"...)
	p.buf = b
	if _, err := p.conn.Write(b); err != nil {
		return p.explain(err)
	}
	return nil
}

// explain returns the error to report after a write has failed with err. It returns the server's
// refusal, if there is one. If listen has closed the connection because it could not read the
// response, explain returns the error of the read. Otherwise it returns err.
func (p *flvPublication) explain(err error) error {
	refusal := p.answer(answerTime)
	if _, refused := errors.AsType[*RefusedError](refusal); refused ||
		errors.Is(err, net.ErrClosed) && refusal != nil {
		return refusal
	}
	return err
}

// Close ends the body and waits a moment for the server's response. The stream's name can be used
// again when the response has arrived.
func (p *flvPublication) Close() error {
	defer p.release()
	p.conn.SetWriteDeadline(time.Now().Add(answerTime))
	if _, err := io.WriteString(p.conn, "0\r\n\r\n"); err != nil {
		return p.explain(err)
	}
	return p.answer(2 * time.Second)
}

type flvSubscription struct {
	release func() error
	body    *millrace.Reader
	flv     bool // the FLV header has been read
	head    [HeadLen]byte
}

// Watch requests a stream, and returns when the server has accepted the request.
func (h *httpFLV) Watch(ctx context.Context, name string) (Subscription, error) {
	conn, release, err := h.open(ctx, h.head("GET", name, "Accept: */*\r\n"),
		func(c net.Conn) { c.Close() })
	if err != nil {
		return nil, err
	}
	res, err := readResponse(conn, http.MethodGet, func() {})
	if err != nil {
		release()
		return nil, err
	}
	return &flvSubscription{release: release, body: millrace.NewReader(res.Body)}, nil
}

const (
	flvHeader    = 9 + 4 // includes the first previous-tag-size
	flvTagHeader = 11
	flvTagFooter = 4
)

// Next waits for the next tag, describes it in *a, and skips its data.
func (s *flvSubscription) Next(a *Arrival) error {
	if !s.flv {
		if err := s.readHeader(); err != nil {
			return err
		}
	}
	r := s.body
	have := r.Buffered()
	hdr, err := r.Peek(flvTagHeader)
	if err != nil {
		if err == io.EOF && r.Buffered() > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	a.Kind = hdr[0]
	a.Size = int(hdr[1])<<16 | int(hdr[2])<<8 | int(hdr[3])
	a.Timestamp = uint32(hdr[7])<<24 | uint32(hdr[4])<<16 | uint32(hdr[5])<<8 | uint32(hdr[6])
	n := min(a.Size, HeadLen)
	p, err := r.Peek(flvTagHeader + n)
	if err != nil {
		return unexpectedEOF(err)
	}
	a.Head = s.head[:copy(s.head[:], p[flvTagHeader:])]
	total := flvTagHeader + a.Size + flvTagFooter
	if err := r.Skip(total); err != nil {
		return unexpectedEOF(err)
	}
	a.Waited = have < total
	if a.Waited {
		a.At = time.Now()
	}
	return nil
}

func (s *flvSubscription) readHeader() error {
	p, err := s.body.Peek(flvHeader)
	if err != nil {
		return err
	}
	if string(p[:3]) != "FLV" {
		return errNotFLV
	}
	s.flv = true
	return s.body.Skip(flvHeader)
}

func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the subscription and closes its connection.
func (s *flvSubscription) Close() error {
	err := s.release()
	s.body.Release()
	return err
}
