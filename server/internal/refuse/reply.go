package refuse

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// bodyWait is the maximum time for which the server receives the body of a refused request. It
	// is long enough for the response to reach a distant client, and for the client to stop
	// sending.
	bodyWait = 2 * time.Second

	// bodyBytes is the maximum number of bytes that the server receives from the body of a refused
	// request. At one gigabit per second, a client reaches this limit in about half a second,
	// before bodyWait ends.
	bodyBytes = 64 << 20
)

// WriteAndClose sends a response while the body of the request may still be arriving. It then
// receives a part of the body, up to bodyBytes and for up to bodyWait. The connection is closed
// when the handler returns. If the connection were closed at once, the kernel would reset it, and
// the client might not receive the response. Over HTTP/2, WriteAndClose only sends the response.
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

// Write sends a response with a status and one line of text.
func Write(w http.ResponseWriter, status int, reason string) {
	text := strings.ToValidUTF8(reason, "?") + "\n"
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // an error means that the client has disconnected
}
