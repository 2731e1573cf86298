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
	// firstPause is the pause before the second attempt. Each further pause is twice as long as the
	// one before, up to mostPause.
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// A failure means that the hook has given no usable answer.
type failure struct {
	Err   error
	again bool // whether another attempt may succeed
}

func (e *failure) Error() string { return "the hook fails: " + e.Err.Error() }
func (e *failure) Unwrap() error { return e.Err }

// A poster sends HTTP requests to the hook. Its methods may be called from any goroutine.
type poster struct {
	url     string
	timeout time.Duration // used only in error messages
	http    *http.Client

	attempts, spent atomic.Int64 // number of attempts, and their total duration in ns
}

func newPoster(url string, timeout time.Duration, maxConns int) *poster {
	return &poster{url: url, timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns,
			IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxAnswer,
		},
		// Do not follow redirects, because the requests contain secrets that only this URL may
		// receive.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// retry calls f until f succeeds, fails permanently, or ctx ends. It pauses between the calls. If
// ctx ends, retry returns the last failure before that.
func retry(ctx context.Context, f func() error) (err error) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		now := f()
		failed, ok := errors.AsType[*failure](now)
		if !ok || !failed.again {
			return now
		}
		if err == nil || ctx.Err() == nil {
			err = now // keep the earlier failure if the end of ctx caused this one
		}
		if !sleep.For(ctx, pause) {
			return err
		}
	}
}

// post sends body in an HTTP POST request. It returns the status and the content of the response.
// It reads at most maxAnswer+1 bytes of the response, and ignores further bytes. The error is a
// *failure.
func (p *poster) post(ctx context.Context, body []byte) (status int, text []byte, err error) {
	began := time.Now()
	defer func() {
		p.attempts.Add(1)
		p.spent.Add(int64(time.Since(began)))
		if err != nil {
			err = &failure{p.withoutURL(ctx, err), true}
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

// withoutURL removes the hook's URL from err, because the URL may contain secrets. If the deadline
// of ctx has passed, withoutURL returns an error that names the flag --hook-timeout.
func (p *poster) withoutURL(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer within %v (--hook-timeout)", p.timeout)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		return inner.Err
	}
	return err
}
