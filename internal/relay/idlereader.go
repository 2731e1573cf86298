package relay

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/millrace-io/millrace/internal/lock"
)

// An idleReader reads a publisher that is not read by the clock: TLS, HTTP/2. A deadline in the past ends a read after
// Config.PublishTimeout without data, and at the end of the publisher's context.
type idleReader struct {
	p       *Publisher
	r       io.Reader
	set     func(time.Time) error // the deadline of reads
	idle    time.Duration
	timer   *time.Timer
	unwatch func() bool

	mu      lock.Mutex
	stopped bool
}

func newIdleReader(r io.Reader, set func(time.Time) error, p *Publisher) *idleReader {
	b := &idleReader{p: p, r: r, set: set, idle: p.s.hub.cfg.PublishTimeout}
	_ = set(time.Time{})
	b.timer = time.AfterFunc(b.idle, b.cut)
	b.unwatch = context.AfterFunc(p.ctx, b.cut)
	return b
}

func (b *idleReader) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		_ = b.set(time.Unix(1, 0))
	}
}

func (b *idleReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if n > 0 {
		b.p.received(n)
		b.timer.Reset(b.idle)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent(b.idle)
	}
	return n, err
}

// stop leaves the connection without a deadline.
func (b *idleReader) stop() {
	b.timer.Stop()
	b.unwatch()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	_ = b.set(time.Time{})
}
