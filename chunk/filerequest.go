package chunk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"syscall"
)

// A fileRequest is one request to a FileHandler. It is also the ResponseWriter that
// http.ServeContent uses. net/http passes the body of a file to ReadFrom, and everything else to
// Write. The calls for a file are:
//
//	ServeHTTP → serve → http.ServeContent → ReadFrom → sendPart →
//		the ReadFrom of net/http's response → sendfile
type fileRequest struct {
	http.ResponseWriter
	h       *FileHandler
	r       *http.Request
	encoded bool // the header shows that a middleware will encode the body

	file *servedFile // nil until a file is open
	info fs.FileInfo
	form encoding // encoding of file

	status int
	head   bodyHead // the header of the body that net/http has set
	report Report
	broken bool // the body ended early
}

// A servedFile is a file for http.ServeContent, which seeks to the end and back to the start to
// learn the size. These two calls to Seek need no system call.
//
// Invariant: if !moved, the file's position is 0.
type servedFile struct {
	countedFile
	size  int64
	moved bool
	atEnd bool // Seek has returned the end of the file without moving the file's position
}

func newServedFile(f contentFile, info fs.FileInfo) *servedFile {
	return &servedFile{countedFile: countedFile{file: f}, size: info.Size()}
}

func (f *servedFile) Seek(offset int64, whence int) (int64, error) {
	if !f.moved && offset == 0 && whence != io.SeekCurrent {
		if f.atEnd = whence == io.SeekEnd; f.atEnd {
			return f.size, nil
		}
		// An unseekable file has a size, but a later Seek to a range must fail.
		_, f.moved = f.file.(unseekable)
		return 0, nil
	}
	f.moved, f.atEnd = true, false
	return f.file.Seek(offset, whence)
}

func (f *servedFile) Read(p []byte) (int, error) {
	if f.atEnd {
		return 0, io.EOF
	}
	f.moved = true
	return f.countedFile.Read(p)
}

// SyscallConn gives sendfile access to the file's descriptor.
func (f *servedFile) SyscallConn() (syscall.RawConn, error) {
	f.moved = true
	return f.countedFile.SyscallConn()
}

// serve sends the named file as the response. If serve returns an error, it has not begun the
// response.
func (x *fileRequest) serve(name string) error {
	f, info, err := x.h.root.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	x.file, x.info = newServedFile(f, info), info
	if x.h.precompressed && !x.encoded {
		header := x.Header()
		if _, set := header["Content-Type"]; !set {
			header.Set("Content-Type", x.contentType(name))
		}
		header.Add("Vary", "Accept-Encoding")
		other, plain := x.h.root.openEncoded(name, info, x.r.Header["Accept-Encoding"])
		if other.file != nil {
			defer other.file.Close()
			x.file, x.info, x.form = newServedFile(other.file, other.info), other.info,
				other.encoding
		} else if !plain {
			x.failStatus(http.StatusNotAcceptable)
			return nil
		}
	}
	x.serveContent(name)
	return nil
}

// contentType returns the media type for the extension of name. If the extension is unknown, it
// detects the type from the first bytes of the file.
func (x *fileRequest) contentType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	var p [sniffLen]byte
	x.file.moved = true
	n, _ := io.ReadFull(x.file.file, p[:]) // if no byte can be read, the type is text/plain
	_, _ = x.file.Seek(0, io.SeekStart)    // if this fails, http.ServeContent fails too
	return http.DetectContentType(p[:n])
}

func (x *fileRequest) serveContent(name string) {
	header := x.Header()
	if _, set := header["Etag"]; !set {
		if tag := x.etag(name); tag != "" {
			header.Set("Etag", tag)
		}
	}
	if x.form.name != "" {
		header.Set("Content-Encoding", x.form.name)
	}
	http.ServeContent(x, x.r, path.Base(name), x.info.ModTime(), x.file)
	if x.broken && !x.clientSeesLength() {
		panic(http.ErrAbortHandler) // otherwise the body would look complete to the client
	}
}

func (x *fileRequest) etag(name string) string {
	if _, ok := x.file.file.(*os.File); !ok && isUnset(x.info.ModTime()) {
		if _, ok := x.file.file.(unseekable); ok {
			return "" // after the content is read for the tag, Seek cannot return to the start
		}
		x.file.moved = true // if the method tag cannot seek back, http.ServeContent must notice
		return x.h.tags.tag(name+x.form.ext, x.file.file, x.info.Size())
	}
	return versionOf(x.info).etag()
}

