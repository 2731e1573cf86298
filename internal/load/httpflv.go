package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace"
)

// httpFLV is FLV over HTTP/1.1: POST to /live/NAME in chunks, GET /live/NAME.
// It writes and reads the protocol itself. net/http would cost a load
// generator more than the load costs the server.
type httpFLV struct {
	url    *url.URL
	addr   string
	ending string
	token  string
	dial   DialFunc
	watch  DialFunc // for viewers
}

func newHTTPFLV(cfg Config) *httpFLV {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		panic("load: URL not checked: " + err.Error())
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	h := &httpFLV{
		url: u, addr: net.JoinHostPort(u.Hostname(), port), ending: cfg.Ending, token: cfg.Token, dial: cfg.Dial, watch: cfg.Dial,
	}
	if cfg.ReadEvery > 0 {
		h.watch = Paced(cfg.Dial, cfg.ReadEvery)
	}
	return h
}

func (h *httpFLV) String() string { return h.url.String() }

// open dials and sends the head of a request. When ctx ends, end is called with
// the connection; release closes it.
func (h *httpFLV) open(ctx context.Context, dial DialFunc, head string, end func(net.Conn)) (conn net.Conn, release func() error, err error) {
	conn, err = dial(ctx, "tcp", h.addr)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { end(conn) })
	release = func() error {
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
	return fmt.Sprintf("%s %s/live/%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: millrace-load\r\n%s\r\n",
		method, strings.TrimSuffix(h.url.Path, "/"), name, h.ending, h.url.Host, more)
}

// maxHead bounds the head of a response.
const maxHead = 16 << 10

var errHead = fmt.Errorf("load: response head of more than %d bytes", maxHead)

// readHead reads the head of a response. A status of 300 and more is a
// *RefusedError; informational responses are passed over.
func readHead(r *millrace.Reader) (http.Header, error) {
	for {
		code, header, err := readOneHead(r)
		if err != nil || code >= 200 {
			return header, err
		}
	}
}

func readOneHead(r *millrace.Reader) (code int, header http.Header, err error) {
	status, err := readLine(r)
	if err != nil {
		return 0, nil, err
	}
	version, text, _ := strings.Cut(status, " ")
	digits, _, _ := strings.Cut(text, " ")
	code, err = strconv.Atoi(digits)
	if err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, nil, fmt.Errorf("load: %q is no HTTP/1 response", status)
	}
	header = make(http.Header)
	for total := len(status); ; {
		line, err := readLine(r)
		if err != nil {
			return 0, nil, err
		}
		if line == "" {
			break
		}
		if total += len(line); total > maxHead {
			return 0, nil, errHead
		}
		name, value, _ := strings.Cut(line, ":")
		header.Add(name, strings.TrimSpace(value))
	}
	if code >= 300 {
		return 0, nil, &RefusedError{Status: text}
	}
	return code, header, nil
}

func readLine(r *millrace.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(bytes.TrimRight(line, "\r\n")), nil
}

// body is what to read a response's body from: r itself, or r without the
// framing of chunks.
func body(r *millrace.Reader, header http.Header) *millrace.Reader {
	if !strings.EqualFold(header.Get("Transfer-Encoding"), "chunked") {
		return r
	}
	return millrace.NewReader(httputil.NewChunkedReader(r))
}

var errNotFLV = errors.New("load: the stream is not FLV")
