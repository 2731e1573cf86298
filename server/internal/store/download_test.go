package store

import (
	"bytes"
	"io"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
)

// A slowClient is a response to a client that reads each write or step after a pause.
type slowClient struct {
	*httptest.ResponseRecorder
	mu       sync.Mutex
	deadline time.Time
	pause    time.Duration
}

func (c *slowClient) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *slowClient) Write(p []byte) (int, error) {
	time.Sleep(c.pause)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() && time.Now().After(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.ResponseRecorder.Write(p)
}

// A sendingClient has a ReadFrom that writes each step with one Write.
type sendingClient struct{ *slowClient }

func (c sendingClient) ReadFrom(src io.Reader) (int64, error) {
	p, err := io.ReadAll(src)
	if err != nil {
		return 0, err
	}
	n, err := c.Write(p)
	return int64(n), err
}

// A client that reads something within the limit may take any time. A client that does not is
// disconnected after the limit.
func TestProgressResponse(t *testing.T) {
	const limit = 8 * time.Second
	for _, tt := range []struct {
		name    string
		pause   time.Duration
		steps   int
		stalled bool
	}{
		{"quick", 0, 5, false},
		{"slow, for an hour", 6 * time.Second, 600, false},
		{"stalled", 10 * time.Second, 5, true},
	} {
		for _, readFrom := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &slowClient{ResponseRecorder: httptest.NewRecorder(), pause: tt.pause}
					p := &progressResponse{ResponseWriter: c, blocks: millrace.DefaultPool(),
						limit: limit}
					body := bytes.Repeat([]byte("x"), tt.steps*writeStep)
					var err error
					if readFrom {
						p.ResponseWriter = sendingClient{c}
						body = bytes.Repeat([]byte("x"), min(tt.steps, 50)*readFromStep)
						src := &io.LimitedReader{R: bytes.NewReader(body), N: int64(len(body))}
						_, err = p.ReadFrom(src)
						if !tt.stalled && src.N != 0 {
							t.Errorf("%d bytes are left of the limit", src.N)
						}
					} else {
						_, err = p.Write(body)
					}
					if tt.stalled != (err != nil) || p.stalled != tt.stalled {
						t.Errorf("stalled: %v, %v, want %v", p.stalled, err, tt.stalled)
					}
					if !tt.stalled && !bytes.Equal(c.Body.Bytes(), body) {
						t.Errorf("%d bytes of %d", c.Body.Len(), len(body))
					}
				})
			})
		}
	}
}
