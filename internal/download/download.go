package download

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// maxWait bounds the time between two tries, a server's own wish included: who looks on should see that it goes on.
const maxWait = time.Minute

// A download is one run. One goroutine uses it.
//
// Invariants:
//
//	0 ≤ have, and have ≤ known.Length unless that is unknown
//	0 ≤ best ≤ have, at the beginning of a try
type download struct {
	cfg    Config
	client *http.Client
	to     target

	have     int64  // bytes that to has
	known    origin // of what
	best     int64  // how many there were before the failures that are being counted
	restarts int    // how often what there was had to be forgotten
	result   Result
}

// Run fetches the file, and returns when it is there or when it cannot be had. If ctx ends, so does Run, with an error that
// wraps ctx's.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, err
	}
	d := &download{cfg: cfg, client: cfg.Client}
	if d.client == nil {
		var closeIdle func()
		d.client, closeIdle = newClient()
		defer closeIdle()
	}
	if cfg.Path != "" {
		d.to = &part{path: cfg.Path, force: cfg.Force}
	} else {
		d.to = &stream{w: cfg.Stdout}
	}
	var err error
	if d.have, d.known, err = d.to.open(hashURL(cfg.URL)); err != nil {
		return Result{}, err
	}
	d.best, d.result.Resumed = d.have, d.have
	err = d.run(ctx)
	if err == nil {
		err = d.to.finish()
	}
	hint := d.to.hint(d.have)
	err = errors.Join(err, d.to.close())
	d.result.Bytes, d.result.Checked = d.have, d.known.Length != unknown
	if err != nil && hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return d.result, err
}

// run tries until the file is there.
func (d *download) run(ctx context.Context) error {
	failures := 0
	for {
		d.result.Tries++
		err := d.try(ctx)
		var fatal *fatalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &fatal):
			return fatal.err
		case ctx.Err() != nil:
			return &interruptedError{context.Cause(ctx)}
		}
		failures++
		if d.have > d.best {
			d.best, failures = d.have, 1
		}
		if failures > d.cfg.Retries || d.restarts > d.cfg.Retries {
			return fmt.Errorf("given up after %d tries (--retries %d): %w", d.result.Tries, d.cfg.Retries, err)
		}
		if err := d.pause(ctx, err, failures); err != nil {
			return err
		}
	}
}

// try makes one request. It returns nil if the file is there then.
func (d *download) try(ctx context.Context) error {
	ctx, p, over := withPatience(ctx, d.cfg.StallTimeout)
	defer over()
	res, err := d.ask(ctx)
	if err != nil {
		return explain(ctx, err)
	}
	defer res.Body.Close()
	v, err := judge(res, d.have, d.known)
	p.rest()
	if err != nil {
		return err
	}
	return d.take(ctx, p, res, v)
}

// ask asks for the bytes that are missing, if the file still is the version that the others are of, and otherwise for all.
func (d *download) ask(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.cfg.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity") // a length and a range of what is encoded are not the file's
	req.Header.Set("User-Agent", "millrace")
	if v := d.known.validator(); d.have > 0 && v != "" {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		req.Header.Set("If-Range", v)
	}
	return d.client.Do(req)
}

// explain returns why a request or a body has ended.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var redirect *redirectError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &redirect):
		return &fatalError{redirect}
	case errors.As(err, &certificate):
		return &fatalError{err}
	}
	return err
}

// take does what the verdict says.
func (d *download) take(ctx context.Context, p *patience, res *http.Response, v verdict) error {
	skip := int64(0)
	switch v.action {
	case complete:
		d.known = v.origin
		return nil
	case discard:
		d.note("what is there is not the beginning of the file on the server: beginning anew")
		if err := d.restart(v.origin); err != nil {
			return err
		}
		return errDiscarded
	case begin:
		if err := d.begin(v.origin); err != nil {
			return err
		}
	case repeat:
		d.note("the server does not send parts of files: reading again what is there already")
		skip = d.have
	case resume:
		d.known = v.origin
	}
	d.tell(d.have)
	b := &body{src: res.Body, left: v.length, patience: p}
	if err := d.receive(ctx, b, skip); err != nil {
		return err
	}
	if v.length != unknown {
		if err := b.atEnd(); err != nil {
			return &fatalError{err}
		}
	}
	return d.whole()
}

// begin makes room for a file that comes from its first byte.
func (d *download) begin(o origin) error {
	if d.have > 0 && d.known.validator() == "" {
		d.note("the server names no version of the file by which it could be gone on with: beginning anew")
	} else if d.have > 0 {
		d.note("the file on the server is not what it was: beginning anew")
	}
	if o.Encoding != "" {
		d.note(fmt.Sprintf("the server sends the file encoded (%q), though it was asked not to: it is kept so", o.Encoding))
	}
	return d.restart(o)
}

// restart forgets what there is: the next byte is the first of o.
func (d *download) restart(o origin) error {
	if err := d.to.restart(); err != nil {
		return &fatalError{err}
	}
	if d.have > 0 {
		d.restarts++
	}
	d.have, d.best, d.known = 0, 0, o
	if err := d.to.remember(o); err != nil {
		return &fatalError{err}
	}
	return nil
}

// receive reads a body, skips the first bytes, which are there, and writes the others.
func (d *download) receive(ctx context.Context, b *body, skip int64) error {
	b.came = func(n int) { d.result.Fetched += int64(n) }
	if skip > 0 {
		n, err := io.CopyN(io.Discard, b, skip)
		if err != nil {
			return explain(ctx, fmt.Errorf("after %d bytes of %d that are there already: %w", n, skip, err))
		}
	}
	came := d.have
	b.came = func(n int) {
		d.result.Fetched += int64(n)
		came += int64(n)
		d.tell(came)
	}
	report, err := chunk.Copy(ctx, d.to.writer(), b)
	d.have += report.Bytes
	switch {
	case b.err != nil, err != nil && ctx.Err() != nil:
		return explain(ctx, fmt.Errorf("after %d bytes: %w", d.have, b.err))
	case err != nil:
		return &fatalError{fmt.Errorf("the file cannot be written: %w", err)}
	}
	return nil
}

// whole returns nil if the file is all there, now that a body has come to its end.
func (d *download) whole() error {
	switch all := d.known.Length; {
	case all == unknown || all == d.have:
		return nil
	case all < d.have:
		return &fatalError{fmt.Errorf("there are %d bytes, of a file that has %d", d.have, all)}
	}
	return fmt.Errorf("the server sent a part only: there are %d bytes of %d", d.have, d.known.Length)
}

// pause says why a try has failed, and waits before the next one.
func (d *download) pause(ctx context.Context, why error, failures int) error {
	wait := min(d.cfg.Backoff<<min(failures-1, 16), maxWait)
	wait = wait/2 + rand.N(wait/2+1) // not all at once who lost the same server
	var busy *busyError
	if errors.As(why, &busy) && busy.after > wait {
		wait = busy.after
	}
	if why != errDiscarded { // which was told
		d.note(fmt.Sprintf("%v; trying again in %v", why, wait.Round(time.Millisecond)))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &interruptedError{context.Cause(ctx)}
	}
}

func (d *download) note(text string) {
	if d.cfg.Note != nil {
		d.cfg.Note(text)
	}
}

func (d *download) tell(have int64) {
	if d.cfg.Progress != nil {
		d.cfg.Progress(have, d.known.Length)
	}
}
