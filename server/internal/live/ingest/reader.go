package ingest

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// A Reader reads a publisher's data as it arrives, over TLS and HTTP/2. To end a blocked read, it
// sets a read deadline in the past. The Reader does so when a read has waited too long, and when
// the session's context ends.
type Reader struct {
	session Session
	r       io.Reader
	set     func(time.Time) error // sets the deadline of reads
	silence time.Duration
	timer   *time.Timer
	unwatch func() bool

	mu      lock.Mutex
	stopped bool
}

// NewReader returns a Reader that reads from r for the session s. A read fails if no byte arrives
// within timeout. setDeadline sets the read deadline of r. The Reader borrows r until Stop.
func NewReader(r io.Reader, setDeadline func(time.Time) error, s Session,
	timeout time.Duration) *Reader {
	b := &Reader{session: s, r: r, set: setDeadline, silence: timeout}
	_ = setDeadline(time.Time{})
	b.timer = time.AfterFunc(timeout, b.cut)
	b.unwatch = context.AfterFunc(s.Lifetime(), b.cut)
	return b
}

func (b *Reader) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		_ = b.set(time.Unix(1, 0))
	}
}

// Read reads from the publisher. If no byte has arrived for too long, or if the session's context
// has ended, the error wraps os.ErrDeadlineExceeded.
func (b *Reader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if n > 0 {
		b.session.Received(n)
		b.timer.Reset(b.silence)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent(b.silence)
	}
	return n, err
}

// Stop removes the read deadline of the source, the io.Reader that was passed to NewReader. After
// Stop, b does not use the source, and the caller must not call Read.
func (b *Reader) Stop() {
	b.timer.Stop()
	b.unwatch()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	_ = b.set(time.Time{})
}
