package chunk

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

// A CopyOption changes what [Copy] does.
type CopyOption func(*tally)

// Progress has f called, on Copy's goroutine, each time that bytes were moved, with the number of bytes moved so far.
// Where Copy moves them itself, that is after every megabyte at the latest. Where the source or the target does (an
// io.WriterTo or io.ReaderFrom that Copy does not know), it is once, at the end. f must neither read from src nor write
// to dst.
func Progress(f func(bytes int64)) CopyOption {
	if f == nil {
		panic("chunk: Progress(nil)")
	}
	return func(t *tally) { t.progress = f }
}

// Copy copies from src to dst until the end of src, like io.Copy, and returns how many bytes went which way. It borrows
// both. At the end of src it returns no error.
//
// Where it can, the kernel moves the bytes without passing them through this process's memory:
//
//	from                to                                      by
//	file                TCP, Unix stream socket, pipe           sendfile
//	file                file                                    copy_file_range
//	TCP, Unix           TCP, Unix, pipe, file                   splice
//	pipe                Unix, pipe, file                        splice
//	file, from 32 KiB   http.ResponseWriter of HTTP/1, no TLS   sendfile
//	TCP, Unix           the same, with a Content-Length         splice
//
// where a file may be in an *io.LimitedReader or an *io.SectionReader, a socket or a pipe in an *io.LimitedReader, and
// net/http's http.ResponseWriter in others that have Unwrap() http.ResponseWriter. One of these that has ReadFrom as well
// is given the source. One that only has Unwrap is made to write the header, and then bypassed: the body goes by what it
// wraps. It is not bypassed if it would change the body, as its header shows (a Content-Encoding or a Vary:
// Accept-Encoding that it sets, a Content-Length that it removes), or if it keeps the header until there is a first byte.
// A wrapper without Unwrap gets the body by Write, and so does one of whatever is not net/http's.
//
// Where the size is known (a regular file, or memory) and the header is not written, has no length and names no Trailer,
// Copy sets the response's Content-Length, without which net/http cuts the body into chunks and copies it. That is the
// length of src: a handler that wants to write more writes the header first, or copies an io.MultiReader. Over HTTP/1, a
// response is never sent more than its Content-Length, whoever has set it and whatever was written before: if src has
// more, the error is http.ErrContentLength. Over HTTP/2, and to what is not net/http's, it is for Write to refuse it. If
// a file turns out to have less than was declared for it, the error is io.ErrUnexpectedEOF.
//
// What is left of a file of less than 32 KiB is written to the response, or to what wraps it, in one piece: that costs less
// than to have it sent. A part of a file, in a LimitedReader or SectionReader, is sent if it is longer than 3 KiB, and so is
// a file that somebody else's ReadFrom gets. The end of what is written may stay in net/http's buffer until the handler
// returns or flushes. A part of a socket, in a LimitedReader, that goes to another is read and written as well if it is up
// to 16 KiB long.
//
// Otherwise blocks are borrowed from millrace.DefaultPool; and a file that comes from a disk, to a target that takes its
// time as well, is read ahead. An io.WriterTo or io.ReaderFrom of any other kind copies by itself.
//
// When ctx ends before everything has been copied, so does Copy, with ctx's error. It ends at once if what it waits for
// has deadlines (SetReadDeadline of src, SetWriteDeadline of dst, or those of the http.ResponseController), and
// otherwise after the Read or Write that is under way. For that the deadline is set to the past. Afterwards it is taken
// away, so that one of the caller's own has to be set again. But the deadline of a response that is not complete stays,
// because its connection must not be used for another one. If ctx does not end, Copy does not touch deadlines.
//
// On an error, some bytes that dst did not take may have been read from a stream. The position of a file is right after
// the bytes that dst took.
func Copy(ctx context.Context, dst io.Writer, src io.Reader, opts ...CopyOption) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	c := copyings.Get().(*copying)
	dst, src = bare(dst), bare(src)
	c.ctx, c.dst, c.src = ctx, dst, src
	for _, opt := range opts {
		opt(&c.tally)
	}
	c.response, _ = dst.(http.ResponseWriter)
	c.before = readFrom(src)
	c.alarm.prepare(ctx, dst, src)
	complete, returns := false, false
	defer func() { // also when src, dst or the progress panics
		c.alarm.stop(complete)
		if returns {
			c.free()
		}
	}()
	err := c.closed(c.run())
	if err != nil && ctx.Err() != nil {
		if c.isComplete(err) {
			err = nil
		} else {
			err = ctx.Err()
		}
	}
	complete, returns = err == nil, true
	return c.tally.Report, err
}

