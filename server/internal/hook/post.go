package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

const (
	// The pause between two attempts doubles from firstPause on.
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// A failure is the error of a hook that has given no answer that can be used.
type failure struct {
	Err   error
	again bool // the next attempt may go better
}

func (e *failure) Error() string { return "the hook fails: " + e.Err.Error() }
func (e *failure) Unwrap() error { return e.Err }

// A poster sends requests to the hook. Its methods are for any goroutine.
type poster struct {
	url     string
	timeout time.Duration // for the message of an error alone
	http    *http.Client

	attempts, spent atomic.Int64 // spent in ns, by attempts
}

// newPoster returns a poster with so many connections at most.
func newPoster(url string, timeout time.Duration, connections int) *poster {
	return &poster{url: url, timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
			IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxAnswer,
		},
		// Requests have secrets in them, which are for this URL alone.
		CheckRedirect: func(
			*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// try calls attempt until it succeeds, fails permanently, or ctx ends. Then it returns the last
// temporary failure.
func try(ctx context.Context, attempt func() error) (err error) {
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

// post sends a request, and returns the status and the body of the answer, which may be one byte
// too long. The error is a failure.
func (p *poster) post(ctx context.Context, body []byte) (status int, text []byte, err error) {
	began := time.Now()
	defer func() {
		p.attempts.Add(1)
		p.spent.Add(int64(time.Since(began)))
		if err != nil {
			err = &failure{p.plain(ctx, err), true}
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "millrace")
	res, err := p.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	return res.StatusCode, text, err
}

// plain takes the URL, which may have secrets in it, out of an error, and says which limit it was.
func (p *poster) plain(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer within %v (--hook-timeout)", p.timeout)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		return inner.Err
	}
	return err
}
