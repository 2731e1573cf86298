package chunk

import (
	"io"
	"net/http"
	"strings"
)

// maxWrappers limits the number of nested wrappers of a response, because a faulty wrapper may wrap
// itself.
const maxWrappers = 32

// bodyHead is the part of a handler's header that describes the body. A middleware that changes it
// changes the body as well.
type bodyHead struct{ length, encoding string }

func headOf(h http.Header) bodyHead {
	return bodyHead{h.Get("Content-Length"), h.Get("Content-Encoding")}
}

// encodes reports whether a header shows that its middleware will encode the body. It looks at Vary
// as well, because a middleware that compresses sets Vary before the handler runs. It sets Vary
// even for a body that it will not compress, because caches need it.
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

// within returns the first response of type T: w or one of the responses that it wraps.
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

// A bodyReader is a response that reads its body from a Reader.
type bodyReader interface {
	http.ResponseWriter
	io.ReaderFrom
}

// unwrapBody returns the writer for the body of a response: w, or a response that w wraps. If it is
// a wrapped response, w writes the header first. If the body must pass through w.Write, unwrapBody
// returns nil. This is so if no response has ReadFrom, or if w has changed the header that the
// handler set, which was head.
func unwrapBody(w http.ResponseWriter, head bodyHead) io.ReaderFrom {
	inner, ok := within[bodyReader](w)
	if !ok || http.ResponseWriter(inner) != w && !passes(w, inner, head) {
		return nil
	}
	return inner
}

// passes reports whether w has passed the handler's header to inner, as far as their header maps
// show.
func passes(w, inner http.ResponseWriter, head bodyHead) bool {
	_, err := w.Write(nil) // many wrappers delay the header until the first Write
	return err == nil && headOf(w.Header()) == head && headOf(inner.Header()) == head
}

// A plainResponse is a response without its ReadFrom, so that a source with its own WriteTo uses
// Write.
type plainResponse struct{ http.ResponseWriter }

// WriteString implements io.StringWriter.
func (p plainResponse) WriteString(s string) (int, error) {
	return io.WriteString(p.ResponseWriter, s)
}
