package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/blob"
)

// blobsPath is where the values are.
const blobsPath = "/blobs/"

const blobMethods = "GET, HEAD, PUT, DELETE"

// errNoBlobs says why there is nothing at blobsPath.
const errNoBlobs = "no blobs are kept here: that takes millrace serve --blobs DIR, or --redis URL"

// A vault keeps values under keys for clients, and counts what it does.
type vault struct {
	server *Server
	store  blob.Store
	where  string // the store, for the log

	downloads *places
	uploads   *places

	answered [statusClasses]atomic.Int64 // by the first digit of their status
	received atomic.Int64                // bytes of bodies
	stalled  atomic.Int64                // downloads that were cut because the client took nothing
}

// newVault takes ownership of store.
func newVault(s *Server, store blob.Store, where string) *vault {
	return &vault{
		server: s, store: store, where: where,
		downloads: newPlaces(s.cfg.MaxDownloads,
			"%d blobs are being sent already, which is as many as may be (--max-downloads)"),
		uploads: newPlaces(s.cfg.MaxUploads,
			"%d blobs are being received already, which is as many as may be (--max-uploads)"),
	}
}

// besideBlobs answers what is at blobsPath, and leaves everything else to next. A ServeMux would redirect a key such as
// a//b to another one.
func (s *Server) besideBlobs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key, ok := strings.CutPrefix(r.URL.Path, blobsPath); ok {
			s.blobs(w, r, key)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// blobs answers everything at blobsPath.
func (s *Server) blobs(w http.ResponseWriter, r *http.Request, key string) {
	v := s.vault
	if v == nil {
		refuseUpload(w, r, http.StatusNotFound, errNoBlobs)
		return
	}
	a := &blobAnswer{ResponseWriter: w}
	defer func() { v.answered[min(max(a.status/100, 0), statusClasses-1)].Add(1) }()
	if err := blob.CheckKey(key); err != nil {
		refuseUpload(a, r, http.StatusBadRequest, err.Error())
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		v.get(a, r, key)
	case http.MethodPut, http.MethodDelete:
		v.write(a, r, key)
	default:
		a.Header().Set("Allow", blobMethods)
		refuseUpload(a, r, http.StatusMethodNotAllowed,
			fmt.Sprintf("method %.20q is not allowed here: %s", r.Method, blobMethods))
	}
}

// A blobAnswer remembers its status.
type blobAnswer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *blobAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController, and for code that looks for a way around memory.
func (a *blobAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// get answers GET and HEAD.
func (v *vault) get(a *blobAnswer, r *http.Request, key string) {
	if err := v.downloads.enter(); err != nil {
		v.refuse(a, r, &busyError{err})
		return
	}
	defer v.downloads.leave()
	watch := newStallWatch(a.ResponseWriter, r, v.server.cfg.StallTimeout)
	a.ResponseWriter = watch.w
	defer v.server.endWatch(watch, r, &v.stalled)
	if err := v.store.Serve(a, r, key); err != nil {
		v.refuse(a, r, err)
	}
}

// write answers PUT and DELETE.
func (v *vault) write(a *blobAnswer, r *http.Request, key string) {
	status, reason := v.server.askGate(a, r, "blob refused", "method", r.Method, "path", r.URL.Path, "client", r.RemoteAddr)
	if status != 0 {
		refuseUpload(a, r, status, "who writes a blob must be allowed to publish: "+reason)
		return
	}
	if err := v.change(a, r, key); err != nil {
		v.refuse(a, r, err)
	}
}

// change answers PUT and DELETE from clients that may write, unless it returns an error: a refused body takes no place.
func (v *vault) change(a *blobAnswer, r *http.Request, key string) error {
	if err := v.uploads.enter(); err != nil {
		return &busyError{err}
	}
	defer v.uploads.leave()
	control := http.NewResponseController(a)
	_ = control.SetWriteDeadline(time.Time{}) // a body may take longer than an answer
	defer func() { _ = control.SetWriteDeadline(time.Now().Add(v.server.cfg.StallTimeout)) }()
	if r.Method == http.MethodPut {
		return v.put(a, r, key)
	}
	if err := v.store.Delete(blob.ContextOf(r), key, blob.ConditionOf(r.Header)); err != nil {
		return err
	}
	a.WriteHeader(http.StatusNoContent)
	return nil
}

// put answers PUT, unless it returns an error.
func (v *vault) put(a *blobAnswer, r *http.Request, key string) error {
	h := r.Header
	put := blob.Put{Limit: v.server.cfg.MaxBlobBytes, Only: blob.ConditionOf(h)}
	var err error
	if put.TTL, err = blob.ParseTTL(h.Get(blob.HeaderTTL)); err != nil {
		return &requestError{http.StatusBadRequest, err}
	}
	switch {
	case h.Get("Content-Range") != "":
		return &requestError{http.StatusBadRequest,
			errors.New("a part of a blob cannot be put: send all of it, without Content-Range")}
	case h.Get("Content-Encoding") != "" && !strings.EqualFold(h.Get("Content-Encoding"), "identity"):
		return &requestError{http.StatusUnsupportedMediaType,
			errors.New("Content-Encoding is not kept, so that nobody could read the blob: send it without")}
	case r.ContentLength > put.Limit:
		return &blob.TooLargeError{Limit: put.Limit}
	}
	// Before the body is asked for (Expect: 100-continue), and again when it is there.
	ctx := blob.ContextOf(r)
	if err := v.store.Check(ctx, key, put.Only); err != nil {
		return err
	}
	body := newUpload(a, r, v)
	tag, created, err := v.store.Put(ctx, key, body, r.ContentLength, put)
	body.patience.over()
	if err != nil {
		return err
	}
	a.Header().Set("Etag", tag)
	status := http.StatusNoContent
	if created {
		status = http.StatusCreated
	}
	a.WriteHeader(status)
	v.server.log.Debug("blob put", "client", r.RemoteAddr, "path", r.URL.Path, "bytes", body.bytes, "created", created)
	return nil
}

// An upload is the body of a PUT, which must not be silent for too long. The shutdown waits for it.
type upload struct {
	r        *http.Request
	vault    *vault
	patience *patience
	bytes    int64
}

func newUpload(w http.ResponseWriter, r *http.Request, v *vault) *upload {
	set := http.NewResponseController(w).SetReadDeadline
	return &upload{r: r, vault: v, patience: newPatience(v.server.cfg.PublishTimeout, context.Background(), set)}
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.r.Body.Read(p)
	u.patience.note()
	u.bytes += int64(n)
	u.vault.received.Add(int64(n))
	return n, explainSilence(err, u.patience.idle)
}

// drain lets nobody else in, and returns a channel that is closed when all have left.
func (v *vault) drain() <-chan struct{} {
	idle := make(chan struct{})
	if v == nil {
		close(idle)
		return idle
	}
	downloads, uploads := v.downloads.drain(), v.uploads.drain()
	go func() {
		defer close(idle)
		<-downloads
		<-uploads
	}()
	return idle
}

// count returns how many requests are being answered.
func (v *vault) count() int {
	if v == nil {
		return 0
	}
	return v.downloads.count() + v.uploads.count()
}

func (v *vault) close() error {
	if v == nil {
		return nil
	}
	return v.store.Close()
}
