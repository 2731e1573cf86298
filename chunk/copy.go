package chunk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
)

const (
	// copyBlock is the size of reads and writes when the kernel cannot move the bytes. It is large
	// enough that a system call costs less than moving its bytes. It is small enough that the bytes
	// stay in the processor's caches between read and write.
	copyBlock = 32 << 10

	// fileStep is the number of bytes that are copied from file to file before Copy checks its
	// context. A file system that does not share blocks needs some ten milliseconds for that many
	// bytes.
	fileStep = 16 << 20

	// kernelSplices reports whether the standard library splices connections and uses
	// copy_file_range.
	kernelSplices = runtime.GOOS == "linux"
)

var errBadCount = errors.New("chunk: the writer returned an invalid count")

// Copy copies from src to dst until the end of src, like io.Copy, and returns a Report of the
// number of bytes and of the way they were moved. It borrows both. At the end of src it returns no
// error.
//
// The kernel moves the bytes wherever io.Copy lets it: from a file or a connection to a TCP
// connection, from a TCP connection to a Unix socket, from a file or a connection to a file. Copy
// also does this for wrapped responses. If dst is an http.ResponseWriter without ReadFrom, Copy
// looks for ReadFrom in the result of Unwrap() http.ResponseWriter. It lets dst write the header
// and sends the body through the inner response, so the wrapper does not see the body. Copy does
// not bypass a wrapper whose header shows that it encodes the body: a Content-Encoding, a Vary:
// Accept-Encoding, or a Content-Length that it has changed. A wrapper that must see the body has
// ReadFrom, or no Unwrap.
//
// If src is a regular file or memory and the response has no Content-Length, Copy sets it to the
// length of src. It does so because net/http copies a body without one. To write more after src,
// write the header first. If src has more than the response's Content-Length, Copy sends no more
// than that and returns http.ErrContentLength. It does not know of bytes that were written to the
// response before. If a file has less, the error is io.ErrUnexpectedEOF.
//
// In all other cases the bytes pass through a pooled block, or the copy is left to the WriteTo of
// src or the ReadFrom of dst.
//
// When ctx ends, Copy returns ctx's error. To end a blocked Read or Write, it sets a deadline in
// the past, with the methods SetReadDeadline of src and SetWriteDeadline of dst, or those of the
// http.ResponseController. Afterwards it removes the deadline, so the caller must set its own
// again. An incomplete response keeps the deadline, so that its connection is not used again. If
// src or dst has no such method, Copy returns after the current Read or Write. Copy sets no
// deadlines before ctx ends.
//
// After an error, a src that is a file is positioned directly after the bytes that dst took. From
// any other src, Copy may have read more bytes than dst took.
func Copy(ctx context.Context, dst io.Writer, src io.Reader) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	c := copying{ctx: ctx}
	inner, _ := unlimited(src)
	c.file, _ = inner.(*os.File)
	complete := false
	if ctx.Done() != nil {
		defer func() { c.waits.stop(complete) }() // also when dst or src panics
		c.begin(dst, src)
	}
	var err error
	if w, ok := dst.(http.ResponseWriter); ok {
		err = c.toResponse(w, src)
	} else {
		err = c.to(dst, src)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	complete = err == nil
	return c.report, err
}

// copying is the state of one call of Copy.
type copying struct {
	ctx    context.Context
	report Report
	file   *os.File // src, or the source that src limits, if it is a file or a pipe; or nil
	waits  interruption
}

// to copies to a dst that is not a response.
func (c *copying) to(dst io.Writer, src io.Reader) error {
	switch dst := dst.(type) {
	case *net.TCPConn:
		if isSeekable(c.file) {
			return c.sendFile(dst, src)
		}
	case *os.File:
		if kernelSplices && isSeekable(c.file) && isSeekable(dst) {
			return c.fileToFile(dst, src)
		}
	}
	if way := c.wayBetween(dst, src); way != nil {
		n, err := io.Copy(dst, src)
		c.report.add(way, n)
		return err
	}
	if wt, ok := src.(io.WriterTo); ok && !kernelOnly(src) {
		n, err := wt.WriteTo(dst)
		c.report.add(&c.report.Copied, n)
		return err
	}
	if rf, ok := dst.(io.ReaderFrom); ok && !kernelOnly(dst) {
		n, err := rf.ReadFrom(src)
		c.report.add(&c.report.Copied, n)
		return err
	}
	return c.blocks(dst, src)
}

