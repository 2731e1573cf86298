package chunk

import (
	"context"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/millrace-io/millrace"
)

// declaredByCopy stands behind the end of a Content-Length that Copy has set, where only Copy looks.
const declaredByCopy = "set by chunk.Copy"

// smallFile is how long a file may be for one read and one write of it to cost less than having the kernel send it.
const smallFile = copyBlock - 1

// smallToResponse copies all that is left of a small file. That is read first, and so it is known where it ends: its
// position need not be asked for, nor set, nor what is behind it looked at, which for so few bytes is a tenth of all. It
// returns errUnhandled, and leaves the position where it was, if the source is not such a file, or has become longer than
// size, or if somebody else's ReadFrom is to get it.
func (c *copying) smallToResponse(size int64) error {
	file, ok := c.src.(*os.File)
	if !ok || c.response == nil || size <= 0 || size > smallFile {
		return errUnhandled
	}
	r := responseOf(c.response)
	if r.lends() {
		return errUnhandled
	}
	block := millrace.DefaultPool.Get(int(size) + 1)
	defer block.Release()
	n, err := readSmall(file, block.Bytes())
	sent := 0
	defer func() { // also when the response panics
		if sent < n {
			_, _ = file.Seek(int64(sent-n), io.SeekCurrent)
		}
	}()
	switch {
	case n == 0 && err != nil:
		return err
	case err != nil || n > int(size):
		return errUnhandled
	}
	c.alarm.of = nil // it has no deadlines
	c.alarm.set()
	c.begin(&r, int64(n))
	if err := c.ctx.Err(); err != nil || n == 0 {
		return err
	}
	most := int(min(c.room, int64(n)))
	sent, err = writeAll(r.w, block.Bytes()[:most])
	c.countSmall(&r, int64(sent))
	c.tally.add(&c.tally.Copied, int64(sent))
	if err == nil && most < n {
		err = http.ErrContentLength
	}
	return err
}

// readSmall reads a file that is shorter than buf from its position to its end. That is where it was said to be, and
// otherwise where there is nothing more to read.
func readSmall(file *os.File, buf []byte) (n int, err error) {
	for n != len(buf)-1 && n != len(buf) && err == nil {
		var got int
		got, err = file.Read(buf[n:])
		n += got
	}
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// begin begins a body, or the next part of one, that is size bytes long, and finds out how much room there is. It reports
// whether that length is declared by it.
func (c *copying) begin(r *response, size int64) (exact bool) {
	exact = r.declare(size)
	r.begin()
	if c.room = r.room(); exact {
		c.room = min(c.room, size) // also if a wrapper has taken the length away
	}
	return exact
}

// fileToResponse sends f as the body of the response, or as the next part of it.
func (c *copying) fileToResponse(f *fileSource) error {
	r := responseOf(c.response)
	f.exact = c.begin(&r, f.size)
	end := f.end
	if c.room < f.end-f.off {
		f.end = f.off + c.room
	}
	var err error
	if 0 < f.size && f.size <= smallBody {
		before := c.tally.Copied
		err = f.copyTo(r.w)
		c.countSmall(&r, c.tally.Copied-before)
	} else {
		c.lent = r.lends()
		err = r.send(&f.fileRange)
	}
	if err == nil && f.off == f.end && f.end < end && !f.isAtEnd(end, &c.probe) {
		err = http.ErrContentLength
	}
	return err
}

// countSmall notes that of what is copied to r, n bytes could have been sent.
func (c *copying) countSmall(r *response, n int64) {
	if r.inner != nil && c.room != toEOF {
		c.tally.Small += n
	}
}

// isAtEnd reports whether the file has nothing more before end. It reads a byte of it into probe to see.
func (f *fileRange) isAtEnd(end int64, probe *[1]byte) bool {
	if f.off >= end {
		return true
	}
	n, err := f.file.ReadAt(probe[:], f.off)
	return n == 0 && err == io.EOF
}

// streamToResponse copies from a socket or pipe to a response by splice, if the caller has said how long that will be.
// For a source in memory, it sets that length for the caller.
func (c *copying) streamToResponse(src io.Reader, limit int64) error {
	r := responseOf(c.response)
	r.declare(sizeInMemory(c.src))
	c.room = r.room()
	if c.room == toEOF || r.inner == nil || !spliceable(src) {
		return errUnhandled
	}
	c.alarm.set()
	r.begin()
	if r.inner == nil {
		return errUnhandled
	}
	c.room = r.room()
	c.lent = r.lends()
	s := &c.stream
	*s = streamRange{ctx: c.ctx, tally: &c.tally, src: src, left: min(limit, c.room), server: r.server}
	err := r.sealed(func() error {
		_, err := r.inner.ReadFrom(s)
		return err
	})
	if err != nil || s.left > 0 || limit <= c.room {
		return err
	}
	// The end of the source is waited for, as without a Content-Length.
	switch got, err := io.ReadFull(src, c.probe[:]); {
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

	server serverResponse
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
	s.left = min(s.left, s.server.room())
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

// declare sets the Content-Length to size bytes, in place of one that an earlier Copy set and that was never sent. It
// reports whether it did: not if size is 0, if the header says how long the body is in another way, or if it is known to
// have been written.
func (r *response) declare(size int64) bool {
	if r.server.hasHeader() {
		return false
	}
	h := r.w.Header()
	if isDeclaredByCopy(h["Content-Length"]) {
		delete(h, "Content-Length")
	}
	if size == 0 {
		return false
	}
	for _, key := range []string{"Content-Length", "Transfer-Encoding", "Content-Encoding", "Trailer"} {
		if len(h[key]) > 0 {
			return false
		}
	}
	h["Content-Length"] = []string{strconv.FormatInt(size, 10), declaredByCopy}[:1]
	return true
}

// isDeclaredByCopy reports whether a Content-Length is an earlier Copy's. It is not a promise of the caller's, and if the
// header had been written before that Copy, it was never sent. Where a header is copied, that may be forgotten.
func isDeclaredByCopy(length []string) bool {
	return len(length) == 1 && cap(length) > 1 && length[:2][1] == declaredByCopy
}

// promised returns what a header that is not written yet will say the length of the body is, or toEOF: as net/http reads
// it.
func promised(h http.Header) int64 {
	length := h["Content-Length"]
	if len(length) == 0 {
		return toEOF
	}
	if n, err := strconv.ParseInt(length[0], 10, 64); err == nil && n >= 0 {
		return n
	}
	return toEOF
}
