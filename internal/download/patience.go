package download

import (
	"context"
	"fmt"
	"io"
	"time"
)

// A stalledError is the cause of a try's end when nothing came for too long.
type stalledError struct{ limit time.Duration }

func (e *stalledError) Error() string {
	return fmt.Sprintf("nothing came for %v (--stall-timeout)", e.limit)
}

// A patience ends a context when nothing comes for a while. It counts only while somebody waits for the network, and not
// while a disk or the reader of standard output takes its time.
type patience struct {
	limit time.Duration
	timer *time.Timer
}

// withPatience returns a context that ends so, with somebody waiting. The call that ends the patience's life is the function.
func withPatience(ctx context.Context, limit time.Duration) (context.Context, *patience, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{limit: limit}
	p.timer = time.AfterFunc(limit, func() { cancel(&stalledError{limit}) })
	return ctx, p, func() {
		p.timer.Stop()
		cancel(nil)
	}
}

// wait is called when somebody begins to wait, and rest when the wait is over.
func (p *patience) wait() { p.timer.Reset(p.limit) }
func (p *patience) rest() { p.timer.Stop() }

// A body is what comes of an answer: left bytes, and no more.
type body struct {
	src      io.Reader
	left     int64 // unknown: to the end
	patience *patience
	came     func(n int)
	err      error // of src, but not its end
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.left != unknown {
		p = p[:min(int64(len(p)), b.left)]
	}
	b.patience.wait()
	n, err := b.src.Read(p)
	b.patience.rest()
	if n > 0 {
		b.came(n)
	}
	if b.left != unknown {
		b.left -= int64(n)
		if err == io.EOF && b.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// atEnd returns an error if something comes behind the bytes that should.
func (b *body) atEnd() error {
	b.left, b.came = 1, func(int) {}
	if n, _ := io.ReadFull(b, make([]byte, 1)); n > 0 {
		return errTooLong
	}
	return nil
}
