package chunk

import (
	"context"
	"errors"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	indexPage = "/index.html"

	// smallBody is what is copied even if it could be sent by sendfile: it fits into net/http's buffer of 4 KiB together
	// with its header, so that both leave in one write and one packet.
	smallBody = 3 << 10

	// A body of up to joinMost, or of joinAgain and more, begins in one packet with its header: that wakes the client once
	// instead of twice, and sendfile begins where a page does. Between the two, net/http sends the first 512 bytes with the
	// header. All of such a body fits into the socket's buffers, and where client and server share a machine, a client that
	// reads meanwhile does part of the sending.
	joinMost  = 64 << 10
	joinAgain = 4 << 20
)

// An exchange is one request and its answer.
//
// Invariant: 0 ≤ set ≤ len(values).
type exchange struct {
	handler *FileHandler
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context // ends when nobody wants the answer any more, see contextOf
	cancel  func()          // frees what ctx holds; or nil
	alarm   *alarm          // ends a Write at ctx's deadline; nil if it has none
	whole   bool            // all of the body was written
	header  http.Header     // of w
	body    response
	foreign bool // somebody else has set a Content-Encoding, and is going to encode the body
	movable bool // the kernel could send the body: a part that is copied all the same is Small
	status  int
	tally   tally
	warmth  warmth
	part    fileRange // what is being sent

	values [8]string // what header's slices are made of: one allocation for all, and no two responses share any
	set    int
}

// contextOf returns the context of a request's answer, and what frees it, or nil. net/http cancels the context of an
// HTTP/1 request even when a client has only said all that it is going to say (shutdown(2), as nc does), and still
// waits for its answer. Such an answer ends when it cannot be written. A deadline is never net/http's: somebody means
// it.
func contextOf(r *http.Request) (ctx context.Context, cancel func()) {
	ctx = r.Context()
	if r.ProtoMajor != 1 {
		return ctx, nil
	}
	at, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if ok {
		return context.WithDeadline(ctx, at)
	}
	return ctx, nil
}

// serve answers the request.
func (x *exchange) serve() {
	full := x.r.URL.Path
	if !strings.HasPrefix(full, "/") {
		full = "/" + full
	}
	name := strings.TrimPrefix(path.Clean(full), "/")
	if name == "" {
		name = "."
	}
	switch {
	case strings.HasSuffix(full, indexPage):
		x.redirect("./")
	case strings.HasSuffix(full, "/"):
		x.serveDirectory(name, full)
	default:
		x.serveName(name, full)
	}
}

// serveName answers with a file, or leads to its name's other form if it is a directory.
func (x *exchange) serveName(name, full string) {
	err := x.serveFile(name)
	if err == errDirectory {
		x.redirect(path.Base(full) + "/")
	} else if err != nil {
		x.fail(statusOf(err), "")
	}
}

// serveNamed answers with the file of that name, or with an error.
func (x *exchange) serveNamed(name string) {
	// On Windows, a backslash would separate elements as well, and whoever has looked at the name has not seen them.
	if _, err := filepath.Localize(name); err != nil {
		x.fail(http.StatusNotFound, "")
		return
	}
	if err := x.serveFile(name); err != nil {
		x.fail(statusOf(err), "")
	}
}

// serveDirectory answers with a directory's index.html, or with a list of what is in it.
func (x *exchange) serveDirectory(name, full string) {
	err := x.serveFile(path.Join(name, indexPage))
	if err == nil {
		return
	}
	if statusOf(err) == http.StatusInternalServerError {
		x.fail(http.StatusInternalServerError, "") // it may be there: a list would show what it hides
		return
	}
	root := x.handler.files.root
	info, err := root.Stat(name)
	switch {
	case err != nil:
		x.fail(statusOf(err), "")
	case info.Mode().IsRegular():
		x.redirect("../" + path.Base(full))
	case !info.IsDir() || !x.handler.listing:
		x.fail(http.StatusForbidden, "")
	default:
		x.list(name, info)
	}
}

