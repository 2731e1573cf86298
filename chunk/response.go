package chunk

import (
	"io"
	"net/http"
	"strings"
)

// maxWrappers limits the number of nested wrappers. A faulty wrapper may wrap itself.
const maxWrappers = 32

// bodyHead holds the headers that describe the body. A middleware that changes a header may also
// change the body.
type bodyHead struct{ length, encoding string }

func headOf(h http.Header) bodyHead {
	return bodyHead{h.Get("Content-Length"), h.Get("Content-Encoding")}
}

// mayEncode reports whether the headers show that a middleware may encode the body. A middleware
// that can compress sets Vary before the handler runs.
func mayEncode(h http.Header) bool {
	if len(h["Content-Encoding"]) > 0 {
		return true
	}
	for _, v := range h["Vary"] {
		if strings.Contains(strings.ToLower(v), "accept-encoding") {
			return true
		}
	}
	return false
}

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

// unwrapBody returns the first response with ReadFrom: w itself, or a response that w wraps. If no
// response has ReadFrom, it returns nil.
//
// Before unwrapBody returns a wrapped response, it makes w write the header. It returns nil if the
// header cannot be written. It also returns nil if w changes one of the headers in head: such a
// wrapper may change the body as well.
func unwrapBody(w http.ResponseWriter, head bodyHead) io.ReaderFrom {
	if direct, ok := w.(io.ReaderFrom); ok {
		return direct
	}
	inner, ok := unwrapTo[bodyReader](w)
	if !ok || !passHeader(w, inner, head) {
		return nil
	}
	return inner
}

// passHeader makes w write its header to inner, the response that w wraps. It returns false if this
// fails, or if w has changed one of the headers in head.
func passHeader(w, inner http.ResponseWriter, head bodyHead) bool {
	_, err := w.Write(nil) // many wrappers write the header with the first Write
	return err == nil && headOf(w.Header()) == head && headOf(inner.Header()) == head
}

// A plainResponse hides the ReadFrom method of a response, so that the body is sent with Write.
type plainResponse struct{ http.ResponseWriter }

// WriteString implements io.StringWriter.
func (p plainResponse) WriteString(s string) (int, error) {
	return io.WriteString(p.ResponseWriter, s)
}