// clientSeesLength reports whether the client has received the right Content-Length. Such a client
// notices missing bytes.
func (x *fileRequest) clientSeesLength() bool {
	return x.r.ProtoMajor == 1 && x.head.length != "" && headOf(x.Header()) == x.head
}

// WriteHeader sends the status and the header. For a whole file in an encoded form, it first adds
// the Content-Length.
func (x *fileRequest) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
		// net/http sets no Content-Length for an encoded response.
		if status == http.StatusOK && x.form.name != "" {
			x.Header().Set("Content-Length", strconv.FormatInt(x.info.Size(), 10))
		}
		x.head = headOf(x.Header())
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the response body. net/http passes the body of a file to ReadFrom instead.
func (x *fileRequest) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(p)
}

// ReadFrom sends the content of a file, which net/http passes as an io.LimitedReader. It copies any
// other src with Write.
func (x *fileRequest) ReadFrom(src io.Reader) (int64, error) {
	body, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{x}, src)
	}
	total := body.N
	err := x.send(body)
	if err == nil && x.report.Bytes < total {
		err = io.ErrUnexpectedEOF
	}
	// This body is not broken: a middleware may have changed the status to 204, which has no body.
	x.broken = err != nil && !errors.Is(err, http.ErrBodyNotAllowed)
	return x.report.Bytes, err
}

func (x *fileRequest) send(body *io.LimitedReader) error {
	file, ok := x.file.file.(*os.File)
	switch {
	case body.R != x.file: // several ranges, which net/http writes to a pipe
		n, err := copiedBody{x.ResponseWriter}.ReadFrom(body)
		x.report.add(&x.report.Copied, n)
		return err
	case !ok:
		return x.sendPart(copiedBody{x.ResponseWriter}, body)
	case x.h.dropFrom > 0 && body.N >= x.h.dropFrom:
		return x.sendAndDrop(x.destination(), file, body)
	}
	return x.sendPart(x.destination(), body)
}

func (x *fileRequest) sendAndDrop(rf io.ReaderFrom, f *os.File, body *io.LimitedReader) error {
	version := versionOf(x.info)
	x.h.dropper.add(version, 1)
	defer x.h.dropper.add(version, -1)
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	at := from
	defer func() { x.h.dropper.drop(f, version, from, at) }()
	for dropped := from; body.N > 0; {
		step := io.LimitedReader{R: x.file, N: min(body.N, dropStep)}
		asked := step.N
		before := x.report.Bytes
		err := x.sendPart(rf, &step)
		n := x.report.Bytes - before
		at += n
		body.N -= n
		if err != nil || n < asked {
			return err
		}
		if to := at - dropLag; to > dropped {
			x.h.dropper.drop(f, version, dropped, to)
			dropped = to
		}
	}
	return nil
}

// destination returns net/http's response, or a copiedBody if a middleware prevents sendfile.
func (x *fileRequest) destination() io.ReaderFrom {
	if rf, ok := x.ResponseWriter.(io.ReaderFrom); ok {
		return rf
	}
	if !x.encoded {
		if rf := unwrapBody(x.ResponseWriter, x.head); rf != nil {
			return rf
		}
	}
	return copiedBody{x.ResponseWriter}
}

type copiedBody struct{ w http.ResponseWriter }

func (b copiedBody) ReadFrom(src io.Reader) (int64, error) {
	c := copying{ctx: context.Background()}
	err := c.copyThroughMemory(b.w, src)
	return c.report.Bytes, err
}

func (x *fileRequest) sendPart(rf io.ReaderFrom, part *io.LimitedReader) error {
	before := x.file.read
	n, err := rf.ReadFrom(part)
	x.report.addFile(n, x.file.read-before)
	return err
}

func (x *fileRequest) fail(err error) { x.failStatus(statusOf(err)) }

func (x *fileRequest) failStatus(status int) {
	text := strconv.Itoa(status) + " " + http.StatusText(status)
	if status == http.StatusNotFound {
		text = "404 page not found"
	}
	x.failText(status, text)
}

func (x *fileRequest) failText(status int, text string) {
	for _, key := range []string{"Cache-Control", "Content-Encoding", "Etag", "Last-Modified"} {
		x.Header().Del(key) // these headers describe the file; net/http deletes them as well
	}
	http.Error(x, text, status)
}
