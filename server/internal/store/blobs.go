package store

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

	"github.com/millrace-io/millrace/redisbuf"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/blob"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/redis/go-redis/v9"
)

const (
	// BlobsPath is the prefix of the paths of blobs.
	BlobsPath = "/blobs/"

	blobMethods = "GET, HEAD, PUT, DELETE"

	// pingTimeout is how long the server waits for Redis when it starts. If Redis does not answer,
	// the server starts anyway, because streams and files do not need Redis.
	pingTimeout = 2 * time.Second
)

const errNoBlobs = "no blobs are kept here: that takes millrace serve --blobs DIR, or --redis URL"

// BlobsConfig configures the store for blobs and the limits of transfers. Exactly one of Dir and
// Redis is set.
type BlobsConfig struct {
	Dir         string // directory of the blobs
	Successor   bool   // see server.Config.Successor
	Redis       *redis.UniversalOptions
	RedisPrefix string // prefix of the blobs' keys in Redis

	MaxBytes      int64         // maximum length of a blob
	MaxUploads    int           // maximum number of concurrent uploads
	UploadTimeout time.Duration // an upload ends if it sends nothing for this time
	Downloads     DownloadConfig
}

// Blobs serves blobs to clients, and stores the blobs that clients upload. A nil Blobs has no
// blobs.
type Blobs struct {
	gate     *access.Gate // decides who may write
	refusals *access.Refusals
	log      *slog.Logger
	store    blob.Store
	where    string // description of the store for the log

	maxBytes int64         // maximum length of a blob
	silence  time.Duration // an upload ends if it sends nothing for this time

	downloads *downloads
	uploads   *limit.Limiter

	answered statusCounts
	received atomic.Int64 // bytes of uploads

	sendfile, splice, copied atomic.Int64 // bytes sent with each method
}

// OpenBlobs opens the store that cfg configures. The caller must call Close on the result.
func OpenBlobs(cfg BlobsConfig, gate *access.Gate, refusals *access.Refusals,
	budget *answer.Budget) (*Blobs, error) {
	b := &Blobs{
		gate: gate, refusals: refusals, log: cfg.Downloads.Log, where: cfg.Dir,
		maxBytes: cfg.MaxBytes, silence: cfg.UploadTimeout,
		downloads: newDownloads("blobs", cfg.Downloads, budget),
		uploads:   limit.New(cfg.MaxUploads, tooManyUploads(cfg.MaxUploads), refuse.ErrShutdown),
	}
	if cfg.Redis == nil {
		dir, err := blob.OpenDirectory(cfg.Dir, cfg.Successor, b.downloads.blocks)
		if err != nil {
			return nil, fmt.Errorf("--blobs: %w", err)
		}
		b.store = dir
		return b, nil
	}
	b.where = "Redis at " + strings.Join(cfg.Redis.Addrs, ",")
	store, err := blob.OpenRedis(redis.NewUniversalClient(cfg.Redis), cfg.RedisPrefix,
		b.downloads.blocks)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	b.store = store
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if err := store.Ping(ctx); err != nil {
		b.log.Warn("Redis cannot be used: blobs get 503 until it can", "redis", b.where, "reason",
			err)
	}
	return b, nil
}

func tooManyUploads(limit int) error { return tooMany("blobs", "received", limit, "uploads") }

// Serve serves all requests below BlobsPath. The argument key is the path after BlobsPath.
func (b *Blobs) Serve(w http.ResponseWriter, r *http.Request, key string) {
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

func (b *Blobs) get(w *statusWriter, r *http.Request, key string) {
	if err := b.downloads.acquire(); err != nil {
		b.refuse(w, r, err)
		return
	}
	defer b.downloads.Release()
	p, err := b.downloads.begin(w.ResponseWriter, r)
	if err != nil {
		b.downloads.budget.RefuseFull(w, r, err)
		return
	}
	defer b.downloads.end(p, r)
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
		panic(http.ErrAbortHandler) // so that the client sees that the body is incomplete
	}
}

