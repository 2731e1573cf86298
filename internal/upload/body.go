package upload

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// unknown is a length that nobody has told.
const unknown = -1

// A body is what a request sends. It tells how far it has come, and ends the request when the server takes nothing for a
// while: when nobody asks for more, and no answer comes. Time that the source takes is not counted.
//
// Invariant: 0 ≤ sent, and sent ≤ size unless that is unknown.
type body struct {
	src   io.Reader
	size  int64
	limit time.Duration
	timer *time.Timer
	tell  func(sent int64)

	mu      sync.Mutex
	sent    int64
	reading bool  // src is being read from: what it gives is lost for everybody else
	ended   bool  // src has come to its end, as it should, so that the server may have all of it
	err     error // of src
	closed  bool
}

// newBody has stalled called when the server takes nothing for limit. The call that ends its life is over.
func newBody(src io.Reader, size int64, limit time.Duration, stalled func(), tell func(int64)) *body {
	return &body{src: src, size: size, limit: limit, timer: time.AfterFunc(limit, stalled), tell: tell, ended: size == 0}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if !b.begin() {
		return 0, io.ErrClosedPipe
	}
	n, err := b.src.Read(p)
	return n, b.end(n, err)
}

func (b *body) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.timer.Stop()
	b.reading = true
	return true
}

// end notes what was read, and returns with what error Read returns.
func (b *body) end(n int, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.sent += int64(n)
	if err == io.EOF && b.sent < b.size {
		err = fmt.Errorf("it has become shorter than the %d bytes that were announced", b.size)
	}
	switch {
	case err == io.EOF:
		b.ended = true
	case err != nil:
		b.err = err
	}
	b.ended = b.ended || b.sent == b.size
	if !b.closed {
		b.timer.Reset(b.limit)
		if n > 0 {
			b.tell(b.sent) // with the lock held: nobody is told any more after over
		}
	}
	return err
}

// Close implements io.Closer, for the http.Transport, which reads no more then.
func (b *body) Close() error { return nil }

// over ends the body: nothing is read any more, but for a Read that still waits. It says how much was, whether that was all,
// and how src has failed.
func (b *body) over() (sent int64, ended bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.timer.Stop()
	return b.sent, b.ended, b.err
}

// begun reports whether src gives less to whoever reads it next than it has given here, or is about to.
func (b *body) begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent > 0 || b.reading
}
