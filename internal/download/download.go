package download

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/retry"
)

const (
	// A try that has brought much is followed by the next one after a fraction of the first backoff. Then a connection that
	// breaks again and again costs little, and a server that breaks it is asked 32 times a second at most.
	much     = 64 << 10
	fraction = 16
)

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

	wanted   origin // the address, and no more
	have     int64  // bytes that to has
	known    origin // of what; its address is wanted's, or one that is renewable with it, until an answer has come
	useless  bool   // they are not the file's beginning, and are replaced as soon as that comes
	best     int64  // how many there were before the failures that are being counted
	restarts int    // how often what there was had to be forgotten
	refused  bool   // it would be the same the next time
	result   Result
}

// Run fetches the file, and returns when it is there or when it cannot be had. If ctx ends, so does Run, with an error that
// wraps ctx's.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, err
	}
	d := &download{cfg: cfg, client: cfg.Client, wanted: originAt(cfg.URL)}
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
	if d.have, d.known, err = d.to.open(d.wanted); err != nil {
		return Result{}, err
	}
	d.best, d.result.Resumed = d.have, d.have
	if err = d.run(ctx); err == nil {
		err = d.to.finish()
		d.refused = err != nil
	}
	hint := d.to.hint(d.have, d.prospect())
	err = errors.Join(err, d.to.close())
	d.result.Bytes, d.result.Checked = d.have, d.known.Length != unknown
	var foreign *foreignError // whose own hint is to do something else
	if err != nil && hint != "" && !errors.As(err, &foreign) {
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
			d.refused = !fatal.local
			return fatal.err
		case ctx.Err() != nil:
			return &interruptedError{context.Cause(ctx)}
		}
		failures++
		grown := d.have - d.best
		if grown > 0 {
			d.best, failures = d.have, 1
		}
		if failures > d.cfg.Retries || d.restarts > d.cfg.Retries {
			return fmt.Errorf("given up after %s (--retries %d): %w", countTries(d.result.Tries), d.cfg.Retries, err)
		}
		first, times := d.cfg.Backoff, failures
		if grown >= much {
			first, times = first/fraction, 1
		}
		if err := d.pause(ctx, err, first, times); err != nil {
			return err
		}
	}
}

// prospect says what comes of the bytes that there are if the same command is given again, or "" if that depends on more.
func (d *download) prospect() string {
	switch {
	case d.refused, d.known.URL != d.wanted.URL:
		return ""
	case d.useless:
		return "which are not of the file that the server has now"
	case d.known.validator() == "":
		return "and the server names no version of the file: the same command begins anew"
	}
	return "and the same command goes on from there"
}

func countTries(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
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
	if err == nil {
		v, err = d.renew(res, v)
	}
	if err != nil {
		return err
	}
	return d.take(ctx, p, res, v)
}

// renew lets a verdict pass on bytes of an address that differs in its query, such as a signature that has run out,
// only if the answer shows that the file is the same one. An entity tag is one address's own, so both it and the length
// must be there.
func (d *download) renew(res *http.Response, v verdict) (verdict, error) {
	v.origin.URL, v.origin.Place = d.wanted.URL, d.wanted.Place
	if d.known.URL == d.wanted.URL {
		return v, nil
	}
	kept := v.action != begin && v.action != discard
	switch {
	case kept && res.Header.Get("Etag") == d.known.ETag && v.all == d.known.Length:
		if err := d.to.remember(v.origin); err != nil {
			return v, &fatalError{err: err}
		}
	case !d.cfg.Force:
		return v, &fatalError{err: &foreignError{part: d.cfg.Path + partSuffix, origin: d.known, wanted: d.wanted}}
	case kept:
		v.action = discard
	}
	return v, nil
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
		return &fatalError{err: redirect}
	case errors.As(err, &certificate):
		return &fatalError{err: err}
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
		return d.discard()
	case begin:
		if err := d.begin(v.origin); err != nil {
			return err
		}
	case repeat:
		d.note("the server does not send parts of files: reading again what is there already")
		d.known, skip = v.origin, d.have
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
			return &fatalError{err: err}
		}
	}
	if v.action == resume && d.known.Length == unknown {
		return fmt.Errorf("the server sent a part, and does not say of how much: there are %d bytes", d.have)
	}
	return d.whole()
}

// discard has all of the file asked for. What there is stays until that comes.
func (d *download) discard() error {
	d.note("what is there is not the beginning of the file on the server: beginning anew")
	d.known, d.useless = d.wanted, true
	return errDiscarded
}

// begin makes room for a file that comes from its first byte.
func (d *download) begin(o origin) error {
	switch {
	case d.have == 0 || d.useless: // which was told
	case d.known.validator() == "":
		d.note("the server names no version of the file by which it could be gone on with: beginning anew")
	default:
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
		return &fatalError{err: err}
	}
	if d.have > 0 {
		d.restarts++
	}
	d.have, d.best, d.known, d.useless, d.result.Resumed = 0, 0, o, false, 0
	if err := d.to.remember(o); err != nil {
		return &fatalError{err: err}
	}
	return nil
}

// receive reads a body, skips the first bytes, which are there, and writes the others.
func (d *download) receive(ctx context.Context, b *body, skip int64) error {
	b.came = func(n int) { d.result.Fetched += int64(n) }
	if skip > 0 {
		n, err := io.CopyN(io.Discard, b, skip)
		if err == io.EOF { // of a body that has no length, and is whole as far as can be known
			return d.discard()
		}
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
		return &fatalError{err: fmt.Errorf("the file cannot be written: %w", err), local: true}
	}
	return nil
}

// whole returns nil if the file is all there, now that a body has come to its end.
func (d *download) whole() error {
	switch all := d.known.Length; {
	case all == unknown || all == d.have:
		return nil
	case all < d.have:
		return &fatalError{err: fmt.Errorf("there are %d bytes, of a file that has %d", d.have, all)}
	}
	return fmt.Errorf("the server sent a part only: there are %d bytes of %d", d.have, d.known.Length)
}

// pause says why a try has failed, and waits before the next one.
func (d *download) pause(ctx context.Context, why error, first time.Duration, failures int) error {
	var asked time.Duration
	if busy, ok := errors.AsType[*busyError](why); ok {
		asked = busy.after
	}
	wait := retry.Wait(first, failures, asked)
	if why != errDiscarded { // which was told
		d.note(fmt.Sprintf("%v; trying again in %v", why, wait.Round(time.Millisecond)))
	}
	if err := retry.Sleep(ctx, wait); err != nil {
		return &interruptedError{err}
	}
	return nil
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
