package refuse

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// bodyWait is how long a refused body is still received: long enough for the answer to reach
	// the other side of the world, and for the client there to stop.
	bodyWait = 2 * time.Second

	// bodyBytes limits the same in bytes: a quarter of what a gigabit a second brings in that time.
	bodyBytes = 64 << 20
)

// WriteAndClose answers a request with a body that may still be arriving, and closes the
// connection. It receives some of the body after the response: a connection that is closed while
// bytes arrive is reset, and its client may lose the response.
func WriteAndClose(w http.ResponseWriter, r *http.Request, status int, reason string) {
	if r.ProtoMajor != 1 {
		Write(w, status, reason)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyWait))
	w.Header().Set("Connection", "close")
	Write(w, status, reason)
	if r.Body != nil && r.Body != http.NoBody && control.Flush() == nil {
		_, _ = io.CopyN(io.Discard, r.Body, bodyBytes)
	}
}

// Write answers with a status and one line of text.
func Write(w http.ResponseWriter, status int, reason string) {
	text := strings.ToValidUTF8(reason, "?") + "\n"
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // an error means that the client has gone away
}
