package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/internal/blob"
)

// A requestError says what is wrong with a request.
type requestError struct {
	status int
	err    error
}

func (e *requestError) Error() string { return e.err.Error() }

// A busyError says that there is no place for now.
type busyError struct{ err error }

func (e *busyError) Error() string { return e.err.Error() }

// refuse answers with what an error means. A 503 says that nothing has changed, and that the same may be tried again.
func (v *vault) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, reason := blobStatus(err)
	if status >= http.StatusInternalServerError {
		v.server.log.Warn("blob request failed", "method", r.Method, "path", r.URL.Path, "client", r.RemoteAddr,
			"status", status, "reason", err)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	refuseUpload(w, r, status, reason)
}

const (
	// refusedFor is how long a refused body is still taken in: long enough for an answer to reach the other side of the
	// world, and for the client there to stop.
	refusedFor = 2 * time.Second

	// refusedBytes bounds the same in bytes: what a gigabit a second brings in a quarter of that time.
	refusedBytes = 64 << 20
)

// refuseUpload refuses a request whose body may still be coming. It takes in some of that after its answer: a connection that
// is closed while bytes arrive is reset, and the reset takes the answer away from a client that has not read it yet. net/http
// waits without reading, and not at all if the client has sent Expect: 100-continue.
func refuseUpload(w http.ResponseWriter, r *http.Request, status int, reason string) {
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody {
		refuse(w, status, reason)
		return
	}
	refuseBody(&shortResponse{ResponseWriter: w}, r, status, reason)
	control := http.NewResponseController(w)
	if errors.Join(control.Flush(), control.SetReadDeadline(time.Now().Add(refusedFor))) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, refusedBytes)
	}
}

// A shortResponse is one Write, and says how long that is, so that its client has all of it before the handler returns.
type shortResponse struct {
	http.ResponseWriter
	status int
}

// WriteHeader leaves the header to Write.
func (w *shortResponse) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *shortResponse) Write(p []byte) (int, error) {
	w.Header().Set("Content-Length", strconv.Itoa(len(p)))
	w.ResponseWriter.WriteHeader(w.status)
	return w.ResponseWriter.Write(p)
}

// blobStatus is the status for an error, and what the client is told of it: nothing that an address or a path of the
// server could be in.
func blobStatus(err error) (status int, reason string) {
	var request *requestError
	var busy *busyError
	var large *blob.TooLargeError
	var body *blob.BodyError
	var away *blob.UnavailableError
	switch {
	case errors.As(err, &request):
		return request.status, request.Error()
	case errors.As(err, &busy):
		return http.StatusServiceUnavailable, busy.Error()
	case errors.Is(err, blob.ErrNotFound):
		return http.StatusNotFound, blob.ErrNotFound.Error()
	case errors.Is(err, blob.ErrCondition):
		return http.StatusPreconditionFailed, "If-Match or If-None-Match does not hold"
	case errors.Is(err, blob.ErrUnsure):
		return http.StatusInternalServerError, blob.ErrUnsure.Error()
	case errors.Is(err, blob.ErrFull):
		return http.StatusInsufficientStorage, blob.ErrFull.Error()
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, large.Error() + " (--max-blob-bytes)"
	case errors.As(err, &body) && errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, body.Err.Error()
	case errors.As(err, &body):
		return http.StatusBadRequest, body.Error()
	case errors.As(err, &away):
		return http.StatusServiceUnavailable, "the store cannot be reached"
	}
	return http.StatusInternalServerError, "the store has failed"
}
