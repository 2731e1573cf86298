// Package refuse defines the error with which clients of all protocols are refused. The package
// that finds the reason creates the error. The package that serves the client sends the status and
// the reason to the client, and counts the cause.
package refuse

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// A Refusal says why a client is refused. It must not be changed when other goroutines may use it.
type Refusal struct {
	Status     int           // HTTP status; 0 if the client gets no response
	Reason     string        // a sentence for the client and the log
	RetryAfter time.Duration // delay before the client's next attempt; 0 if unknown
	Cause      Cause         // for metrics; "" means the usual cause for Status
}

// ErrShutdown is the Refusal that clients get while the server shuts down.
var ErrShutdown = New(http.StatusServiceUnavailable, "the server is shutting down").For(Shutdown)

// New returns a refusal with an HTTP status and a formatted reason.
func New(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Reason: fmt.Sprintf(format, args...)}
}

// For sets r.Cause, and returns r. It must not be called when other goroutines may use r.
func (r *Refusal) For(c Cause) *Refusal {
	r.Cause = c
	return r
}

// After sets r.RetryAfter to d, and returns r. It must not be called when other goroutines may use
// r.
func (r *Refusal) After(d time.Duration) *Refusal {
	r.RetryAfter = d
	return r
}

func (r *Refusal) Error() string { return r.Reason }

// Of returns the Refusal in the error chain of err, or nil.
func Of(err error) *Refusal {
	r, _ := errors.AsType[*Refusal](err)
	return r
}

// Status returns the HTTP status of the response to a request that failed with err. If err contains
// no Refusal, the client has disconnected. Status then returns 503.
func Status(err error) int {
	if r := Of(err); r != nil {
		return r.Status
	}
	return http.StatusServiceUnavailable
}

// SetHeader sets the headers of the response to a request that failed with err, and returns the
// HTTP status.
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

// A Cause is the name that metrics use for the reason of a refusal.
type Cause string

const (
	BadName     Cause = "bad_name"
	BadRequest  Cause = "bad_request"
	Path        Cause = "path"      // nothing is served at the path
	NotFound    Cause = "not_found" // no such stream, or no such object of its HLS
	Method      Cause = "method"
	NoToken     Cause = "no_token"
	Forbidden   Cause = "forbidden" // a wrong token, a wrong host, or publishing is off
	Format      Cause = "format"
	Conflict    Cause = "conflict"
	Limit       Cause = "limit"    // a limit of the server: streams, viewers, connections
	Memory      Cause = "memory"   // memory is short
	Shutdown    Cause = "shutdown" // the server shuts down
	ByOperator  Cause = "operator" // an operator has ended the stream
	Unavailable Cause = "unavailable"
	NotOwner    Cause = "not_owner" // another node thinks that this node owns the stream
	Protocol    Cause = "protocol"  // the bytes are not RTMP, or not TLS
	Silent      Cause = "silent"    // no data has arrived in time, or the client has left
	Address     Cause = "address"   // a limit of the client's address
	Proxy       Cause = "proxy"     // an invalid PROXY header, or one from an untrusted peer
	Hook        Cause = "hook"      // the hook refuses
	HookFailed  Cause = "hook_failed"
	Other       Cause = "other"
)

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

// CauseOf returns the cause of err for metrics. If err contains no Refusal, or if the cause is
// unknown, CauseOf returns Other.
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
