package redisbuf

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// The rules for responses are the same as in package chunk. The code is not shared, because this
// module must also build with a later version of chunk's module, in which an internal package may
// have changed.

// setContentLength sets the Content-Length of an HTTP response to size. Without a Content-Length,
// the kernel cannot move the body. If the response already has a Content-Length, a
// Transfer-Encoding or trailers, or if a middleware may encode the body, setContentLength changes
// nothing.
func setContentLength(w http.ResponseWriter, size int64) {
	h := w.Header()
	_, direct := w.(io.ReaderFrom)
	if size > 0 && len(h["Content-Length"])+len(h["Transfer-Encoding"])+len(h["Trailer"]) == 0 &&
		(direct || !mayEncode(h)) {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
}

// mayEncode reports whether the headers show that a middleware may encode the body. A middleware
// that can compress sets Vary before the handler runs.
func mayEncode(h http.Header) bool {
	return len(h["Content-Encoding"]) > 0 ||
		strings.Contains(strings.ToLower(strings.Join(h["Vary"], ",")), "accept-encoding")
}

// exceedsLength reports whether size is more than the Content-Length in h. The ReadFrom method of a
// net/http response does not check this.
func exceedsLength(h http.Header, size int64) bool {
	length, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	return err == nil && size > length
}

// maxWrappers limits the number of nested wrappers of a response, because a faulty wrapper may wrap
// itself.
const maxWrappers = 32

// unwrapTo unwraps w until it finds a response of type T, which may be w itself.
func unwrapTo[T any](w http.ResponseWriter) (found T, ok bool) {
	for range maxWrappers {
		if found, ok := w.(T); ok {
			return found, true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = u.Unwrap()
	}
	return found, false
}

type bodyReader interface {
	http.ResponseWriter
	io.ReaderFrom
}

// unwrapBody returns the writer for the body of a response. If w has the method ReadFrom,
// unwrapBody returns w. Otherwise w is usually a middleware's wrapper, and the kernel cannot move
// bytes through a Write method. In this case, unwrapBody returns the first response with ReadFrom
// that w wraps.
//
// Before unwrapBody returns a wrapped response, it makes w write the header. It returns w if the
// header cannot be written, if the response has no Content-Length, or if w may change the body.
func unwrapBody(w http.ResponseWriter) io.Writer {
	h := w.Header()
	length := h.Get("Content-Length")
	if _, direct := w.(io.ReaderFrom); direct || length == "" || mayEncode(h) {
		return w
	}
	inner, ok := unwrapTo[bodyReader](w)
	if !ok {
		return w
	}
	if _, err := w.Write(nil); err != nil { // many wrappers write the header with the first Write
		return w
	}
	for _, h := range []http.Header{w.Header(), inner.Header()} {
		if h.Get("Content-Length") != length || mayEncode(h) {
			return w
		}
	}
	return inner
}