// wayBetween returns the field of the Report for the bytes that io.Copy lets the kernel move from
// src to dst. If io.Copy would copy the bytes itself, it returns nil. It does not handle regular
// files that are copied to TCP or to a file.
func (c *copying) wayBetween(dst io.Writer, src io.Reader) *int64 {
	inner, limit := unlimited(src)
	_, toUnix := dst.(*net.UnixConn)
	// The fast path is WriteTo, which a LimitedReader does not have.
	toUnix = toUnix && limit == math.MaxInt64
	switch src := inner.(type) {
	case *os.File:
		if toUnix && kernelSplices && isStream(dst) && isSeekable(src) {
			return &c.report.Sendfile
		}
	case *net.TCPConn:
		if kernelSplices && (splicesFrom(dst) || toUnix && isStream(dst)) {
			return &c.report.Splice
		}
	case *net.UnixConn:
		if kernelSplices && splicesFrom(dst) && isStream(src) {
			return &c.report.Splice
		}
	}
	return nil
}

// splicesFrom reports whether dst's ReadFrom splices data of a connection.
func splicesFrom(dst io.Writer) bool {
	switch dst.(type) {
	case *net.TCPConn, *os.File:
		return true
	}
	return false
}

// isStream reports whether conn is a Unix socket of the stream kind.
func isStream(conn any) bool {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	addr := u.LocalAddr()
	return addr != nil && addr.Network() == "unix"
}

// kernelOnly reports whether x is of a type whose WriteTo and ReadFrom should be used only if the
// kernel copies. Otherwise they are not worth their buffers.
func kernelOnly(x any) bool {
	switch x.(type) {
	case *net.TCPConn, *net.UnixConn, *os.File:
		return true
	}
	return false
}

// isSeekable reports whether f is a file that has a position. Regular files have one; pipes do not.
func isSeekable(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := f.Seek(0, io.SeekCurrent)
	return err == nil
}

// unlimited returns the Reader in a LimitedReader, and its limit.
func unlimited(src io.Reader) (io.Reader, int64) {
	if l, ok := src.(*io.LimitedReader); ok {
		return l.R, max(l.N, 0)
	}
	return src, math.MaxInt64
}

// A countedFile is a file that counts the bytes that Read returns. Bytes sent by sendfile are not
// counted, because sendfile uses SyscallConn.
type countedFile struct {
	file *os.File
	read int64
}

func (f *countedFile) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	f.read += int64(n)
	return n, err
}

func (f *countedFile) SyscallConn() (syscall.RawConn, error) { return f.file.SyscallConn() }

// sendFile passes the rest of the file to rf. The file is src, or src limits it.
func (c *copying) sendFile(rf io.ReaderFrom, src io.Reader) error {
	counted := countedFile{file: c.file}
	limited := io.LimitedReader{R: &counted, N: math.MaxInt64}
	l, ok := src.(*io.LimitedReader)
	if ok {
		limited.N = l.N
	}
	n, err := rf.ReadFrom(&limited)
	if ok {
		l.N = limited.N
	}
	if err != nil && counted.read > n {
		c.unread(src, counted.read-n)
	}
	c.report.addFile(n, counted.read)
	return err
}

// fileToFile copies in steps, because neither a context nor a deadline ends the standard library's
// copy_file_range.
func (c *copying) fileToFile(dst *os.File, src io.Reader) error {
	_, left := unlimited(src)
	for left > 0 {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		step := io.LimitedReader{R: c.file, N: min(left, fileStep)}
		asked := step.N
		n, err := dst.ReadFrom(&step)
		c.report.add(&c.report.CopyFileRange, n)
		if l, ok := src.(*io.LimitedReader); ok {
			l.N -= n
		}
		left -= n
		// The standard library has copied the bytes itself, and read more than it wrote.
		if read := asked - step.N; err != nil && read > n {
			_, _ = c.file.Seek(n-read, io.SeekCurrent)
		}
		if err != nil || n < asked {
			return err
		}
	}
	return nil
}

