package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/blob"
	"github.com/millrace-io/millrace/server/internal/limit"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/redis/go-redis/v9"
)

const (
	// blobsPath is where the values are.
	blobsPath = "/blobs/"

	blobMethods = "GET, HEAD, PUT, DELETE"

	// pingTimeout is how long a start waits for Redis. Then the server starts without: streams and files need no Redis.
	pingTimeout = 2 * time.Second
)

// errNoBlobs says why nothing is at blobsPath.
const errNoBlobs = "no blobs are kept here: that takes millrace serve --blobs DIR, or --redis URL"

// A blobService keeps values under keys for clients.
type blobService struct {
	gate     *access.Gate
	refusals *access.Refusals
	budget   *budget
	log      *slog.Logger
	store    blob.Store
	where    string // the store, for the log

	maxBytes int64         // of a value
	silence  time.Duration // an upload that sends nothing for so long is ended
	stall    time.Duration // in which a client must take an answer

	downloads *limit.Limiter
	uploads   *limit.Limiter

	answered statusCounts
	received atomic.Int64 // bytes of bodies
	stalled  atomic.Int64 // downloads that were cut because the client took nothing

	sendfile, splice, copied atomic.Int64 // bytes sent
}

// openBlobs returns nil if the configuration names no store. The call that ends the service's life is close.
func openBlobs(cfg *Config, gate *access.Gate, refusals *access.Refusals, budget *budget) (*blobService, error) {
	switch {
	case cfg.Blobs != "":
		d, err := blob.OpenDirectory(cfg.Blobs, cfg.Successor, budget.blobBlocks)
		if err != nil {
			return nil, fmt.Errorf("--blobs: %w", err)
		}
		return newBlobService(cfg, gate, refusals, budget, d, cfg.Blobs), nil
	case cfg.Redis == "":
		return nil, nil
	}
	opt, err := cfg.redisOptions()
	if err != nil {
		return nil, err
	}
	where := "Redis at " + strings.Join(opt.Addrs, ",")
	store, err := blob.OpenRedis(redis.NewUniversalClient(opt), cfg.RedisPrefix, budget.blobBlocks)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if err := store.Ping(ctx); err != nil {
		cfg.Log.Warn("Redis cannot be used: blobs get 503 until it can", "redis", where, "reason", err)
	}
	return newBlobService(cfg, gate, refusals, budget, store, where), nil
}

// newBlobService takes ownership of store.
func newBlobService(
	cfg *Config, gate *access.Gate, refusals *access.Refusals, budget *budget, store blob.Store, where string,
) *blobService {
	down, up := cfg.MaxDownloads, cfg.MaxUploads
	return &blobService{
		gate: gate, refusals: refusals, budget: budget, log: cfg.Log, store: store, where: where,
		maxBytes: cfg.MaxBlobBytes, silence: cfg.PublishTimeout, stall: cfg.StallTimeout,
		downloads: limit.New(down, tooMany("blobs", "sent", down, "downloads"), refuse.ErrShutdown),
		uploads:   limit.New(up, tooMany("blobs", "received", up, "uploads"), refuse.ErrShutdown),
	}
}

// serve answers everything below blobsPath. b may be nil.
func (b *blobService) serve(w http.ResponseWriter, r *http.Request, key string) {
	if b == nil {
		refuse.WriteAndClose(w, r, http.StatusNotFound, errNoBlobs)
		return
	}
	response := &statusWriter{ResponseWriter: w}
	defer func() { b.answered.add(response.status) }()
	if err := blob.CheckKey(key); err != nil {
		refuse.WriteAndClose(response, r, http.StatusBadRequest, err.Error())
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		b.get(response, r, key)
	case http.MethodPut, http.MethodDelete:
		b.write(response, r, key)
	default:
		b.refusals.RefuseMethod(response, r, blobMethods)
	}
}