// list answers with what is in a directory.
func (x *exchange) list(name string, info os.FileInfo) {
	v := validators{modified: info.ModTime()}
	// Only this condition: a list has no parts, and nobody writes to it.
	since := x.r.Header.Get("If-Modified-Since")
	if (x.r.Method == http.MethodGet || x.r.Method == http.MethodHead) && v.ifModifiedSince(since) == fails {
		x.notModified()
		return
	}
	ctx := x.r.Context() // and not x.ctx: a client that is gone is not to wait in line
	names, done, err := x.handler.lists.read(ctx, name)
	if err != nil {
		x.failList(ctx, err)
		return
	}
	defer done()
	if !isZero(v.modified) {
		x.setHeader("Last-Modified", v.modified.UTC().Format(http.TimeFormat))
	}
	x.setHeader("Content-Type", "text/html; charset=utf-8")
	length := ""
	if !x.foreign {
		length = strconv.FormatInt(names.pageLen(), 10)
		x.setHeader("Content-Length", length)
	}
	x.writeHeader(http.StatusOK)
	if x.r.Method == http.MethodHead {
		return
	}
	x.watch()
	_, err = names.writePage(x.w)
	x.ended(err, length)
}

// failList answers that there is no list.
func (x *exchange) failList(ctx context.Context, err error) {
	switch err {
	case errTooManyNames:
		x.fail(http.StatusForbidden, "403 Forbidden: too many files to list")
	case errNotRead:
		x.fail(http.StatusInternalServerError, "Error reading directory")
	case ctx.Err():
		x.fail(http.StatusServiceUnavailable, "") // hardly anybody is there to see it
	default:
		x.fail(statusOf(err), "")
	}
}

// serveFile answers with the file of that name. If it returns an error, nothing was answered.
func (x *exchange) serveFile(name string) error {
	begun := time.Now()
	files := &x.handler.files
	d, shared, err := files.acquire(name)
	if err != nil {
		return err
	}
	defer files.release(d)
	opened := time.Since(begun)
	if shared {
		opened = 0
	}
	if len(files.encodings) == 0 || x.foreign {
		x.serveContent(d, d.contentType, "", opened)
		return nil
	}
	wanted, plain := parseAccept(x.r.Header["Accept-Encoding"]).choose(d.siblings)
	if (len(d.siblings) > 0 || !plain) && !encodes(x.header) {
		x.header.Add("Vary", "Accept-Encoding")
	}
	for _, s := range wanted {
		if e, _, err := files.acquire(s.file); err == nil {
			defer files.release(e)
			x.serveContent(e, d.contentType, s.name, opened)
			return nil
		}
	}
	if !plain {
		x.fail(http.StatusNotAcceptable, "")
		return nil
	}
	x.serveContent(d, d.contentType, "", opened)
	return nil
}

// serveContent answers with d, whose bytes, decoded, are of contentType.
func (x *exchange) serveContent(d *descriptor, contentType, encoding string, opened time.Duration) {
	if d.lastModified != "" {
		x.setHeader("Last-Modified", d.lastModified)
	}
	if d.etag != "" && len(x.header["Etag"]) == 0 {
		x.setHeader("Etag", d.etag)
	}
	v := validators{etag: x.header.Get("Etag"), modified: d.info.ModTime()}
	status, ranges := v.evaluate(x.r)
	switch status {
	case http.StatusNotModified:
		x.notModified()
		return
	case http.StatusPreconditionFailed:
		x.writeHeader(status)
		return
	}
	if own, ok := x.header["Content-Type"]; !ok {
		x.setHeader("Content-Type", contentType)
	} else if contentType = ""; len(own) > 0 {
		contentType = own[0]
	}
	spans, err := parseRanges(ranges, d.stamp.size)
	switch {
	case err == errNoOverlap && d.stamp.size == 0: // whoever only wants the first bytes of whatever there is
	case err == errTooManyRanges:
	case err == errNoOverlap:
		x.setHeader("Content-Range", "bytes */"+d.length)
		fallthrough
	case err != nil:
		x.fail(http.StatusRequestedRangeNotSatisfiable, err.Error())
		return
	}
	if err != nil || totalLen(spans) > d.stamp.size {
		spans = nil // more than the whole is better served by the whole
	}
	x.setHeader("Accept-Ranges", "bytes")
	if encoding != "" {
		x.setHeader("Content-Encoding", encoding)
	}
	x.sendParts(d, spans, contentType, opened)
}

