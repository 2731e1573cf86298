package chunk

import (
	"io"
	"net/http"
	"strings"
)

// maxWrappers limits the number of nested wrappers of a response, because a faulty wrapper may wrap
// itself.
const maxWrappers = 32

// bodyHead holds the headers that describe the body. A middleware that changes them changes the
// body as well.
type bodyHead struct{ length, encoding string }

func headOf(h http.Header) bodyHead {
	return bodyHead{h.Get("Content-Length"), h.Get("Content-Encoding")}
}

// encodes reports whether h shows that a middleware will encode the body. It checks Vary as well,
// because a middleware that compresses sets Vary before the handler runs, for the caches, even if
// it will not compress the body.
func encodes(h http.Header) bool {
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

// within returns w or the first response that w wraps, directly or indirectly, with the type T.
func within[T any](w http.ResponseWriter) (found T, ok bool) {
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

// A bodyReader is an http.ResponseWriter with ReadFrom, through which the kernel can send the body.
type bodyReader interface {
	http.ResponseWriter
	io.ReaderFrom
}

// unwrapBody returns a response with the method ReadFrom, for sending the body: w, or a response
// that w wraps. It returns nil if there is no such response.
//
// If it finds a wrapped response, unwrapBody first makes w write the header. It returns nil if w
// then changes the headers that describe the body, because w may change the body as well. head
// holds the values of these headers that the handler has set.
func unwrapBody(w http.ResponseWriter, head bodyHead) io.ReaderFrom {
	inner, ok := within[bodyReader](w)
	if !ok || http.ResponseWriter(inner) != w && !passes(w, inner, head) {
		return nil
	}
	return inner
}

// passes makes w write the header to inner, the response that w wraps. It reports whether w has
// passed the headers that describe the body unchanged. head holds the values of these headers that
// the handler has set.
func passes(w, inner http.ResponseWriter, head bodyHead) bool {
	_, err := w.Write(nil) // many wrappers write the header with the first Write
	return err == nil && headOf(w.Header()) == head && headOf(inner.Header()) == head
}

// A plainResponse is an http.ResponseWriter without ReadFrom, so that the body is sent with Write.
type plainResponse struct{ http.ResponseWriter }

// WriteString implements io.StringWriter.
func (p plainResponse) WriteString(s string) (int, error) {
	return io.WriteString(p.ResponseWriter, s)
}
