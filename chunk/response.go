package chunk

import (
	"io"
	"net/http"
	"strings"
)

// maxWrappers limits the number of nested wrappers of a response, because a faulty wrapper may wrap
// itself.
const maxWrappers = 32

// bodyHead holds the headers that describe the body. With a bodyHead, unwrapBody detects a
// middleware that changes these headers and therefore also the body.
type bodyHead struct{ length, encoding string }

func headOf(h http.Header) bodyHead {
	return bodyHead{h.Get("Content-Length"), h.Get("Content-Encoding")}
}

// encodes reports whether the headers h of a response show that a middleware may encode the body.
// It checks Content-Encoding and Vary. A middleware that can compress sets Vary before the handler
// runs, even if it then does not compress this body.
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

// unwrapBody returns w if w has the method ReadFrom. Otherwise it returns the first
// http.ResponseWriter with ReadFrom that w wraps. If there is none, it returns nil.
//
// Before unwrapBody returns a wrapped http.ResponseWriter, it makes w write the header. head holds
// the Content-Length and the Content-Encoding that the handler has set. If w changes one of these
// two headers, unwrapBody returns nil, because w may change the body as well. If w fails to write
// the header, unwrapBody also returns nil.
func unwrapBody(w http.ResponseWriter, head bodyHead) io.ReaderFrom {
	inner, ok := within[bodyReader](w)
	if !ok || http.ResponseWriter(inner) != w && !passes(w, inner, head) {
		return nil
	}
	return inner
}

// passes makes w write the header to inner, the response that w wraps. It reports whether w has
// kept the handler's values of the headers that describe the body. head holds the handler's values.
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