// A statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController and chunk.Copy.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// get answers GET and HEAD.
func (b *blobService) get(w *statusWriter, r *http.Request, key string) {
	if err := b.budget.acquire(b.downloads); err != nil {
		b.refuse(w, r, err)
		return
	}
	defer b.downloads.Release()
	p, err := b.budget.beginDownload(w.ResponseWriter, r, b.budget.blobBlocks)
	if err != nil {
		b.budget.refuseFull(w, r, err)
		return
	}
	defer b.budget.endDownload(p, r, &b.stalled)
	value, err := b.store.Open(blob.ContextOf(r), key)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	defer value.Close()
	w.ResponseWriter = p
	sent, err := value.Serve(w, r)
	b.sendfile.Add(sent.Sendfile)
	b.splice.Add(sent.Splice)
	b.copied.Add(sent.Copied)
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client can tell that the body is not complete
	}
}

// write answers PUT and DELETE.
func (b *blobService) write(w *statusWriter, r *http.Request, key string) {
	if err := b.gate.Policy().CheckPublish(r, ""); err != nil {
		b.refusals.NoteRequest(access.Writer, r, err)
		refuse.WriteAndClose(w, r, refuse.SetHeader(w.Header(), err),
			"writing a blob needs the right to publish: "+err.Error())
		return
	}
	if err := b.change(w, r, key); err != nil {
		b.refuse(w, r, err)
	}
}

// change answers PUT and DELETE from clients that may write, unless it returns an error. Refusing takes no place among
// the uploads.
func (b *blobService) change(w http.ResponseWriter, r *http.Request, key string) error {
	if err := b.budget.acquire(b.uploads); err != nil {
		return err
	}
	defer b.uploads.Release()
	answerOf(r).wait()
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // receiving the body may take longer than answering
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(b.stall)) }()
	if r.Method == http.MethodPut {
		return b.put(w, r, key)
	}
	if err := b.store.Delete(blob.ContextOf(r), key, blob.ConditionOf(r.Header)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// put answers PUT, unless it returns an error.
func (b *blobService) put(w http.ResponseWriter, r *http.Request, key string) error {
	h := r.Header
	put := blob.Put{Limit: b.maxBytes, Only: blob.ConditionOf(h)}
	var err error
	if put.TTL, err = blob.ParseTTL(h.Get(blob.HeaderTTL)); err != nil {
		return refuse.New(http.StatusBadRequest, "%v", err)
	}
	switch {
	case h.Get("Content-Range") != "":
		return refuse.New(http.StatusBadRequest,
			"a part of a blob cannot be put: send all of it, without Content-Range")
	case h.Get("Content-Encoding") != "" && !strings.EqualFold(h.Get("Content-Encoding"), "identity"):
		return refuse.New(http.StatusUnsupportedMediaType,
			"the server does not keep Content-Encoding, so a reader could not decode the blob: send it without")
	case r.ContentLength > put.Limit:
		return &blob.TooLargeError{Limit: put.Limit}
	}
	// The condition is checked before the body is asked for (Expect: 100-continue), and again when it is there.
	ctx := blob.ContextOf(r)
	if err := b.store.Check(ctx, key, put.Only); err != nil {
		return err
	}
	body := &upload{
		Reader: r.Body, control: http.NewResponseController(w), idle: b.silence, received: &b.received,
	}
	tag, created, err := b.store.Put(ctx, key, body, r.ContentLength, put)
	_ = body.control.SetReadDeadline(time.Time{})
	if err != nil {
		return err
	}
	w.Header().Set("Etag", tag)
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
	}
	w.WriteHeader(status)
	b.log.Debug("blob put", "client", r.RemoteAddr, "path", r.URL.Path, "created", created)
	return nil
}

// An upload is the body of a PUT. It fails when no byte has come for idle. Its whole duration is not limited.
type upload struct {
	io.Reader
	control  *http.ResponseController
	idle     time.Duration
	received *atomic.Int64
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	_ = u.control.SetReadDeadline(time.Now().Add(u.idle))
	n, err := u.Reader.Read(p)
	u.received.Add(int64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing came for %v (--publish-timeout): %w", u.idle, os.ErrDeadlineExceeded)
	}
	return n, err
}

// refuse answers with a refusal for err. A 503 means that nothing has changed, and that the client may try again.
func (b *blobService) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused := blobRefusal(err)
	if refused.Status >= http.StatusInternalServerError {
		b.log.Warn("blob request failed", "method", r.Method, "path", r.URL.Path, "client", r.RemoteAddr,
			"status", refused.Status, "reason", err)
	}
	refuse.WriteAndClose(w, r, refuse.SetHeader(w.Header(), refused), refused.Reason)
}

