// Package refuse has the error with which clients are refused, over every protocol. The package
// that knows the reason makes it; a protocol answers with its status and reason, and counts its
// cause.
package refuse

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// A Refusal says why a client is refused. It is never changed once others may see it.
type Refusal struct {
	Status     int           // of HTTP; 0 if the client gets no answer
	Reason     string        // a sentence for the client and the log
	RetryAfter time.Duration // when the client should try again; 0: not known
	Cause      Cause         // for metrics; "": that of Status
}

// ErrShutdown refuses all clients of a server that shuts down.
var ErrShutdown = New(http.StatusServiceUnavailable, "the server is shutting down").For(Shutdown)

// New returns a refusal with a status of HTTP and a formatted reason.
func New(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Reason: fmt.Sprintf(format, args...)}
}

// For sets the cause of a new refusal, and returns it.
func (r *Refusal) For(c Cause) *Refusal {
	r.Cause = c
	return r
}

// After sets when the client of a new refusal should try again, and returns the refusal.
func (r *Refusal) After(d time.Duration) *Refusal {
	r.RetryAfter = d
	return r
}

func (r *Refusal) Error() string { return r.Reason }

// Of returns the Refusal that err is or wraps, or nil.
func Of(err error) *Refusal {
	r, _ := errors.AsType[*Refusal](err)
	return r
}

// Status returns the HTTP status for err: 503 if err is not a Refusal, because the client has gone
// away then.
func Status(err error) int {
	if r := Of(err); r != nil {
		return r.Status
	}
	return http.StatusServiceUnavailable
}

// SetHeader sets the header fields of a response that refuses with err, and returns its status.
func SetHeader(h http.Header, err error) (status int) {
	status = Status(err)
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="millrace"`)
	}
	if r := Of(err); r != nil && r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.RetryAfter.Seconds()))))
	}
	return status
}

// A Cause says in a word why a client is refused.
type Cause string

const (
	BadName     Cause = "bad_name"
	BadRequest  Cause = "bad_request"
	Path        Cause = "path"      // nothing is served there
	NotFound    Cause = "not_found" // the stream, or a part of its HLS
	Method      Cause = "method"
	NoToken     Cause = "no_token"
	Forbidden   Cause = "forbidden" // a wrong token, a wrong host, or publishing is off
	Format      Cause = "format"
	Conflict    Cause = "conflict"
	Limit       Cause = "limit"    // of the server: streams, viewers, connections
	Memory      Cause = "memory"   // is short
	Shutdown    Cause = "shutdown" // of the server
	ByOperator  Cause = "operator" // has ended the stream
	Unavailable Cause = "unavailable"
	NotOwner    Cause = "not_owner" // another node takes this one for the owner of a stream
	Protocol    Cause = "protocol"  // the bytes are not RTMP, or not TLS
	Silent      Cause = "silent"    // nothing came in time, or the client left
	Address     Cause = "address"   // a limit of its address
	Proxy       Cause = "proxy"     // an invalid PROXY header, or one of an untrusted peer
	Hook        Cause = "hook"      // the hook refuses
	HookFailed  Cause = "hook_failed"
	Other       Cause = "other"
)

// ofStatus has the causes of refusals without one.
var ofStatus = map[int]Cause{
	http.StatusBadRequest:           BadRequest,
	http.StatusUnauthorized:         NoToken,
	http.StatusForbidden:            Forbidden,
	http.StatusNotFound:             NotFound,
	http.StatusMethodNotAllowed:     Method,
	http.StatusNotAcceptable:        Format,
	http.StatusConflict:             Conflict,
	http.StatusMisdirectedRequest:   NotOwner,
	http.StatusUnsupportedMediaType: Format,
	http.StatusServiceUnavailable:   Unavailable,
}

// CauseOf returns the cause of err: Other if err is not a Refusal, or has none.
func CauseOf(err error) Cause {
	r := Of(err)
	if r == nil {
		return Other
	}
	if r.Cause != "" {
		return r.Cause
	}
	if c, ok := ofStatus[r.Status]; ok {
		return c
	}
	return Other
}
