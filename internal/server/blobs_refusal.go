package server

import (
	"errors"
	"net/http"
	"os"

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
	if r.Method == http.MethodPut {
		refuseBody(w, r, status, reason) // whose body may not have been read
		return
	}
	refuse(w, status, reason)
}

// blobStatus is the status for an error, and what is told of it: not what an address or a path of the server would be in.
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
