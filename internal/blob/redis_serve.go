package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
)

const (
	// window is how much of a value is asked for at a time, and so how much memory a slow client takes. The connection to
	// Redis is free while the client takes it.
	window = 128 << 10

	// piece is how much is asked for at a time where the kernel moves it from socket to socket. Redis copies what it is asked
	// for before it sends any of it, and serves nobody else meanwhile. As much as this stays in the processor's cache.
	piece = 256 << 10

	// spliceLeast is the least that the kernel moves: there are not many such downloads at a time, and a short one is over
	// before that pays.
	spliceLeast = 1 << 20

	// maxWrappers bounds how deep a response may be wrapped, in case one wraps itself.
	maxWrappers = 32
)

// Serve implements Store. Conditions and ranges are http.ServeContent's.
func (s *Redis) Serve(w http.ResponseWriter, r *http.Request, key string) error {
	ctx := ContextOf(r)
	v, err := s.lookup(ctx, s.name(key))
	if err != nil {
		return err
	}
	describe(w.Header(), v.left)
	w.Header().Set("Etag", tagOf(v.key))
	h := s.hold(ctx, v.key)
	defer h.end()
	c := &content{store: s, ctx: h.ctx, version: v}
	http.ServeContent(&contentResponse{ResponseWriter: w, content: c, direct: direct(w, r)}, plain(r, v.size), "", time.Time{}, c)
	h.stop()
	if c.end() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// plain returns r as a request for a value of size bytes that net/http answers as chunk.FileServer would.
func plain(r *http.Request, size int64) *http.Request {
	q := new(http.Request)
	*q = *r
	q.Header = conditions(r.Header)
	if ranges := r.Header.Get("Range"); ranges != "" {
		if strict := strictRange(ranges, size); strict != ranges {
			q.Header = q.Header.Clone()
			q.Header.Set("Range", strict)
		}
	}
	return q
}

// direct returns the part of w that has the kernel move bytes from another socket, or nil.
func direct(w http.ResponseWriter, r *http.Request) io.ReaderFrom {
	if r.ProtoMajor != 1 || r.TLS != nil {
		return nil
	}
	for range maxWrappers {
		if rf, ok := w.(io.ReaderFrom); ok {
			return rf
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = u.Unwrap()
	}
	return nil
}

// A content reads a version, for one answer. For an answer in several parts, net/http reads in a goroutine of its own,
// which it does not wait for.
//
// Invariant: 0 ≤ off.
type content struct {
	store   *Redis
	ctx     context.Context
	version version

	mu  sync.Mutex // held while Redis is asked
	off int64
	err error // what has ended the answer
}

// errAnswered ends a Read after the answer.
var errAnswered = errors.New("the answer has ended")

// errGone ends an answer in the middle of a value.
var errGone = fmt.Errorf("the value is not there any more: %w", io.ErrUnexpectedEOF)

// end returns when nobody reads any more, with what has ended the answer before its time.
func (c *content) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	c.err = errAnswered
	return err
}

// fail has the answer end before its time.
func (c *content) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// Seek implements io.Seeker.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += c.off
	case io.SeekEnd:
		offset += c.version.size
	}
	if offset < 0 {
		return 0, errors.New("a negative position")
	}
	c.off = offset
	return offset, nil
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if c.off >= c.version.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.version.size-c.off)]
	n, err := c.store.values.GetRangeToBuffer(c.ctx, c.version.key, c.off, p)
	if err == nil && n < len(p) {
		err = errGone
	}
	c.off += int64(n)
	c.err = err
	return n, err
}

// A contentResponse sends a content's bytes in whole windows, or has the kernel do so.
type contentResponse struct {
	http.ResponseWriter
	content *content
	direct  io.ReaderFrom // of the response below; nil if bytes must pass through Write
}

// Unwrap is for http.ResponseController.
func (w *contentResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *contentResponse) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.content.store.copied.Add(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom, for http.ServeContent.
func (w *contentResponse) ReadFrom(src io.Reader) (int64, error) {
	l, ok := src.(*io.LimitedReader)
	if !ok || l.R != w.content {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	n, err := w.send(l.N)
	l.N -= n
	if err != nil {
		w.content.fail(err)
	}
	return n, err
}

// send sends the next n bytes of the content.
func (w *contentResponse) send(n int64) (sent int64, err error) {
	long := w.direct != nil && n >= spliceLeast
	for sent < n && err == nil {
		var m int64
		if rest := min(n-sent, piece); long && w.content.store.mayGoStraight() {
			m, err = w.splice(rest)
		} else {
			m, err = w.copy(rest)
		}
		sent += m
	}
	return sent, err
}

// mayGoStraight reports whether a download may have a connection to Redis for as long as its client takes for a piece. If so,
// splice comes next.
func (s *Redis) mayGoStraight() bool {
	select {
	case s.reading <- struct{}{}:
		return true
	default:
		return false
	}
}

// splice has the kernel move the next n bytes of the content.
func (w *contentResponse) splice(n int64) (int64, error) {
	c := w.content
	defer func() { <-c.store.reading }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	m, err := c.store.values.GetRangeTo(c.ctx, c.version.key, c.off, n, &relay{contentResponse: w})
	c.off += m
	if err == nil && m < n {
		err = errGone
	}
	return m, err
}

// copy sends the next n bytes of the content in windows.
func (w *contentResponse) copy(n int64) (sent int64, err error) {
	block := millrace.DefaultPool.Get(int(min(n, window)))
	defer block.Release()
	for sent < n {
		m, err := w.content.Read(block.Bytes()[:min(n-sent, window)])
		if err != nil {
			return sent, err
		}
		m, err = w.Write(block.Bytes()[:m])
		sent += int64(m)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// A relay is a contentResponse that has the kernel move what comes from a socket.
type relay struct{ *contentResponse }

// ReadFrom implements io.ReaderFrom.
func (w *relay) ReadFrom(src io.Reader) (int64, error) {
	n, err := w.direct.ReadFrom(src)
	w.content.store.spliced.Add(n)
	return n, err
}