func (b *Blobs) write(w *statusWriter, r *http.Request, key string) {
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

// change serves a PUT or DELETE request of a client that may write blobs. The request counts as an
// upload until change returns. If change returns an error, the caller must send the response.
func (b *Blobs) change(w http.ResponseWriter, r *http.Request, key string) error {
	if err := b.downloads.admit(b.uploads); err != nil {
		return err
	}
	defer b.uploads.Release()
	answer.Of(r).GiveBack()
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // the body may take longer
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(b.downloads.stall)) }()
	if r.Method == http.MethodPut {
		return b.put(w, r, key)
	}
	if err := b.store.Delete(blob.ContextOf(r), key, blob.ConditionOf(r.Header)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (b *Blobs) put(w http.ResponseWriter, r *http.Request, key string) error {
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
	case h.Get("Content-Encoding") != "" && !strings.EqualFold(h.Get("Content-Encoding"),
		"identity"):
		return refuse.New(http.StatusUnsupportedMediaType,
			"the server does not keep Content-Encoding, so a reader could not decode the blob: send it without")
	case r.ContentLength > put.Limit:
		return &blob.TooLargeError{Limit: put.Limit}
	}
	// Check the headers If-Match and If-None-Match before the client sends the body (Expect:
	// 100-continue). Put checks the headers again when the complete body has arrived.
	ctx := blob.ContextOf(r)
	if err := b.store.Check(ctx, key, put.Only); err != nil {
		return err
	}
	body := &upload{
		Reader: r.Body, control: http.NewResponseController(w), idle: b.silence,
		received: &b.received,
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

// An upload is the body of a PUT request. The field idle is the time limit for one Read. There is
// no time limit for the complete upload.
type upload struct {
	io.Reader
	control  *http.ResponseController
	idle     time.Duration
	received *atomic.Int64
}

// Read reads from the body. If the client sends nothing within the time limit u.idle, Read fails.
func (u *upload) Read(p []byte) (int, error) {
	_ = u.control.SetReadDeadline(time.Now().Add(u.idle))
	n, err := u.Reader.Read(p)
	u.received.Add(int64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing came for %v (--publish-timeout): %w", u.idle,
			os.ErrDeadlineExceeded)
	}
	return n, err
}

// refuse sends the response for the error err. Status 503 means that nothing was changed and the
// client may try again.
func (b *Blobs) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused := blobRefusal(err)
	if refused.Status >= http.StatusInternalServerError {
		b.log.Warn("blob request failed", "method", r.Method, "path", r.URL.Path, "client",
			r.RemoteAddr,
			"status", refused.Status, "reason", err)
	}
	refuse.WriteAndClose(w, r, refuse.SetHeader(w.Header(), refused), refused.Reason)
}

// blobRefusal returns the refusal for err, without addresses or paths of the server.
func blobRefusal(err error) *refuse.Refusal {
	var large *blob.TooLargeError
	status, reason := http.StatusInternalServerError, "the store has failed"
	switch {
	case refuse.Of(err) != nil:
		return refuse.Of(err)
	case errors.Is(err, blob.ErrNotFound):
		status, reason = http.StatusNotFound, blob.ErrNotFound.Error()
	case errors.Is(err, blob.ErrCondition):
		status, reason = http.StatusPreconditionFailed, "If-Match or If-None-Match does not match"
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
		return refuse.New(http.StatusServiceUnavailable, "%v",
			blob.ErrUnavailable).After(time.Second)
	}
	return refuse.New(status, "%s", reason)
}

// SetLimits sets the maximum numbers of concurrent downloads and uploads. If a limit is lowered,
// running transfers continue.
func (b *Blobs) SetLimits(downloads, uploads int) {
	if b != nil {
		b.downloads.setLimit(downloads)
		b.uploads.SetLimit(uploads, tooManyUploads(uploads))
	}
}

// Drain makes b refuse new requests, and returns a channel that is closed when all running requests
// have ended.
func (b *Blobs) Drain() <-chan struct{} {
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

// Held returns the number of downloads and uploads in progress.
func (b *Blobs) Held() int {
	if b == nil {
		return 0
	}
	return b.downloads.Held() + b.uploads.Held()
}

// Close closes the store.
func (b *Blobs) Close() error {
	if b == nil {
		return nil
	}
	return b.store.Close()
}

// BlockBytes returns the size in bytes of the memory blocks that transfers use.
func (b *Blobs) BlockBytes() int64 {
	if b == nil {
		return 0
	}
	return b.downloads.blocks.Stats().InUse
}

// Where returns a description of the store, for the log.
func (b *Blobs) Where() string { return b.where }

// BlobsStats has the counters of Blobs.
type BlobsStats struct {
	// Requests has the number of answered requests for each class of status ("1xx" to "5xx").
	Requests                 map[string]int64
	Sendfile, Splice, Copied int64 // bytes sent with each method
	Received                 int64 // bytes of uploads
	Downloads, Uploads       int   // at present
	Refused, RefusedUploads  int64 // transfers refused because of the limits
	// Stalled is the number of downloads that ended because the client accepted no data.
	Stalled int64
	Redis   *redisbuf.Stats // nil if the store is not in Redis
}

// Stats returns the counters of b. b must not be nil.
func (b *Blobs) Stats() BlobsStats {
	st := BlobsStats{
		Requests: b.answered.byClass(),
		Sendfile: b.sendfile.Load(), Splice: b.splice.Load(), Copied: b.copied.Load(),
		Received:  b.received.Load(),
		Downloads: b.downloads.Held(), Uploads: b.uploads.Held(),
		Refused: b.downloads.Refused(), RefusedUploads: b.uploads.Refused(),
		Stalled: b.downloads.stalled.Load(),
	}
	if r, ok := b.store.(*blob.Redis); ok {
		stats := r.Stats()
		st.Redis = &stats
	}
	return st
}