// sendParts answers with these parts of d, or, if there are none, with all of it.
func (x *exchange) sendParts(d *descriptor, spans []span, contentType string, opened time.Duration) {
	status, total, length, boundary := http.StatusPartialContent, d.stamp.size, d.length, ""
	switch len(spans) {
	case 0:
		status = http.StatusOK
		spans = []span{{0, total}}
	case 1:
		x.setHeader("Content-Range", spans[0].contentRange(d.stamp.size))
		total = spans[0].len()
		length = strconv.FormatInt(total, 10)
	default:
		boundary = multipart.NewWriter(nil).Boundary()
		x.setHeader("Content-Type", "multipart/byteranges; boundary="+boundary)
		total = multipartLen(spans, boundary, contentType, d.stamp.size)
		length = strconv.FormatInt(total, 10)
	}
	if status == http.StatusOK && x.foreign {
		length = "" // whoever encodes the body knows, but not of a part
	} else {
		x.setHeader("Content-Length", length)
	}
	x.prepare(d, spans)
	if x.handler.timing {
		x.header.Add("Server-Timing", x.serverTiming(opened))
	}
	encoding := x.header.Get("Content-Encoding")
	x.writeHeader(status)
	if x.r.Method == http.MethodHead {
		return
	}
	x.begun(length, encoding, total)
	defer x.warmth.over()
	x.watch()
	x.ended(x.sendBody(spans, boundary, contentType, d.stamp.size), length)
}

// begun is told what the header of a body of total bytes said before it was written.
func (x *exchange) begun(length, encoding string, total int64) {
	if !x.movable {
		return
	}
	x.body.begun(length, encoding)
	room := x.body.room()
	if room < total {
		x.body.inner = nil // somebody has promised less, or sent some already: net/http says so
	}
	x.movable = total <= room && room != toEOF && x.body.isAsSaid(length, encoding)
}

// watch has a Write of the body end at the deadline of the context, if somebody has set one.
func (x *exchange) watch() {
	if _, ok := x.ctx.Deadline(); ok {
		x.alarm = new(alarm)
		x.alarm.prepare(x.ctx, x.w, nil)
		x.alarm.set()
	}
}

// ended is told how the body has ended, and what length the header promised, if any. Where net/http does not count
// that, a body that was cut would look like a whole one, whoever it was that did not want more of it.
func (x *exchange) ended(err error, length string) {
	x.whole = err == nil
	if errors.Is(err, http.ErrBodyNotAllowed) {
		return // a middleware has made a status of it that has no body
	}
	if err != nil && (length == "" || x.r.ProtoMajor != 1 || x.header.Get("Content-Length") != length) {
		panic(http.ErrAbortHandler)
	}
}

// sendBody sends a part of a file of size bytes or, if there is a boundary, several.
func (x *exchange) sendBody(spans []span, boundary, contentType string, size int64) error {
	if boundary == "" {
		return x.sendPart(spans[0])
	}
	w := multipart.NewWriter(x.body.writer())
	_ = w.SetBoundary(boundary) // it comes from a multipart.Writer
	for _, s := range spans {
		if _, err := w.CreatePart(s.partHeader(contentType, size)); err != nil {
			return err
		}
		if err := x.sendPart(s); err != nil {
			return err
		}
	}
	return w.Close()
}

