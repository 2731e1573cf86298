package hook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/outage"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// maxRequests bounds the questions that are asked at a time, and so the connections. A hook that answers within 10 ms
	// gets 1600 a second.
	maxRequests = 16
	// maxWaiting bounds the callers that wait for their turn: each has a connection of a client. A hook that answers within
	// 10 ms has answered all of them in less than a second.
	maxWaiting = 1024

	// Questions about players leave this much of both to those about publishers and recordings, which are few.
	reservedRequests = 4
	reservedWaiting  = 128

	// The pause between two attempts doubles from firstPause on.
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

var (
	// errBusy refuses a client when so many wait for the hook, or play, that no more are asked about.
	errBusy = refuse.New(http.StatusServiceUnavailable,
		"too many clients wait for the hook of this server, or play by its leave").For(refuse.Limit).After(time.Second)
	// errFails refuses a client because of a failure, which the log describes.
	errFails = refuse.New(http.StatusServiceUnavailable,
		"the hook that this server asks does not answer").For(refuse.HookFailed).After(time.Second)
)

// A failure is the error of a hook that has given no answer that can be used.
type failure struct {
	Err   error
	again bool // the next attempt may go better
}

func (e *failure) Error() string { return "the hook fails: " + e.Err.Error() }
func (e *failure) Unwrap() error { return e.Err }

// A Config says where the hook is.
type Config struct {
	URL     string        // see CheckURL
	Timeout time.Duration // for an answer, with all attempts and the time in the queue
	Open    bool          // a hook that fails allows all
	Node    string        // the address of this node; "" if the server is alone
	Log     *slog.Logger  // nil discards
}

// A Client asks the hook. New makes one. Its methods are for any goroutine.
type Client struct {
	cfg       Config
	log       *slog.Logger
	http      *http.Client
	slots     chan struct{}
	playSlots chan struct{} // questions about players need one of these, too

	ends context.Context // ends with the last moment of Close
	stop context.CancelFunc

	queue    chan Request // of ends
	workers  sync.WaitGroup
	deciding sync.WaitGroup
	swept    chan struct{} // closed when the sweeper has ended

	outage outage.Outage

	waiting, hits, attempts, spent atomic.Int64 // spent in ns, by attempts
	delivered, undelivered         atomic.Int64 // attempts to deliver ends

	mu      lock.Mutex
	closed  bool
	plays   map[playKey]*Play
	counts  map[Outcome]int64
	dropped int64 // ends
}

// An Outcome is what requests are counted by.
type Outcome struct {
	Event  Event
	Result string // allowed, refused, failed or busy; of ends sent or dropped
}

// CheckURL returns an error that does not tell the URL, which may have secrets in it.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "" || u.Fragment != "" {
		return errors.New("want http://[USER:PASSWORD@]HOST/PATH or https://")
	}
	return nil
}

// New returns a client of the hook, which need not be there yet. The call that ends its life is Close.
func New(cfg Config) (*Client, error) {
	if err := CheckURL(cfg.URL); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		cfg: cfg, log: lock.Logger(cfg.Log),
		http: &http.Client{
			Transport: &http.Transport{
				MaxConnsPerHost: maxRequests + endWorkers, MaxIdleConnsPerHost: maxRequests + endWorkers,
				IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxAnswer,
			},
			// Requests have secrets in them, which are for this URL alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, maxRequests), playSlots: make(chan struct{}, maxRequests-reservedRequests), queue: make(chan Request, maxEnds), swept: make(chan struct{}),
		plays: make(map[playKey]*Play), counts: make(map[Outcome]int64),
	}
	for _, e := range events {
		results := []string{"allowed", "refused", "failed", "busy"}
		if strings.HasSuffix(string(e), "_end") {
			results = []string{"sent", "dropped"}
		}
		for _, r := range results {
			c.counts[Outcome{e, r}] = 0
		}
	}
	c.ends, c.stop = context.WithCancel(context.Background())
	for range endWorkers {
		c.workers.Go(c.deliverAll)
	}
	go c.sweepAll()
	return c, nil
}

// Ask asks the hook about q, whose ID it sets. It waits until ctx ends or the time is up. The error is a
// [refuse.Refusal] or that of ctx.
func (c *Client) Ask(ctx context.Context, q *Request) (Answer, error) {
	if err := q.prepare(c.cfg.Node); err != nil {
		c.count(q.Event, "refused")
		return Answer{}, err
	}
	a, err := c.ask(ctx, ctx, q)
	if c.cfg.Open && err == errFails {
		return Answer{}, nil
	}
	return a, err
}