// blocks copies through a pooled block.
func (c *copying) blocks(dst io.Writer, src io.Reader) error {
	_, limit := unlimited(src)
	block := millrace.DefaultPool().Get(int(max(min(limit, copyBlock), 1)))
	defer block.Release()
	for buf := block.Bytes(); ; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n, err := src.Read(buf)
		if n > 0 {
			taken, err := writeAll(dst, buf[:n])
			c.report.add(&c.report.Copied, int64(taken))
			if err != nil {
				c.unread(src, int64(n-taken))
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// unread moves the position of a file back by the n bytes that dst did not take.
func (c *copying) unread(src io.Reader, n int64) {
	if c.file == nil {
		return
	}
	if _, err := c.file.Seek(-n, io.SeekCurrent); err != nil {
		return // a pipe, which has no position
	}
	if l, ok := src.(*io.LimitedReader); ok {
		l.N += n
	}
}

// writeAll writes p and returns the number of bytes that w took, with an error if that is not
// len(p).
func writeAll(w io.Writer, p []byte) (int, error) {
	n, err := w.Write(p)
	if n < 0 || n > len(p) {
		return 0, errBadCount
	}
	if n < len(p) && err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}

// toResponse copies to a response.
func (c *copying) toResponse(w http.ResponseWriter, src io.Reader) error {
	h := w.Header()
	_, direct := w.(io.ReaderFrom)
	encoded := !direct && encodes(h)
	size := sizeOf(src)
	if size > 0 && !encoded && h.Get("Content-Length") == "" && len(h["Trailer"]) == 0 &&
		len(h["Transfer-Encoding"]) == 0 {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	head := headOf(h)
	room, err := strconv.ParseInt(head.length, 10, 64)
	if err != nil {
		room = -1
	}
	inner, limit := unlimited(src)
	var rf io.ReaderFrom
	if room >= 0 && !encoded && (c.file != nil && size > 0 || isConn(inner)) {
		rf = unwrapBody(w, head)
	}
	if rf == nil {
		err := c.to(plainResponse{w}, src) // w's Write checks the Content-Length itself
		if c.report.Bytes == room && c.ctx.Err() != nil {
			// If a client has received the whole response, it may close the connection. This ends
			// the context of the request, but the copy has succeeded.
			return nil
		}
		return err
	}
	part := io.LimitedReader{R: inner, N: min(limit, room)}
	if c.file != nil {
		err = c.sendFile(rf, &part)
	} else {
		var n int64
		n, err = rf.ReadFrom(&part)
		c.report.add(&c.report.Splice, n)
	}
	sent := c.report.Bytes
	if l, ok := src.(*io.LimitedReader); ok {
		l.N -= sent
	}
	switch {
	case err != nil:
		return err
	case sent == room:
		return c.tooLong(src)
	case sent < min(size, room):
		return io.ErrUnexpectedEOF
	}
	return nil
}

// tooLong returns http.ErrContentLength if src has another byte. It ignores an error of src,
// because the response is complete.
func (c *copying) tooLong(src io.Reader) error {
	var p [1]byte
	if n, _ := src.Read(p[:]); n > 0 {
		c.unread(src, 1)
		return http.ErrContentLength
	}
	return nil
}

// isConn reports whether src is a connection that the standard library splices to a TCP connection.
func isConn(src io.Reader) bool {
	_, isTCP := src.(*net.TCPConn)
	return kernelSplices && (isTCP || isStream(src))
}

// sizeOf returns the number of bytes that src has, or 0 if the number is not known.
func sizeOf(src io.Reader) int64 {
	switch s := src.(type) {
	case *bytes.Reader:
		return int64(s.Len())
	case *bytes.Buffer:
		return int64(s.Len())
	case *strings.Reader:
		return int64(s.Len())
	case *millrace.ChainReader:
		return int64(s.Len())
	case *io.LimitedReader:
		return min(sizeOf(s.R), max(s.N, 0))
	case *os.File:
		at, err := s.Seek(0, io.SeekCurrent)
		if err != nil {
			return 0
		}
		if info, err := s.Stat(); err == nil && info.Mode().IsRegular() {
			return max(info.Size()-at, 0)
		}
	}
	return 0
}

// A writeWaker is a target whose waiting Write can be ended from another goroutine.
type writeWaker interface {
	SetWriteDeadline(t time.Time) error
}

// An interruption ends a blocked Read or Write of a Copy when the Copy's context ends.
type interruption struct {
	src        waker      // or nil
	dst        writeWaker // or nil
	isResponse bool
	unhook     func() bool // nil if nothing can be interrupted

	mu   sync.Mutex
	over bool // the Copy has returned; guarded by mu
}

// begin arranges that the end of the context interrupts the Copy. waits.stop undoes this.
func (c *copying) begin(dst io.Writer, src io.Reader) {
	i := &c.waits
	i.src = wakerOf(src)
	switch dst := dst.(type) {
	case http.ResponseWriter:
		// An http.ResponseController would follow a faulty wrapper forever.
		i.dst, _ = within[writeWaker](dst)
		i.isResponse = true
	case writeWaker:
		i.dst = dst
	}
	if i.src != nil || i.dst != nil {
		i.unhook = context.AfterFunc(c.ctx, i.interrupt)
	}
}

// interrupt sets the deadlines. It runs in a separate goroutine when ctx ends.
func (i *interruption) interrupt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.over {
		i.setDeadlines(longAgo, longAgo)
	}
}

func (i *interruption) setDeadlines(read, write time.Time) {
	if i.src != nil {
		// A src or dst without deadlines, such as a regular file, is not interrupted.
		_ = i.src.SetReadDeadline(read)
	}
	if i.dst != nil {
		_ = i.dst.SetWriteDeadline(write)
	}
}

// stop removes the deadlines if ctx has ended. An incomplete response keeps a deadline in the past,
// because net/http could otherwise end the body as if it were complete.
func (i *interruption) stop(complete bool) {
	if i.unhook == nil || i.unhook() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	write := noDeadline
	if i.isResponse && !complete {
		write = longAgo
	}
	i.setDeadlines(noDeadline, write)
}
