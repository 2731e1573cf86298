package refuse

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// bodyWait is how long the body of a refused request is still received. In that time the
	// response can reach a client on the other side of the world, and the client can stop sending.
	bodyWait = 2 * time.Second

	// bodyBytes is the maximum number of bytes received in that time. It is a quarter of what a
	// connection of one gigabit per second transfers.
	bodyBytes = 64 << 20
)

// WriteAndClose answers a request with a body that may still be arriving, and closes the
// connection. After the response it receives some of the body. If it closed the connection while
// bytes arrive, the kernel would reset the connection, and the client might lose the response. Over
// HTTP/2 it only sends the response.
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
