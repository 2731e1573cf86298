package ingest

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// A Reader reads a publisher's data as it arrives, over TLS and HTTP/2. A read that has waited too
// long is ended by a deadline in the past. So are all reads when the session's context ends.
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

// NewReader returns a Reader of r. A read fails after the time silence without a byte. Until Stop,
// the Reader borrows r, and calls set with the read deadline of r.
func NewReader(r io.Reader, set func(time.Time) error, s Session, silence time.Duration) *Reader {
	b := &Reader{session: s, r: r, set: set, silence: silence}
	_ = set(time.Time{})
	b.timer = time.AfterFunc(silence, b.cut)
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

// Read implements io.Reader. If silence has ended the read, the error wraps os.ErrDeadlineExceeded.
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

// Stop ends the use of b, and removes the deadline of its source.
func (b *Reader) Stop() {
	b.timer.Stop()
	b.unwatch()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	_ = b.set(time.Time{})
}
