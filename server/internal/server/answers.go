package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/limit"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// requestBytes is what a request holds whose client does not take the answer: its goroutine,
	// what net/http has for it, a buffer, and a short body.
	requestBytes = 32 << 10
	// metricsBytes is what an answer to /metrics holds beside that.
	metricsBytes = 128 << 10
	// streamBytes is what the description of one stream, or viewer, holds, as a value and as JSON.
	streamBytes = 2 << 10

	// requestsShare is the part of the memory budget that requests may hold until their answers
	// have been taken.
	requestsShare = 8
	// requestAfter is how long a request may take before it may be ended to make room for a new
	// one.
	requestAfter = time.Second
)

// answerAfter is how long a segment of HLS may be on its way before its answer is cut because memory is short. A player that
// keeps up gets one in less time than it lasts.
const answerAfter = 5 * time.Second

// A budget has what requests and transfers may hold, and what they do hold.
type budget struct {
	memory    *memory.Budget // of the whole server; nil without a limit
	requests  memory.Loans   // whose answers are being made or sent
	operator  memory.Loans   // the same of the admin listener
	answers   memory.Loans   // of HLS, what they hold beside that
	downloads memory.Loans   // of files and blobs

	fileBlocks, blobBlocks *millrace.Pool // accounts of the blocks of their transfers

	refusals *access.Refusals
	log      *slog.Logger
	stall    time.Duration // in which a client must take something
	unsent   int           // bytes that the kernel may hold for a download
}

func newBudget(cfg *Config, refusals *access.Refusals) *budget {
	b := &budget{
		fileBlocks: millrace.DefaultPool().Account(), blobBlocks: millrace.DefaultPool().Account(),
		refusals: refusals, log: cfg.Log, stall: cfg.StallTimeout, unsent: cfg.Unsent,
	}
	if cfg.MemoryBytes > 0 {
		b.memory = memory.New(cfg.MemoryBytes, millrace.DefaultPool(), cfg.Log)
	}
	return b
}

// addSteps has requests and answers that take long end when memory is short.
func (b *budget) addSteps() {
	for _, a := range []struct {
		above int
		after time.Duration
	}{{12, answerAfter}, {14, answerAfter / 5}} {
		b.memory.Add(
			memory.Step{Name: "requests", Above: a.above, Heap: true, Free: func(excess int64) int64 {
				freed := b.requests.Free(excess, a.after)
				freed += b.operator.Free(excess-freed, a.after)
				return freed + b.downloads.Free(excess-freed, a.after)
			}},
			memory.Step{Name: "answers", Above: a.above, Free: func(excess int64) int64 {
				return b.answers.Free(excess, a.after)
			}})
	}
}

// An answerLoan is the memory that a request may hold until the client has taken the answer.
type answerLoan struct {
	budget   *budget
	requests *memory.Loans
	loan     *memory.Loan // of requests; nil while the request has another limit
	end      func()
}

type answerKey struct{}

// limitAnswers gives each request a part of the memory for answers. A request that holds it for
// long, because its client takes nothing, is ended when a new one needs the memory, or when memory
// is short. Without that, clients of HTTP/2 could make the server hold thousands of answers that
// they do not take. The memory is that of requests: viewers cannot keep the operator from what the
// admin listener tells.
func (b *budget) limitAnswers(requests *memory.Loans, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		end := func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) }
		a := &answerLoan{budget: b, requests: requests, end: end}
		defer a.wait() // a panic, too, ends the request
		if err := a.resume(0); err != nil {
			b.refuseFull(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), answerKey{}, a)))
		if r.ProtoMajor == 2 { // otherwise net/http would wait for the client after this handler
			if a.resume(0) != nil {
				panic(http.ErrAbortHandler)
			}
			_ = control.Flush()
		}
	})
}

// answerOf returns the answerLoan of a request. Tests of single handlers have none.
func answerOf(r *http.Request) *answerLoan {
	a, _ := r.Context().Value(answerKey{}).(*answerLoan)
	return a
}

// wait gives the memory back: the request has another limit from now on, that of viewers,
// publishers or downloads.
func (a *answerLoan) wait() {
	if a != nil {
		a.loan.Done()
		a.loan = nil
	}
}

// renew says that the client has taken a part of the answer. It returns false if the request was
// ended.
func (a *answerLoan) renew() bool { return a == nil || a.loan.Renew() }

// resume takes the memory again, for an answer that holds more bytes than a short one. The error is
// a [refuse.Refusal].
func (a *answerLoan) resume(more int) error {
	if a == nil {
		return nil
	}
	var err error
	limit := a.budget.answerLimit()
	if limit > 0 {
		more = int(min(int64(more), limit/2)) // a long answer can be had when there are few others
	}
	switch {
	case a.loan == nil:
		a.loan, err = a.requests.AddWithin(limit, requestAfter, requestBytes+int64(more), a.end)
	case more > 0:
		err = a.loan.Grow(limit, requestAfter, int64(more))
	}
	return err
}

// lend takes memory for an answer that is to be made and holds more bytes than a short one, or
// refuses the request.
func (b *budget) lend(w http.ResponseWriter, r *http.Request, bytes int) bool {
	err := answerOf(r).resume(bytes)
	if err != nil {
		b.refuseFull(w, r, err)
	}
	return err == nil
}

// answerLimit returns how many bytes requests may hold; 0: as many as they like.
func (b *budget) answerLimit() int64 {
	if b.memory == nil {
		return 0
	}
	return b.memory.Limit() / requestsShare
}

// refuseFull refuses a request for whose answer there is no memory. Over HTTP/2 the answer has no
// body: its client could leave that.
func (b *budget) refuseFull(w http.ResponseWriter, r *http.Request, why error) {
	b.refusals.NoteRequest(access.KindOf(r), r, why)
	status := refuse.SetHeader(w.Header(), why)
	if r.ProtoMajor == 2 {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(status)
		return
	}
	refuse.WriteAndClose(w, r, status, why.Error())
}

// limitWrite sets when the client must have taken what is written next.
func (b *budget) limitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(b.stall))
}

// acquire admits a transfer, which l.Release ends, or returns the reason why not.
func (b *budget) acquire(l *limit.Limiter) error {
	if err := b.memory.Admit(); err != nil {
		return err
	}
	return l.Acquire()
}

// refuseViewer refuses a request with an error of package relay.
func (b *budget) refuseViewer(w http.ResponseWriter, r *http.Request, err error) {
	b.limitWrite(w)
	if full := answerOf(r).resume(0); full != nil {
		b.refuseFull(w, r, full)
		return
	}
	if r.Context().Err() == nil { // otherwise the client has gone away
		b.refusals.NoteRequest(access.Viewer, r, err)
	}
	refuse.Write(w, refuse.SetHeader(w.Header(), err), err.Error())
}

// tooMany returns the refusal of what a limit of transfers has no room for.
func tooMany(things, done string, limit int, flag string) error {
	return refuse.New(http.StatusServiceUnavailable,
		"%d %s are being %s already, as many as --max-%s allows", limit, things, done, flag).
		For(refuse.Limit).After(time.Second)
}
