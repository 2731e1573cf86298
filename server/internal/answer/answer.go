// Package answer limits the memory that the server uses for responses that clients have not read
// yet. This includes the memory of the requests and transfers. The package also limits how long a
// client that does not read may use this memory.
package answer

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// RequestBytes is the memory, in bytes, that is counted for a request with an unread response.
	// It includes a goroutine, the state of net/http, a buffer, and a short body.
	RequestBytes = 32 << 10

	// The requests on one listener may use at most 1/requestsShare of the server's memory budget. A
	// request uses memory until its client has read the response.
	requestsShare = 8

	// If a request makes no progress for requestAfter, it may be ended to make room for a new one.
	requestAfter = time.Second
)

// answerAfter is how long a client may use memory when memory is short:
//
//   - A request or a download may be ended if it makes no progress for answerAfter.
//   - An HLS response may be ended if it takes longer than answerAfter. A player that keeps up with
//     the stream usually needs less time.
//
// When memory is very short, the limit is a fifth of answerAfter.
const answerAfter = 5 * time.Second

// A Budget counts and limits the memory of requests and transfers. It refuses requests that exceed
// a limit.
type Budget struct {
	Memory    *memory.Budget // memory budget of the whole server; nil if there is no limit
	Requests  memory.Loans   // memory of requests that are served on the main listener
	Operator  memory.Loans   // memory of requests that are served on the admin listener
	HLS       memory.Loans   // additional memory of HLS responses
	Downloads memory.Loans   // memory of downloads of files and blobs

	refusals *access.Refusals
	stall    time.Duration // time limit for a client that accepts no data
}

// New returns a Budget. m is the memory budget of the whole server, or nil if there is no limit.
// stall is the time limit for a client that accepts no data. refusals counts and logs the refused
// requests.
func New(m *memory.Budget, stall time.Duration, refusals *access.Refusals) *Budget {
	return &Budget{Memory: m, stall: stall, refusals: refusals}
}

// AddSteps adds steps to the server's memory budget. A step frees memory when memory is short. The
// added steps end requests and downloads that make no progress, and HLS responses that take too
// long.
func (b *Budget) AddSteps() {
	for _, a := range []struct {
		above int
		after time.Duration
	}{{12, answerAfter}, {14, answerAfter / 5}} {
		b.Memory.Add(
			memory.Step{Name: "requests", Above: a.above, Heap: true,
				Free: func(excess int64) int64 {
					freed := b.Requests.Free(excess, a.after)
					freed += b.Operator.Free(excess-freed, a.after)
					return freed + b.Downloads.Free(excess-freed, a.after)
				}},
			memory.Step{Name: "answers", Above: a.above, Free: func(excess int64) int64 {
				return b.HLS.Free(excess, a.after)
			}})
	}
}

// A Loan is the memory that a request uses until its client has read the response.
type Loan struct {
	budget   *Budget
	requests *memory.Loans
	loan     memory.Loan // in requests; empty after GiveBack
	hls      memory.Loan // in Budget.HLS; see LendHLS
	end      func()
}

type loanKey struct{}

// NewContext returns a copy of ctx for the requests on the connection c. The copy contains a Loan,
// which the HTTP/1 requests on c use one after the other.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	end := func() { _ = c.SetWriteDeadline(time.Unix(1, 0)) }
	return context.WithValue(ctx, loanKey{}, &Loan{end: end})
}

// Limit wraps the handler h. The returned handler calls h, but allows only a limited amount of
// memory for requests with unread responses. Without this limit, HTTP/2 clients could make the
// server store thousands of unread responses.
//
// A request that makes no progress is ended when a new request needs memory, or when the server is
// short of memory.
//
// Limit counts the memory in loans. Each listener has its own [memory.Loans], so that viewers
// cannot keep the operator from using the admin listener.
func (b *Budget) Limit(loans *memory.Loans, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := Of(r)
		if a == nil || r.ProtoMajor == 2 { // a connection can carry several requests at a time
			control := http.NewResponseController(w)
			a = &Loan{end: func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) }}
			r = r.WithContext(context.WithValue(r.Context(), loanKey{}, a))
		}
		a.budget, a.requests = b, loans
		defer a.GiveBack() // also after a panic
		if err := a.Resume(0); err != nil {
			b.RefuseFull(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
		if r.ProtoMajor == 2 { // otherwise net/http would wait for the client after this handler
			if a.Resume(0) != nil {
				panic(http.ErrAbortHandler)
			}
			_ = http.NewResponseController(w).Flush()
		}
	})
}