// A copying is one call of Copy. They are kept between calls, because a small piece is copied in little more time than it
// takes to make one.
//
// Invariant: one that is kept has nothing of any call, and nobody else has it or a part of it.
type copying struct {
	ctx      context.Context
	dst      io.Writer
	response http.ResponseWriter // dst, or nil
	src      io.Reader
	before   int64 // readFrom(src) when it began
	tally    tally
	alarm    alarm
	file     fileSource  // if src is one
	stream   streamRange // if src is one, and dst a response
	probed   int64       // bytes of src that were read to see whether there are any
	probe    [1]byte     // what they are read into
	room     int64       // bytes that the response may have; if there is one
	lent     bool        // somebody unknown has got file or stream, and may have kept it
}

var copyings = sync.Pool{New: func() any { return new(copying) }}

// free keeps c for another call. Not if somebody may still use it: a target's ReadFrom that reads on behind Copy's back
// would get what another call copies.
func (c *copying) free() {
	if c.lent || c.alarm.mayBeRinging() {
		return
	}
	hook := c.alarm.hook
	*c = copying{}
	c.alarm.hook = hook
	copyings.Put(c)
}

// run copies in the first way that the ends allow. One that turns out not to be possible leaves the rest to the next.
func (c *copying) run() error {
	if c.response == nil {
		if err := c.direct(); err != errUnhandled {
			return err
		}
	}
	if err := c.positioned(); err != errUnhandled {
		return err
	}
	inner, limit := unlimited(c.src)
	before := c.tally.Bytes
	var err error
	if c.response != nil {
		err = c.streamToResponse(inner, limit)
	} else {
		err = spliceTo(c.ctx, &c.tally, &c.alarm, c.dst, inner, limit)
	}
	if l, ok := c.src.(*io.LimitedReader); ok {
		l.N = limit - (c.tally.Bytes - before) - c.probed
	}
	if err != errUnhandled {
		return err
	}
	return c.unknown()
}

// positioned copies from a file that can be read at any position.
func (c *copying) positioned() error {
	f := &c.file
	if !f.find(c.ctx, &c.tally, c.src) {
		return errUnhandled
	}
	mode, size, err := look(f.file)
	if err != nil || !seekable(mode) {
		return errUnhandled
	}
	if err := c.smallToResponse(size); err != errUnhandled {
		return err
	}
	if !f.locate(size) {
		return errUnhandled
	}
	c.alarm.of = nil // it has no deadlines
	err = c.fromFile(f)
	if settled := f.settle(); err == nil {
		err = settled
	}
	return err
}

// unlimited returns what src reads from, and how many bytes at most.
func unlimited(src io.Reader) (io.Reader, int64) {
	if l, ok := src.(*io.LimitedReader); ok {
		return l.R, max(l.N, 0)
	}
	return src, toEOF
}

