package upload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/internal/retry"
)

const (
	// continueTimeout is how long a server may take to say that it wants the body. A server that does not know Expect
	// says nothing.
	continueTimeout = 2 * time.Second

	// maxHeader bounds what a server's headers may take. Real ones have a few KiB.
	maxHeader = 64 << 10

	// sendBuffer is what is read and sent at a time: net/http's 4 KiB would take sixteen times the system calls.
	sendBuffer = 64 << 10
)

// An upload is one run. One goroutine uses it.
type upload struct {
	cfg    Config
	client *http.Client
	file   *os.File // or nil
	size   int64    // or unknown
	begun  bool     // standard input has been read from, or is being, and cannot be again
	result Result
}

// Run puts the file, and returns when it is there or when it cannot be put. If ctx ends, so does Run, with an error that
// wraps ctx's.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, err
	}
	u := &upload{cfg: cfg, client: cfg.Client, size: unknown}
	if u.client == nil {
		t := newTransport()
		u.client = &http.Client{Transport: t}
		defer t.CloseIdleConnections()
	}
	client := *u.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	u.client = &client
	if cfg.Path != "" {
		if err := u.open(); err != nil {
			return Result{}, err
		}
		defer u.file.Close() // which was only read
	}
	err := u.run(ctx)
	return u.result, err
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		ForceAttemptHTTP2:      true, // which net/http does by itself only with a dialer of its own
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    10 * time.Second, // as net/http's own client
		ExpectContinueTimeout:  continueTimeout,
		WriteBufferSize:        sendBuffer,
	}
}

// open opens the file. What is not a regular file, such as a pipe, or does not tell its length, is read as standard input is:
// once.
func (u *upload) open() error {
	f, err := os.Open(u.cfg.Path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory", u.cfg.Path)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	if u.file = f; info.Mode().IsRegular() && !saysNothing(f, info) {
		u.size = info.Size()
	}
	return nil
}

// saysNothing reports whether a file says that it is empty, and is not, as in /proc. Its length is unknown until it is read.
func saysNothing(f *os.File, info os.FileInfo) bool {
	if info.Size() > 0 {
		return false
	}
	var p [1]byte
	n, _ := f.ReadAt(p[:], 0) // if it fails, so will the upload
	return n > 0
}

// An interruptedError says that the context has ended. Its cause, as "interrupt signal received", says no more to people.
type interruptedError struct{ cause error }

func (e *interruptedError) Error() string { return "interrupted" }
func (e *interruptedError) Unwrap() error { return e.cause }

// run tries until the file is there.
func (u *upload) run(ctx context.Context) error {
	for {
		u.result.Tries++
		again, err := u.try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return &interruptedError{context.Cause(ctx)}
		case !again:
			return err
		case u.begun:
			return fmt.Errorf("%w; not tried again, because what was read of standard input cannot be read again", err)
		case u.result.Tries > u.cfg.Retries:
			return fmt.Errorf("given up after %s (--retries %d): %w", countTries(u.result.Tries), u.cfg.Retries, err)
		}
		if err := u.pause(ctx, err); err != nil {
			return err
		}
	}
}

func countTries(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}

// A stalledError is the cause of a try's end when the server took nothing for too long.
type stalledError struct{ limit time.Duration }

func (e *stalledError) Error() string {
	return fmt.Sprintf("the server took nothing, and said nothing, for %v (--stall-timeout)", e.limit)
}

// try makes one request. again says that the server cannot have accepted it, and may the next.
func (u *upload) try(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := func() { cancel(&stalledError{u.cfg.StallTimeout}) }
	b := newBody(u.source(), u.size, u.cfg.StallTimeout, stalled, u.tell)
	defer b.over()
	req, err := u.request(ctx, b)
	if err != nil {
		return false, err
	}
	res, err := u.client.Do(req)
	sent, ended, failed := b.over()
	u.begun = u.size == unknown && b.begun()
	if err != nil {
		return u.failed(ctx, err, sent, ended, failed)
	}
	defer res.Body.Close()
	u.result.Bytes, u.result.ETag = sent, res.Header.Get("Etag")
	u.result.Created = res.StatusCode == http.StatusCreated
	defer time.AfterFunc(u.cfg.StallTimeout, stalled).Stop() // a refusal has a text
	var later *laterError
	err = judge(res, u.cfg.IfAbsent)
	if (err == nil || err == errNoBlob) && !ended { // whatever it was good for
		err = fmt.Errorf("the server answers %d after %d bytes, which are not all", res.StatusCode, sent)
	}
	return errors.As(err, &later), err
}

// failed says what it means that no answer came.
func (u *upload) failed(ctx context.Context, err error, sent int64, ended bool, failed error) (again bool, _ error) {
	var certificate *tls.CertificateVerificationError
	switch {
	case failed != nil:
		return false, fmt.Errorf("reading after %d bytes: %w", sent, failed)
	case errors.As(err, &certificate):
		return false, err
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if u.size != unknown && !ended && sent < u.size {
		return true, fmt.Errorf("after %d bytes of %d: %w", sent, u.size, err)
	}
	var dial *net.OpError
	if ended && !(errors.As(err, &dial) && dial.Op == "dial") {
		return false, fmt.Errorf("no answer came after the last byte, and nobody knows whether it was accepted: %w", err)
	}
	return true, err
}

// source returns what a try reads, from the beginning.
func (u *upload) source() io.Reader {
	switch {
	case u.size != unknown:
		return io.NewSectionReader(u.file, 0, u.size)
	case u.file != nil:
		return u.file
	}
	return u.cfg.Stdin
}

func (u *upload) request(ctx context.Context, b *body) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.cfg.URL, b)
	if err != nil {
		return nil, err
	}
	if req.ContentLength = u.size; u.size == 0 {
		req.Body = http.NoBody
	}
	// net/http goes on sending to a connection that is to be used again, also after a refusal, and then drops the refusal if
	// that fails.
	req.Close = true
	req.Header.Set("User-Agent", "millrace")
	req.Header.Set("Content-Type", "application/octet-stream")
	if u.size != 0 {
		req.Header.Set("Expect", "100-continue") // a refusal should come before the body is sent
	}
	if u.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+u.cfg.Token)
	}
	if u.cfg.TTL > 0 {
		req.Header.Set("Millrace-TTL", strconv.FormatInt(u.cfg.TTL.Milliseconds(), 10)+"ms")
	}
	if u.cfg.IfAbsent {
		req.Header.Set("If-None-Match", "*")
	}
	return req, nil
}

// pause says why a try has failed, and waits before the next one.
func (u *upload) pause(ctx context.Context, why error) error {
	var asked time.Duration
	if later, ok := errors.AsType[*laterError](why); ok {
		asked = later.after
	}
	wait := retry.Wait(u.cfg.Backoff, u.result.Tries, asked)
	if u.cfg.Note != nil {
		u.cfg.Note(fmt.Sprintf("%v; trying again in %v", why, wait.Round(time.Millisecond)))
	}
	if err := retry.Sleep(ctx, wait); err != nil {
		return &interruptedError{err}
	}
	return nil
}

func (u *upload) tell(sent int64) {
	if u.cfg.Progress != nil {
		u.cfg.Progress(sent, u.size)
	}
}
