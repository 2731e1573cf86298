// Package answer limits the memory that requests and transfers hold until their clients have read
// the responses, and for how long.
package answer

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// RequestBytes is the memory of a request with an unread response: its goroutine, the state of
	// net/http, a buffer, and a short body.
	RequestBytes = 32 << 10

	// requestsShare is the part of the memory budget that requests may hold until their answers
	// have been taken.
	requestsShare = 8

	// requestAfter is how long a request may take before it may be ended to make room for a new
	// one.
	requestAfter = time.Second
)

// answerAfter is how long a segment of HLS may be on its way before its answer is cut because
// memory is short. A player that keeps up gets one in less time than it lasts.
const answerAfter = 5 * time.Second

// A Budget limits and counts the memory of requests and transfers. It refuses requests above the
// limits.
type Budget struct {
	Memory    *memory.Budget // of the whole server; nil without a limit
	Requests  memory.Loans   // with responses being made or sent
	Operator  memory.Loans   // the same of the admin listener
	HLS       memory.Loans   // memory of HLS responses, in addition
	Downloads memory.Loans   // of files and blobs

	refusals *access.Refusals
	stall    time.Duration // in which a client must take something
}

// New returns a budget for clients that must take something of an answer within stall. m is nil
// without a limit.
func New(m *memory.Budget, stall time.Duration, refusals *access.Refusals) *Budget {
	return &Budget{Memory: m, stall: stall, refusals: refusals}
}

// AddSteps has requests and answers that take long end when memory is short.
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

// A Loan is the memory that a request may hold until the client has taken the answer.
type Loan struct {
	budget   *Budget
	requests *memory.Loans
	loan     *memory.Loan // of requests; nil while the request has another limit
	end      func()
}

type loanKey struct{}

// Limit returns next for requests that each hold a part of the memory for responses, counted in
// requests. A request that makes no progress is ended when a new one needs the memory, or when
// memory is short. Otherwise clients of HTTP/2 could make the server hold thousands of unread
// responses. Each listener has separate loans: viewers cannot keep the operator from using the
// admin listener.
func (b *Budget) Limit(requests *memory.Loans, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		end := func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) }
		a := &Loan{budget: b, requests: requests, end: end}
		defer a.GiveBack() // a panic, too, ends the request
		if err := a.Resume(0); err != nil {
			b.RefuseFull(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), loanKey{}, a)))
		if r.ProtoMajor == 2 { // otherwise net/http would wait for the client after this handler
			if a.Resume(0) != nil {
				panic(http.ErrAbortHandler)
			}
			_ = control.Flush()
		}
	})
}

// Of returns the Loan of a request, or nil: tests of single handlers have none. A nil Loan has no
// limit.
func Of(r *http.Request) *Loan {
	a, _ := r.Context().Value(loanKey{}).(*Loan)
	return a
}

// GiveBack gives the memory back: the request has another limit from now on, that of
// live.Admission, of Hub.Open, or of Budget.Downloads.
func (a *Loan) GiveBack() {
	if a != nil {
		a.loan.Done()
		a.loan = nil
	}
}

// Renew says that the client has taken a part of the answer. It returns false if the request was
// ended.
func (a *Loan) Renew() bool { return a == nil || a.loan.Renew() }

// Resume takes the memory again, for an answer that holds more bytes than a short one. The error is
// a [refuse.Refusal].
func (a *Loan) Resume(more int) error {
	if a == nil {
		return nil
	}
	var err error
	limit := a.budget.Share()
	if limit > 0 {
		more = int(min(int64(more), limit/2)) // a long answer can be had when there are few others
	}
	switch {
	case a.loan == nil:
		a.loan, err = a.requests.AddWithin(limit, requestAfter, RequestBytes+int64(more), a.end)
	case more > 0:
		err = a.loan.Grow(limit, requestAfter, int64(more))
	}
	return err
}

// Lend takes memory for an answer that is to be made and holds more bytes than a short one, or
// refuses the request and returns false.
func (b *Budget) Lend(w http.ResponseWriter, r *http.Request, bytes int) bool {
	err := Of(r).Resume(bytes)
	if err != nil {
		b.RefuseFull(w, r, err)
	}
	return err == nil
}

// Share returns how many bytes requests may hold; 0: as many as they like.
func (b *Budget) Share() int64 {
	if b.Memory == nil {
		return 0
	}
	return b.Memory.Limit() / requestsShare
}

// RefuseFull refuses a request because there is no memory for its response. Over HTTP/2 the refusal
// has no body, which the client could leave unread.
func (b *Budget) RefuseFull(w http.ResponseWriter, r *http.Request, why error) {
	b.refusals.NoteRequest(access.KindOf(r), r, why)
	status := refuse.SetHeader(w.Header(), why)
	if r.ProtoMajor == 2 {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	refuse.WriteAndClose(w, r, status, why.Error())
}

// LimitWrite sets the deadline for the next write.
func (b *Budget) LimitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(b.stall))
}

// RefuseViewer refuses a request with an error of package live.
func (b *Budget) RefuseViewer(w http.ResponseWriter, r *http.Request, err error) {
	b.LimitWrite(w)
	if full := Of(r).Resume(0); full != nil {
		b.RefuseFull(w, r, full)
		return
	}
	if r.Context().Err() == nil { // otherwise the client has gone away
		b.refusals.NoteRequest(access.Viewer, r, err)
	}
	refuse.Write(w, refuse.SetHeader(w.Header(), err), err.Error())
}
