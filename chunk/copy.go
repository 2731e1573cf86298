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
	// copyBlock is the number of bytes in each read and write when the kernel cannot move the
	// bytes. A block of this size stays in the processor's caches between its read and its write.
	copyBlock = 32 << 10

	// fileStep is the number of bytes copied from file to file between two checks of the context.
	fileStep = 16 << 20

	// kernelSplices reports whether the standard library uses splice for connections and
	// copy_file_range for files.
	kernelSplices = runtime.GOOS == "linux"
)

var errBadCount = errors.New("chunk: the writer returned an invalid count")

// Copy copies from src to dst until the end of src, like io.Copy. It borrows src and dst. The
// Report says how many bytes were moved, and how. At the end of src, Copy returns no error.
//
// The kernel moves the bytes wherever io.Copy lets it: from a file or a connection to a TCP
// connection, from a file or a TCP connection to a Unix socket, and from a file or a connection to
// a file. If the kernel cannot move the bytes, Copy uses the WriteTo of src or the ReadFrom of dst,
// or copies the bytes through a block of pooled memory.
//
// # Middleware
//
// If dst is an http.ResponseWriter without ReadFrom, it may be a wrapper that a middleware has
// made. Copy then calls the wrapper's method Unwrap() http.ResponseWriter to find an inner response
// with ReadFrom. Copy makes the wrapper write the header. Then it sends the body directly to the
// inner response, so the wrapper does not see the body.
//
// If a wrapper must see the body, it needs a ReadFrom method or no Unwrap method. Copy does not
// bypass a wrapper that seems to encode the body. The signs of such a wrapper are a
// Content-Encoding, a Vary: Accept-Encoding or a changed Content-Length in the header. A wrapper
// that writes its status only with the first bytes of the body must not have an Unwrap method,
// because the status would be lost.
//
// # Content-Length
//
// If the response has no Content-Length and src is a regular file or memory, Copy sets
// Content-Length to the length of src, because the kernel moves only bodies with a Content-Length.
// To write other bytes too, call WriteHeader, or set the Content-Length of the whole body, before
// Copy.
//
// If src is longer than the Content-Length, Copy stops at that length and returns
// http.ErrContentLength. If src is a file that is shorter than the Content-Length, Copy returns
// io.ErrUnexpectedEOF. For these rules, Copy ignores bytes that the caller wrote to the response
// before Copy.
//
// # The end of ctx
//
// When ctx ends, Copy returns ctx's error. To end a blocked Read or Write, Copy sets a deadline in
// the past: it calls SetReadDeadline on src and SetWriteDeadline on dst (for a response, as
// http.ResponseController does). If src or dst does not have the method, Copy returns after the
// current Read or Write.
//
// Copy sets no deadlines before ctx ends. Before it returns, it removes the deadlines that it has
// set, so the caller must set its own deadlines again. The write deadline of an incomplete response
// stays, so that net/http does not use the connection for another response.
//
// # Errors
//
// If src is a file, its position after an error is directly after the bytes that dst has accepted.
// From any other src, Copy may have read more bytes than dst has accepted.
func Copy(ctx context.Context, dst io.Writer, src io.Reader) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	c := copying{ctx: ctx}
	inner, _ := unwrapLimited(src)
	c.file, _ = inner.(*os.File)
	complete := false
	if ctx.Done() != nil {
		defer func() { c.waits.stop(complete) }() // even if dst or src panics
		c.watchContext(dst, src)
	}
	var err error
	if w, ok := dst.(http.ResponseWriter); ok {
		err = c.toResponse(w, src)
	} else {
		err = c.toWriter(dst, src)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	complete = err == nil
	return c.report, err
}

type copying struct {
	ctx    context.Context
	report Report
	file   *os.File // src, or the file inside an io.LimitedReader; may be nil
	waits  interruption
}

func (c *copying) toWriter(dst io.Writer, src io.Reader) error {
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
	if counter := c.kernelCounter(dst, src); counter != nil {
		n, err := io.Copy(dst, src)
		c.report.add(counter, n)
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
	return c.copyThroughMemory(dst, src)
}

// kernelCounter returns the counter for io.Copy(dst, src), or nil if the kernel does not move the
// bytes.
func (c *copying) kernelCounter(dst io.Writer, src io.Reader) *int64 {
	inner, limit := unwrapLimited(src)
	_, toUnix := dst.(*net.UnixConn)
	// io.Copy can send to a Unix socket only if src has WriteTo, which an io.LimitedReader does not
	// have.
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

func splicesFrom(dst io.Writer) bool {
	switch dst.(type) {
	case *net.TCPConn, *os.File:
		return true
	}
	return false
}

// isStream reports whether conn is a Unix stream socket.
func isStream(conn any) bool {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	addr := u.LocalAddr()
	return addr != nil && addr.Network() == "unix"
}

// kernelOnly reports whether x is a connection or a file. Its WriteTo or ReadFrom allocates a
// buffer if the kernel cannot move the bytes.
func kernelOnly(x any) bool {
	switch x.(type) {
	case *net.TCPConn, *net.UnixConn, *os.File:
		return true
	}
	return false
}

// isSeekable reports whether f has a position, as regular files do and pipes do not.
func isSeekable(f *os.File) bool {
	if f == nil {
		return false
	}
	_, err := f.Seek(0, io.SeekCurrent)
	return err == nil
}

// unwrapLimited removes an io.LimitedReader from src. It returns the Reader inside and the number
// of bytes left. If src is not an io.LimitedReader, it returns src and math.MaxInt64.
func unwrapLimited(src io.Reader) (io.Reader, int64) {
	if l, ok := src.(*io.LimitedReader); ok {
		return l.R, max(l.N, 0)
	}
	return src, math.MaxInt64
}

// A countedFile counts the bytes that Read returns, but not the bytes that sendfile sends.
type countedFile struct {
	file contentFile
	read int64
}

func (f *countedFile) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	f.read += int64(n)
	return n, err
}

func (f *countedFile) SyscallConn() (syscall.RawConn, error) {
	file, ok := f.file.(*os.File)
	if !ok {
		return nil, os.ErrInvalid
	}
	return file.SyscallConn()
}

// sendFile sends c.file to rf, from the current position of the file. The argument src must be
// c.file, or an io.LimitedReader that contains it.
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
		c.seekBack(src, counted.read-n)
	}
	c.report.addFile(n, counted.read)
	return err
}