// blobRefusal returns the refusal for an error. Its reason has no address or path of the server in it.
func blobRefusal(err error) *refuse.Refusal {
	var large *blob.TooLargeError
	status, reason := http.StatusInternalServerError, "the store has failed"
	switch {
	case refuse.Of(err) != nil:
		return refuse.Of(err)
	case errors.Is(err, blob.ErrNotFound):
		status, reason = http.StatusNotFound, blob.ErrNotFound.Error()
	case errors.Is(err, blob.ErrCondition):
		status, reason = http.StatusPreconditionFailed, "If-Match or If-None-Match does not hold"
	case errors.Is(err, blob.ErrUnsure):
		reason = blob.ErrUnsure.Error()
	case errors.Is(err, blob.ErrFull):
		status, reason = http.StatusInsufficientStorage, blob.ErrFull.Error()
	case errors.As(err, &large):
		status, reason = http.StatusRequestEntityTooLarge, large.Error()+" (--max-blob-bytes)"
	case errors.Is(err, blob.ErrBody) && errors.Is(err, os.ErrDeadlineExceeded):
		status, reason = http.StatusRequestTimeout, err.Error()
	case errors.Is(err, blob.ErrBody):
		status, reason = http.StatusBadRequest, err.Error()
	case errors.Is(err, blob.ErrUnavailable):
		return refuse.New(http.StatusServiceUnavailable, "%v", blob.ErrUnavailable).After(time.Second)
	}
	return refuse.New(status, "%s", reason)
}

// drain refuses further requests, and returns a channel that is closed when all present ones have ended. b may be nil.
func (b *blobService) drain() <-chan struct{} {
	idle := make(chan struct{})
	if b == nil {
		close(idle)
		return idle
	}
	downloads, uploads := b.downloads.Close(), b.uploads.Close()
	go func() {
		defer close(idle)
		<-downloads
		<-uploads
	}()
	return idle
}

// count returns how many requests are being answered. b may be nil.
func (b *blobService) count() int {
	if b == nil {
		return 0
	}
	return b.downloads.Held() + b.uploads.Held()
}

// close closes the store. b may be nil.
func (b *blobService) close() error {
	if b == nil {
		return nil
	}
	return b.store.Close()
}

// collect reports the metrics of blobs.
func (b *blobService) collect(c scrape) {
	c.counters("blobs_requests_total", "Requests for blobs that were answered, by the first digit of the status.",
		"status", b.answered.byClass())
	c.counters("blobs_bytes_total", "Bytes of blobs that were sent: by sendfile or splice, without passing through the "+
		"server's memory, or copied.", "path",
		map[string]int64{"sendfile": b.sendfile.Load(), "splice": b.splice.Load(), "copied": b.copied.Load()})
	c.counter("blobs_bytes_in_total", "Bytes of blobs that were received.", b.received.Load())
	c.gauge("blobs_downloads", "Requests for blobs that are being answered.", int64(b.downloads.Held()))
	c.gauge("blobs_uploads", "Requests that write blobs and are being answered.", int64(b.uploads.Held()))
	c.counters("blobs_refused_total", "Requests for blobs that were refused because there were too many at a time.",
		"what", map[string]int64{"download": b.downloads.Refused(), "upload": b.uploads.Refused()})
	c.counter("blobs_stalled_total",
		"Downloads of blobs that were cut because the client took nothing for the stall timeout.", b.stalled.Load())
	r, ok := b.store.(*blob.Redis)
	if !ok {
		return
	}
	stats := r.Stats()
	c.gauges("blobs_redis_connections", "Connections that carry blobs to and from Redis.", "state",
		map[string]int64{"in_use": int64(stats.InUse), "idle": int64(stats.Idle)})
	c.gauge("blobs_redis_waiting", "Calls that wait for one of these connections.", int64(stats.Waiting))
	c.counter("blobs_redis_dials_failed_total", "Connections to Redis that could not be made.", stats.DialsFailed)
	c.counter("blobs_redis_dropped_total", "Connections to Redis that were lost or given up.", stats.Dropped)
	c.counter("blobs_redis_retries_total", "Calls to Redis that were tried again, or sent on to another server.",
		stats.Retries)
}