// ask is Ask of a request that is complete, without regard to Config.Open. It drops the request if wanted ends before its
// turn comes.
func (c *Client) ask(ctx, wanted context.Context, q *Request) (Answer, error) {
	a, err := c.askInTime(ctx, wanted, q)
	switch failed, ok := errors.AsType[*failure](err); {
	case ok:
		c.count(q.Event, "failed")
		c.noteFailure(failed)
		err = errFails
	case err == nil:
		c.count(q.Event, "allowed")
		c.noteFailure(nil)
	case isRefusal(err):
		c.count(q.Event, "refused")
		c.noteFailure(nil)
	case err == errBusy:
		c.count(q.Event, "busy")
	}
	return a, err
}

// isRefusal reports whether err is the hook's own refusal.
func isRefusal(err error) bool { return refuse.CauseOf(err) == refuse.Hook }

// noteFailure logs the reasons of the failures in a row, and the end of the row.
func (c *Client) noteFailure(err *failure) {
	if err == nil {
		if c.outage.Note(nil) {
			c.log.Info("the hook answers again")
		}
	} else if c.outage.Note(err.Err) {
		c.log.Warn("the hook fails", "reason", err.Err, "allows", c.cfg.Open)
	}
}

func (c *Client) count(e Event, result string) {
	c.mu.Lock()
	c.counts[Outcome{e, result}]++
	c.mu.Unlock()
}

func (c *Client) askInTime(parent, wanted context.Context, q *Request) (a Answer, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, &failure{Err: err}
	}
	most, slots := int64(maxRequests+maxWaiting), []chan struct{}{c.slots}
	if q.Event == PlayBegin {
		most, slots = most-reservedWaiting, []chan struct{}{c.playSlots, c.slots}
	}
	if c.waiting.Add(1) > most {
		c.waiting.Add(-1)
		return a, errBusy
	}
	defer c.waiting.Add(-1)
	ctx, cancel := context.WithTimeout(parent, c.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(c.ends, cancel)()
	for _, slot := range slots {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-wanted.Done():
			return a, wanted.Err()
		case <-ctx.Done():
			return a, cmp.Or(parent.Err(), error(&failure{Err: fmt.Errorf(
				"it has not answered %d other requests within %v (--hook-timeout)", maxRequests, c.cfg.Timeout)}))
		}
	}
	err = c.try(ctx, func() error {
		status, text, err := c.post(ctx, body)
		if err == nil {
			a, err = parseAnswer(q.Event, status, text)
			if err != nil && !isRefusal(err) {
				err = &failure{err, status >= 500}
			}
		}
		return err
	})
	if err != nil && parent.Err() != nil {
		err = parent.Err()
	}
	return a, err
}

// try calls attempt until it returns another error than a failure that may pass, or ctx ends. Then it returns what made
// the attempts fail.
func (c *Client) try(ctx context.Context, attempt func() error) (err error) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		now := attempt()
		failed, ok := errors.AsType[*failure](now)
		if !ok || !failed.again {
			return now
		}
		if err == nil || ctx.Err() == nil {
			err = now // not the end of ctx, if there was another reason
		}
		if !sleep.For(ctx, pause) {
			return err
		}
	}
}

// post sends a request, and returns the status and the body of the answer, which may be one byte too long. The error is
// a failure.
func (c *Client) post(ctx context.Context, body []byte) (status int, text []byte, err error) {
	began := time.Now()
	defer func() {
		c.attempts.Add(1)
		c.spent.Add(int64(time.Since(began)))
		if err != nil {
			err = &failure{c.plain(ctx, err), true}
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "millrace")
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	return res.StatusCode, text, err
}

// plain takes the URL, which may have secrets in it, out of an error, and says which limit it was.
func (c *Client) plain(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer within %v (--hook-timeout)", c.cfg.Timeout)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		return inner.Err
	}
	return err
}

// Stats is what a Client has done.
type Stats struct {
	Requests map[Outcome]int64
	Attempts int64 // POSTs
	Spent    time.Duration
	Hits     int64 // players that an answer for another one was for, too
	Dropped  int64 // ends
	Plays    int   // answers that are kept
	Waiting  int   // callers and requests
	Queued   int   // ends
}

// Stats returns what c has done.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Requests: maps.Clone(c.counts), Attempts: c.attempts.Load(), Spent: time.Duration(c.spent.Load()), Hits: c.hits.Load(),
		Dropped: c.dropped, Plays: len(c.plays), Waiting: int(c.waiting.Load()), Queued: len(c.queue),
	}
}