// Of returns the Loan of the request r. In tests that call a handler directly, Of returns nil. A
// nil Loan has no limit.
func Of(r *http.Request) *Loan {
	a, _ := r.Context().Value(loanKey{}).(*Loan)
	return a
}

// GiveBack stops counting the memory of the request. A handler calls it when another limit counts
// the request instead, such as live.Admission for viewers, Hub.Open for publishers, or
// Budget.Downloads for downloads.
func (a *Loan) GiveBack() {
	if a != nil {
		a.loan.Done()
		a.hls.Done()
	}
}

// LendHLS counts n bytes of an HLS response in Budget.HLS, until GiveBack is called.
func (a *Loan) LendHLS(n int) {
	if a != nil {
		a.budget.HLS.Add(&a.hls, int64(n), a.end)
	}
}

// Renew records that the client has accepted a part of the response. It returns false if the
// request was ended to free memory.
func (a *Loan) Renew() bool { return a == nil || a.loan.Renew() && !a.hls.Ended() }

// Resume counts additional memory for the response: n is the number of bytes. If GiveBack was
// called, Resume also counts the RequestBytes of the request again. If there is not enough memory,
// the error is a [refuse.Refusal].
func (a *Loan) Resume(n int) error {
	if a == nil {
		return nil
	}
	var err error
	limit := a.budget.Share()
	if limit > 0 {
		// Otherwise a response longer than the limit would be refused even without other requests.
		n = int(min(int64(n), limit/2))
	}
	switch {
	case a.loan.Empty():
		err = a.requests.AddWithin(&a.loan, limit, requestAfter, RequestBytes+int64(n), a.end)
	case n > 0:
		err = a.loan.Grow(limit, requestAfter, int64(n))
	}
	return err
}

// Lend reserves n more bytes of memory for the response to r; see [Loan.Resume]. If there is not
// enough memory, Lend refuses the request and returns false.
func (b *Budget) Lend(w http.ResponseWriter, r *http.Request, n int) bool {
	err := Of(r).Resume(n)
	if err != nil {
		b.RefuseFull(w, r, err)
	}
	return err == nil
}

// Share returns the number of bytes that the requests of a listener may use, or 0 for no limit.
func (b *Budget) Share() int64 {
	if b.Memory == nil {
		return 0
	}
	return b.Memory.Limit() / requestsShare
}

// RefuseFull refuses a request because there is no memory for its response. Over HTTP/2, the
// refusal has no body, because the client might not read a body.
func (b *Budget) RefuseFull(w http.ResponseWriter, r *http.Request, err error) {
	b.refusals.NoteRequest(access.KindOf(r), r, err)
	status := refuse.SetHeader(w.Header(), err)
	if r.ProtoMajor == 2 {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	refuse.WriteAndClose(w, r, status, err.Error())
}

// LimitWrite sets a deadline for the next write to the response. The write fails if the client does
// not accept the data within the time limit that was passed to New.
func (b *Budget) LimitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(b.stall))
}

// RefuseViewer sends err, an error from package live, to a viewer.
func (b *Budget) RefuseViewer(w http.ResponseWriter, r *http.Request, err error) {
	b.LimitWrite(w)
	if full := Of(r).Resume(0); full != nil {
		b.RefuseFull(w, r, full)
		return
	}
	if r.Context().Err() == nil { // otherwise the client has gone
		b.refusals.NoteRequest(access.Viewer, r, err)
	}
	refuse.Write(w, refuse.SetHeader(w.Header(), err), err.Error())
}
