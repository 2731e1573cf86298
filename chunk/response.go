package chunk

import (
	"io"
	"net/http"
	"strings"
)

// maxWrappers bounds how deep a response may be wrapped, in case one wraps itself.
const maxWrappers = 32

// A response is where the body of an answer goes.
//
// Invariant: inner is nil unless server is known.
type response struct {
	w       http.ResponseWriter // as the handler got it
	inner   readerFrom          // w, or what w wraps; nil if the body has to go through w's Write
	server  serverResponse      // w, or what w wraps in the end, if Unwrap leads there
	wrapped bool                // inner is not w
	joins   bool                // send has the header, or the records of TLS, leave in one packet with the body, if it can
}

// A readerFrom is an http.ResponseWriter that takes a body from a source.
type readerFrom interface {
	http.ResponseWriter
	io.ReaderFrom
}

// A byWrite is a response without its ReadFrom, which a source that copies by itself could use: it would look at no
// length. Without a length, all goes through Write anyway.
type byWrite struct{ http.ResponseWriter }

// WriteString implements io.StringWriter.
func (b byWrite) WriteString(s string) (int, error) { return io.WriteString(b.ResponseWriter, s) }

// Unwrap is for http.ResponseController.
func (b byWrite) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// responseOf finds the ReadFrom of w or of what it wraps. Without it, where a wrapper may change the body, and where
// nobody can say how much of the body there is room for, the body goes through w. It is to be called before the handler
// names a Content-Encoding or Vary of its own.
func responseOf(w http.ResponseWriter) response {
	r := response{w: w}
	for range maxWrappers {
		if rf, ok := w.(readerFrom); ok && r.inner == nil {
			r.inner = rf
		}
		if r.server = serverResponseOf(w); r.server.isKnown() {
			break
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w, r.wrapped = u.Unwrap(), r.wrapped || r.inner == nil
	}
	if !r.server.isKnown() || r.wrapped && encodes(r.w.Header()) {
		r.inner = nil
	}
	return r
}

// encodes reports whether a header says that whatever has set it is going to encode the body. A wrapper that compresses
// says so before it asks for the body, because caches must know even if this answer is left as it is.
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

// begin has the header written, with the status 200 unless it is already, so that all wrappers see it.
func (r *response) begin() {
	h := r.w.Header()
	r.begun(h.Get("Content-Length"), h.Get("Content-Encoding"))
}

// begun is told what the header said before it was written. A wrapper that keeps it until the body begins writes it
// here. One that goes on keeping it waits for the body, and one that has changed it changes the body, too.
func (r *response) begun(length, encoding string) {
	if r.inner == nil || !r.wrapped {
		return
	}
	_, _ = r.w.Write(nil) // an error comes again
	if !r.isAsSaid(length, encoding) {
		r.inner = nil
	}
}

// isAsSaid reports whether the header is known to have been written, and to have said then what it said before.
func (r *response) isAsSaid(length, encoding string) bool {
	h := r.w.Header()
	return r.server.hasHeader() && h.Get("Content-Length") == length && h.Get("Content-Encoding") == encoding
}

// room returns how many bytes the body may still have, as far as is known before it is sent: by the server's own count,
// or, as long as nothing can have been sent, by the header that is going to be.
func (r *response) room() int64 {
	if r.server.hasHeader() {
		return r.server.room()
	}
	return promised(r.w.Header())
}

// writer returns where the rest of the body is to be written.
func (r *response) writer() io.Writer {
	if r.inner == nil {
		return r.w
	}
	return r.inner
}

// send sends f as the body, or as the next part of it.
func (r *response) send(f *fileRange) error {
	if r.inner == nil {
		return r.sendCopied(f)
	}
	f.server = r.server
	tcp, own := r.server.conn()
	// Somebody's own ReadFrom may flush, and then wait. And of the bytes that tell the type, net/http would see nothing.
	if tcp == nil || !r.joins || http.ResponseWriter(r.inner) != r.server.w || r.inner.Header()["Content-Type"] == nil {
		return r.sendPlain(f)
	}
	if _, err := f.ready(sendStep); err != nil { // the header waits for the disk no longer than the body does
		return err
	}
	switch {
	case own != nil:
		return r.sendHeld(own, f)
	case f.end-f.off <= joinMost: // under a cork, a long body takes the kernel more time than a packet less saves
		cork(tcp)
		defer uncork(tcp)
	}
	if err := r.flush(); err != nil {
		return err
	}
	return r.sendPlain(f)
}

// sendPlain has net/http send f, and the header before it if nobody has.
func (r *response) sendPlain(f *fileRange) error {
	return r.sealed(func() error { return f.readInto(r.inner) })
}

// sendHeld sends the header and f, which it leaves with.
func (r *response) sendHeld(own *Conn, f *fileRange) (err error) {
	own.hold(func() { err = r.flush() })
	if err != nil {
		return err
	}
	sent := f.tally.Sendfile
	err = r.sendPlain(f)
	if f.tally.Sendfile == sent {
		uncork(own.TCPConn) // net/http may know that there is no body, as of a HEAD, and then the header waits for nothing
	}
	return err
}

// sendCopied sends f through memory. Over TLS, which would send each of its records by itself, they leave together, unless
// they go through somebody's own Write, which may flush, and then wait.
func (r *response) sendCopied(f *fileRange) error {
	if tcp := r.server.underTLS(); tcp != nil && r.joins && r.w == r.server.w {
		cork(tcp)
		defer uncork(tcp)
	}
	return f.copyAhead(r.w)
}

// lends reports whether send hands a source to somebody who might keep it: not to a response of net/http with a TCP
// connection, which reads it until its ReadFrom returns.
func (r *response) lends() bool {
	return r.inner != nil && (http.ResponseWriter(r.inner) != r.server.w || !r.server.isOnTCP())
}

// sealed calls send, which has inner read a source. The server counts what that has sent when it is over: if a panic of
// a progress function ends it, nobody knows how much room there is, and the connection takes nothing more.
func (r *response) sealed(send func() error) error {
	over := false
	defer func() {
		if d, ok := r.server.w.(writeWaker); ok && !over {
			_ = d.SetWriteDeadline(longAgo)
		}
	}()
	err := send()
	over = true
	return err
}

// flush has net/http write the header now. Otherwise its ReadFrom would read the first 512 bytes of the body to write them
// with it, which takes one more system call.
func (r *response) flush() error {
	if _, err := r.inner.Write(nil); err != nil { // somebody has hijacked the connection, which Flush does not look at
		return err
	}
	if f, ok := r.inner.(http.Flusher); ok {
		f.Flush()
	}
	return nil
}
