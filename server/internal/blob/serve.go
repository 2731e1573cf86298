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

// Serve answers a GET or HEAD request with v, including conditions and ranges. It returns the
// number of body bytes that were sent, and how they were sent (see chunk.Report). If there is an
// error, the body is incomplete, and the caller must abort the response.
func (v *Value) Serve(w http.ResponseWriter, r *http.Request) (chunk.Report, error) {
	h := w.Header()
	h.Set("Etag", v.Tag)
	// The content type of a value is unknown. The browser must not guess it, because the browser
	// would show HTML as a page of this server.
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	// Clients must revalidate the value, because it may be replaced at any time. Revalidation
	// transfers no body. If the caller has set "private", this directive stays.
	h.Add("Cache-Control", "no-cache")
	if v.TTL > 0 {
		h.Set(HeaderTTL, formatTTL(v.TTL))
	}
	body := &responseBody{ResponseWriter: w, ctx: ContextOf(r), blocks: v.blocks}
	_, body.isFile = v.Content.(*os.File)
	http.ServeContent(body, r, "", time.Time{}, v.Content)
	return body.sent, body.err
}

func formatTTL(ttl time.Duration) string {
	return strconv.FormatFloat(max(ttl, time.Millisecond).Seconds(), 'f', 3, 64)
}

// window is the number of bytes that a download reads from Redis at a time. The download of a slow
// client takes this much memory.
const window = 128 << 10

// A responseBody copies a body to the response. It stores the error of the copy, because
// http.ServeContent does not return it.
type responseBody struct {
	http.ResponseWriter
	ctx    context.Context
	isFile bool
	blocks *millrace.Pool
	sent   chunk.Report
	err    error
}

// ReadFrom copies a body, or a part of a body, to the response. http.ServeContent calls it.
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

// ContextOf returns the context for serving r. Over HTTP/1, this context does not end when the
// client closes its sending side, because the client may still wait for the response. If the client
// has disconnected, reading the body or writing the response fails anyway.
func ContextOf(r *http.Request) context.Context {
	if r.ProtoMajor == 1 {
		return context.WithoutCancel(r.Context())
	}
	return r.Context()
}