// fileToFile copies c.file to dst. It copies in steps and checks the context before each step,
// because nothing can interrupt copy_file_range.
func (c *copying) fileToFile(dst *os.File, src io.Reader) error {
	_, left := unwrapLimited(src)
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
		// Without copy_file_range, ReadFrom may have read more bytes than it wrote.
		if read := asked - step.N; err != nil && read > n {
			_, _ = c.file.Seek(n-read, io.SeekCurrent)
		}
		if err != nil || n < asked {
			return err
		}
	}
	return nil
}

func (c *copying) copyThroughMemory(dst io.Writer, src io.Reader) error {
	_, limit := unwrapLimited(src)
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
				c.seekBack(src, int64(n-taken))
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

// seekBack moves the position of c.file back by n bytes, which dst did not accept.
func (c *copying) seekBack(src io.Reader, n int64) {
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

func (c *copying) toResponse(w http.ResponseWriter, src io.Reader) error {
	h := w.Header()
	_, direct := w.(io.ReaderFrom)
	encoded := !direct && mayEncode(h)
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
	inner, limit := unwrapLimited(src)
	var rf io.ReaderFrom
	if room >= 0 && !encoded && (c.file != nil && size > 0 || canSplice(inner)) {
		rf = unwrapBody(w, head)
	}
	if rf == nil {
		err := c.toWriter(plainResponse{w}, src) // w's Write checks the Content-Length itself
		if c.report.Bytes == room && c.ctx.Err() != nil {
			// The client may have received the whole response and closed the connection, which ends
			// the context of the request. The copy has still succeeded.
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
		return c.checkLength(src)
	case sent < min(size, room):
		return io.ErrUnexpectedEOF
	}
	return nil
}

// checkLength returns http.ErrContentLength if src has another byte. It ignores an error from src,
// because the response is complete.
func (c *copying) checkLength(src io.Reader) error {
	var p [1]byte
	if n, _ := src.Read(p[:]); n > 0 {
		c.seekBack(src, 1)
		return http.ErrContentLength
	}
	return nil
}

func canSplice(src io.Reader) bool {
	_, isTCP := src.(*net.TCPConn)
	return kernelSplices && (isTCP || isStream(src))
}

// sizeOf returns the number of bytes left in src, or 0 if it is unknown.
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
		offset, err := s.Seek(0, io.SeekCurrent)
		if err != nil {
			return 0
		}
		if info, err := s.Stat(); err == nil && info.Mode().IsRegular() {
			return max(info.Size()-offset, 0)
		}
	}
	return 0
}

type writeWaker interface {
	SetWriteDeadline(t time.Time) error
}

type interruption struct {
	src        waker      // may be nil
	dst        writeWaker // may be nil
	isResponse bool
	unhook     func() bool // cancels interrupt; nil if neither src nor dst supports deadlines

	mu   sync.Mutex
	over bool // Copy has returned; guarded by mu
}

func (c *copying) watchContext(dst io.Writer, src io.Reader) {
	i := &c.waits
	i.src = wakerOf(src)
	switch dst := dst.(type) {
	case http.ResponseWriter:
		// Do not use an http.ResponseController: it would never return if a wrapper wraps itself.
		i.dst, _ = unwrapTo[writeWaker](dst)
		i.isResponse = true
	case writeWaker:
		i.dst = dst
	}
	if i.src != nil || i.dst != nil {
		i.unhook = context.AfterFunc(c.ctx, i.interrupt)
	}
}

// interrupt sets deadlines in the past. It runs in its own goroutine when the context ends.
func (i *interruption) interrupt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.over {
		i.setDeadlines(longAgo, longAgo)
	}
}

func (i *interruption) setDeadlines(read, write time.Time) {
	if i.src != nil {
		// Ignore errors, because regular files do not support deadlines.
		_ = i.src.SetReadDeadline(read)
	}
	if i.dst != nil {
		_ = i.dst.SetWriteDeadline(write)
	}
}

// stop removes the deadlines and prevents new ones. An incomplete response keeps its write
// deadline, without which net/http could end the body as if it were complete.
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
