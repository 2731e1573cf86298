package chunk

import (
	"context"
	"io"
	"net/http"
	"strconv"
)

// fileToResponse sends f as the body of w, or as the next part of it.
func fileToResponse(w http.ResponseWriter, f *fileSource) error {
	h := w.Header()
	if declare(h, f.size) {
		f.exact = true
	}
	end := f.end
	if n := promised(h); n < f.end-f.off {
		f.end = f.off + n
	}
	r := responseOf(w)
	r.begin()
	var err error
	if 0 < f.size && f.size <= smallBody {
		err = f.copyTo(w)
	} else {
		err = r.send(&f.fileRange)
	}
	if err == nil && f.off == f.end && f.end < end && !f.isAtEnd(end) {
		err = http.ErrContentLength
	}
	return err
}

// isAtEnd reports whether the file has nothing more before end.
func (f *fileRange) isAtEnd(end int64) bool {
	if f.off >= end {
		return true
	}
	n, err := f.file.ReadAt(make([]byte, 1), f.off)
	return n == 0 && err == io.EOF
}

// streamToResponse copies from a socket or pipe to a response by splice, if the caller has said how long that will be.
// For a source in memory, it sets that length for the caller.
func (c *copying) streamToResponse(src io.Reader, limit int64) error {
	h := c.response.Header()
	declare(h, sizeInMemory(c.src))
	n := promised(h)
	if n == toEOF || !spliceable(src) {
		return errUnhandled
	}
	c.alarm.set()
	r := responseOf(c.response)
	r.begin()
	if r.inner == nil {
		return errUnhandled
	}
	s := &streamRange{ctx: c.ctx, tally: &c.tally, src: src, left: min(limit, n)}
	if _, err := r.inner.ReadFrom(s); err != nil || s.left > 0 || limit <= n {
		return err
	}
	// The end of the source is waited for, as without a Content-Length.
	switch got, err := io.ReadFull(src, make([]byte, 1)); {
	case got > 0:
		c.probed = 1
		return http.ErrContentLength
	case err != io.EOF:
		return err
	}
	return nil
}

// A streamRange is a socket or pipe as the source of a response: see fileRange for how it gets to the connection.
type streamRange struct {
	ctx   context.Context
	tally *tally
	src   io.Reader
	left  int64
}

// Read implements io.Reader.
func (s *streamRange) Read(p []byte) (int, error) {
	n, err := s.read(p)
	s.tally.add(&s.tally.Copied, int64(n))
	return n, err
}

// read is Read for callers that do the counting.
func (s *streamRange) read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.EOF
	}
	n, err := s.src.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// WriteTo implements io.WriterTo.
func (s *streamRange) WriteTo(w io.Writer) (int64, error) {
	before := s.tally.Bytes
	err := spliceTo(s.ctx, s.tally, nil, w, s.src, s.left)
	s.left -= s.tally.Bytes - before
	if err == errUnhandled {
		err = copyBlocks(s.ctx, s.tally, w, s.read, copyBlock, nil)
	}
	if err == io.EOF {
		err = nil
	}
	return s.tally.Bytes - before, err
}

// declare sets the Content-Length of a response to size bytes, and reports whether it did: not if size is 0, or if its
// header says how long it is in another way. A header that was written before is not affected.
func declare(h http.Header, size int64) bool {
	if size == 0 {
		return false
	}
	for _, key := range []string{"Content-Length", "Transfer-Encoding", "Content-Encoding", "Trailer"} {
		if len(h[key]) > 0 {
			return false
		}
	}
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	return true
}

// promised returns what a header says the length of the body is, or toEOF.
func promised(h http.Header) int64 {
	if n, err := strconv.ParseUint(h.Get("Content-Length"), 10, 63); err == nil {
		return int64(n)
	}
	return toEOF
}