// prepare decides which way the parts will go.
func (x *exchange) prepare(d *descriptor, spans []span) {
	total := totalLen(spans)
	// Over TLS and HTTP/2 every byte passes through memory to be sealed or framed.
	x.movable = x.body.inner != nil && x.r.TLS == nil && x.r.ProtoMajor == 1
	if total <= smallBody || !x.movable {
		x.body.inner = nil
	}
	x.warmth = warmth{
		d: d, turns: x.handler.files.turns, tuner: x.handler.tuner, end: spans[0].to,
		drop: x.handler.dropFrom > 0 && total >= x.handler.dropFrom,
	}
	x.part = fileRange{
		file: d.file, off: spans[0].from, end: spans[0].to, exact: true, shared: true,
		ctx: x.ctx, tally: &x.tally, warmth: &x.warmth, buffer: x.handler.sendBuffer,
	}
	long := total >= joinAgain && x.r.TLS == nil // many records cost more to keep than to send
	// A header that somebody has written already has not got the type that is named in it now.
	written := x.body.server.hasHeader()
	x.body.joins = !written && len(spans) == 1 && total > smallBody && (total <= joinMost || long)
}

// sendPart sends the bytes of s. A small part is copied even between others that are sent: net/http's ReadFrom would have
// to write what is before it first, and would copy up to 512 bytes of each for as long as the header has not left.
func (x *exchange) sendPart(s span) (err error) {
	x.part.off, x.part.end, x.part.warmTo = s.from, s.to, 0
	x.warmth.end = s.to
	if x.movable && s.len() <= smallBody {
		before := x.tally.Copied
		err = x.part.copyTo(x.body.writer())
		x.tally.Small += x.tally.Copied - before
	} else {
		err = x.body.send(&x.part)
	}
	x.warmth.over()
	return err
}

// notModified answers that the client has it. A date is for those who have no entity tag.
func (x *exchange) notModified() {
	for _, k := range []string{"Content-Type", "Content-Length", "Content-Encoding"} {
		delete(x.header, k)
	}
	if x.header.Get("Etag") != "" {
		delete(x.header, "Last-Modified")
	}
	x.writeHeader(http.StatusNotModified)
}

// redirect leads to another path beside this one. It is relative, because the handler does not know under which path it is.
func (x *exchange) redirect(to string) {
	// As a URL, so that a question mark is one of the name's, and a colon does not end a scheme.
	link := url.URL{Path: to, RawQuery: x.r.URL.RawQuery}
	x.setHeader("Location", link.String())
	x.writeHeader(http.StatusMovedPermanently)
}

// fail answers with an error. What the header says about the file that would have been sent is not true of that.
func (x *exchange) fail(status int, text string) {
	for _, k := range []string{"Cache-Control", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(x.header, k)
	}
	if text == "" {
		text = strconv.Itoa(status) + " " + http.StatusText(status)
		if status == http.StatusNotFound {
			text = "404 page not found"
		}
	}
	x.status = status
	http.Error(x.w, text, status)
}

// over ends what the exchange holds, and tells those who want to know how it went.
func (x *exchange) over() {
	x.alarm.stop(x.whole)
	if x.cancel != nil {
		x.cancel()
	}
	h := x.handler
	h.files.count(x)
	if h.served != nil {
		h.served(x.r, x.tally.Report, x.status)
	}
}

// setHeader sets a header, by its canonical name.
func (x *exchange) setHeader(key, value string) {
	if x.set == len(x.values) {
		x.header[key] = []string{value}
		return
	}
	x.values[x.set] = value
	x.set++
	x.header[key] = x.values[x.set-1 : x.set : x.set]
}

func (x *exchange) writeHeader(status int) {
	x.status = status
	x.w.WriteHeader(status)
}

// serverTiming returns the value of that header. opened is how long it took to open the file, 0 if it was open.
func (x *exchange) serverTiming(opened time.Duration) string {
	open, state, way := "open;desc=shared", "cold", "copy"
	if opened > 0 {
		open = "open;dur=" + strconv.FormatFloat(opened.Seconds()*1000, 'f', 3, 64)
	}
	if x.part.off < x.part.end && x.warmth.isWarm(x.part.off, min(coldStep, x.part.end-x.part.off)) {
		state = "hot"
	}
	if x.body.inner != nil && canSendfile {
		way = "sendfile"
	}
	return open + ", cache;desc=" + state + ", path;desc=" + way
}