// direct has a file's bytes moved to a connection or, from its position on, to another file. It asks nothing before: the
// kernel says if it cannot, and what it moves advances the file's position. For small files every system call counts.
func (c *copying) direct() error {
	f := &c.file
	if !f.find(c.ctx, &c.tally, c.src) {
		return errUnhandled
	}
	f.own, f.alarm = !f.shared, &c.alarm
	var err error
	switch dst := c.dst.(type) {
	case *os.File:
		if f.shared {
			return errUnhandled // it has to be looked at first, whether they are the same file
		}
		err = f.toFile(dst)
	case *net.TCPConn, *net.UnixConn:
		err = f.sendTo(dst)
	default:
		return errUnhandled
	}
	if settled := f.settle(); err == nil {
		err = settled
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// fromFile copies from a file whose kind and position are known.
func (c *copying) fromFile(f *fileSource) error {
	if c.response != nil {
		c.alarm.set()
		return c.fileToResponse(f)
	}
	if dst, ok := c.dst.(*os.File); ok && modeOf(dst).IsRegular() { // nor has that
		if f.size > 0 && f.size < f.end-f.off && isSame(f.file, dst) {
			f.end = f.off + f.size // otherwise it could grow as it is copied
		}
		err := errUnhandled
		if f.shared { // otherwise direct has tried
			err = f.toFile(dst)
		}
		if err != errUnhandled {
			return err
		}
		return f.copyAhead(dst)
	}
	c.alarm.set()
	err := f.sendTo(c.dst)
	if err == io.EOF {
		return nil
	}
	if err != errUnhandled {
		return err
	}
	if rf, ok := c.dst.(io.ReaderFrom); ok && !isOwn(c.dst) {
		c.lent = true
		return f.readInto(rf)
	}
	return f.copyAhead(c.dst)
}

// unknown copies what the kernel cannot.
func (c *copying) unknown() error {
	c.alarm.set()
	if wt, ok := c.src.(io.WriterTo); ok && !isOwn(c.src) {
		dst := c.dst
		if c.response != nil {
			dst = byWrite{c.response}
		}
		n, err := wt.WriteTo(dst)
		c.tally.add(&c.tally.Copied, n)
		return err
	}
	if rf, ok := c.dst.(io.ReaderFrom); ok && !isOwn(c.dst) {
		n, err := rf.ReadFrom(c.src)
		c.tally.add(&c.tally.Copied, n)
		return err
	}
	size := int64(copyBlock)
	if l, ok := c.src.(*io.LimitedReader); ok {
		size = max(min(size, l.N), 1)
	}
	err := copyBlocks(c.ctx, &c.tally, c.dst, c.src.Read, size, nil)
	if err == io.EOF {
		return nil
	}
	return err
}

// isComplete reports whether everything had been copied already when the end of the context caused err. It often ends
// then: a client that has got all of a response closes the connection.
func (c *copying) isComplete(err error) bool {
	if !errors.Is(err, c.ctx.Err()) && !errors.Is(err, os.ErrDeadlineExceeded) { // net/http wraps both
		return false
	}
	if c.response != nil && c.tally.Bytes > 0 && c.tally.Bytes == c.room {
		return true
	}
	// A source that counts what is read from it is at its end before Copy is, when the last bytes have not been taken yet.
	read := readFrom(c.src) - c.before
	return isAtEnd(c.src) && (read == 0 || read == c.tally.Bytes)
}

// closed returns err, or the error of a Read or Write if err says that a file is closed the way that its SyscallConn does,
// which errors.Is does not know.
func (c *copying) closed(err error) error {
	if err == nil {
		return nil
	}
	src, _ := unlimited(c.src)
	if s, ok := src.(*io.SectionReader); ok {
		outer, _, _ := s.Outer()
		src, _ = outer.(io.Reader)
	}
	for _, end := range []struct {
		op string
		of any
	}{{"read", src}, {"write", c.dst}} {
		f, ok := end.of.(*os.File)
		if !ok {
			continue
		}
		raw, connErr := f.SyscallConn()
		if connErr == nil && raw.Control(func(uintptr) {}) == err {
			return &os.PathError{Op: end.op, Path: f.Name(), Err: os.ErrClosed}
		}
	}
	return err
}

// isOwn reports whether x is of a kind whose own ways of copying Copy has better ones for.
func isOwn(x any) bool {
	switch x.(type) {
	case *net.TCPConn, *net.UnixConn, *os.File, http.ResponseWriter:
		return true
	}
	return false
}
