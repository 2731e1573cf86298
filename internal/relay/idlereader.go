package relay

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// An idleReader reads a publisher that is not read by the clock: TLS, HTTP/2. Each read is bounded by a deadline, which
// the end of the publisher's context cuts.
type idleReader struct {
	p    *Publisher
	r    io.Reader
	set  func(time.Time) error // the deadline of reads
	idle time.Duration

	mu      sync.Mutex
	armed   int64 // when the deadline was set; see now
	cut     bool
	unwatch func() bool
}

func newIdleReader(r io.Reader, set func(time.Time) error, p *Publisher) *idleReader {
	b := &idleReader{p: p, r: r, set: set, idle: p.s.hub.cfg.PublishTimeout}
	b.arm()
	b.unwatch = context.AfterFunc(p.ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.cut {
			b.cut = true
			_ = b.set(time.Unix(1, 0))
		}
	})
	return b
}

// arm moves the deadline to idle from now.
func (b *idleReader) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.cut {
		b.armed = now()
		_ = b.set(time.Now().Add(b.idle))
	}
}

func (b *idleReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	at := now()
	if n > 0 {
		b.p.heard.Store(at)
	}
	// Setting a deadline costs about as much as a small read, so not each read does.
	if at-b.armed > int64(min(time.Second, b.idle/8)) {
		b.arm()
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent(b.idle)
	}
	return n, err
}

// stop leaves the connection without a deadline.
func (b *idleReader) stop() {
	b.unwatch()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = true
	_ = b.set(time.Time{})
}
