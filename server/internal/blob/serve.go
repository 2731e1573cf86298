package blob

import (
	"context"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
)

// Serve answers a GET or HEAD request with v, and returns how many bytes of the body were sent
// which way. Conditions and ranges are http.ServeContent's. After an error the body is not
// complete: the caller must abort the response.
func (v *Value) Serve(w http.ResponseWriter, r *http.Request) (chunk.Report, error) {
	h := w.Header()
	h.Set("Etag", v.Tag)
	// A value has no type, and the browser must not guess one: HTML would be a page of this server.
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	// The blob may be replaced at any time. To ask whether it was costs no body. A "private" of the
	// caller's stays.
	h.Add("Cache-Control", "no-cache")
	if v.TTL > 0 {
		h.Set(HeaderTTL, formatTTL(v.TTL))
	}
	body := &responseBody{ResponseWriter: w, ctx: ContextOf(r), blocks: v.blocks}
	_, body.isFile = v.Content.(*os.File)
	http.ServeContent(body, r, "", time.Time{}, v.Content)
	return body.sent, body.err
}

// formatTTL returns a TTL in the form that ParseTTL takes.
func formatTTL(ttl time.Duration) string {
	return strconv.FormatFloat(max(ttl, time.Millisecond).Seconds(), 'f', 3, 64)
}

// window is how much is read at a time from a value that is not a file, and so how much memory a
// slow client takes.
const window = 128 << 10

// A responseBody copies a body, and keeps the error, which http.ServeContent does not return.
type responseBody struct {
	http.ResponseWriter
	ctx    context.Context
	isFile bool
	blocks *millrace.Pool
	sent   chunk.Report
	err    error
}

// ReadFrom implements io.ReaderFrom, for http.ServeContent.
func (b *responseBody) ReadFrom(src io.Reader) (int64, error) {
	if b.isFile {
		b.sent, b.err = chunk.Copy(b.ctx, b.ResponseWriter, src)
		return b.sent.Bytes, b.err
	}
	size := int64(window)
	if part, ok := src.(*io.LimitedReader); ok {
		size = min(size, max(part.N, 1))
	}
	block := b.blocks.Get(int(size))
	defer block.Release()
	n, err := io.CopyBuffer(struct{ io.Writer }{b.ResponseWriter}, struct{ io.Reader }{src},
		block.Bytes())
	b.sent.Bytes, b.sent.Copied, b.err = n, n, err
	return n, err
}

// ContextOf returns the context for a request. Over HTTP/1 it does not end when the client closes
// its sending side, because the client may still wait for the answer. A client that is gone makes
// reading the body or writing the answer fail.
func ContextOf(r *http.Request) context.Context {
	if r.ProtoMajor == 1 {
		return context.WithoutCancel(r.Context())
	}
	return r.Context()
}
