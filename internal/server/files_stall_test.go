package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A slowClient is a response to a client that takes what it is given in steps.
type slowClient struct {
	*httptest.ResponseRecorder
	mu       sync.Mutex
	deadline time.Time
	pause    time.Duration // before each write is taken
}

func (c *slowClient) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *slowClient) due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline
}

func (c *slowClient) Write(p []byte) (int, error) {
	time.Sleep(c.pause)
	if d := c.due(); !d.IsZero() && time.Now().After(d) {
		return 0, io.ErrClosedPipe
	}
	return c.ResponseRecorder.Write(p)
}

// What takes anything within the limit goes on for ever; what does not is cut after it, and within an eighth.
func TestStallWatch(t *testing.T) {
	const limit = 8 * time.Second
	for _, tt := range []struct {
		name  string
		pause time.Duration
		parts int
		cut   bool
	}{
		{"quick", 0, 5, false},
		{"slow, for an hour", 7 * time.Second, 500, false},
		{"stalled", 10 * time.Second, 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				// As net/http sets it.
				c := &slowClient{ResponseRecorder: httptest.NewRecorder(), pause: tt.pause, deadline: began.Add(limit)}
				s := newStallWatch(c, httptest.NewRequest("GET", "/files/x", nil), limit)
				n, err := s.w.Write(make([]byte, tt.parts*countedWrite))
				if tt.cut != (err != nil) || !tt.cut && n != tt.parts*countedWrite {
					t.Errorf("%d bytes, %v", n, err)
				}
				took := time.Since(began)
				if cut := s.end(); cut != tt.cut {
					t.Errorf("cut: %v after %v", cut, took)
				}
				if tt.cut {
					return
				}
				due := c.due()
				if due.Before(began.Add(limit)) || due.After(time.Now().Add(limit)) || took > limit && due.Before(time.Now()) {
					t.Errorf("after %v what is left has until %v", took, due.Sub(began))
				}
				before := c.due()
				time.Sleep(10 * limit)
				if c.due() != before {
					t.Error("the deadline was moved after the end")
				}
			})
		})
	}
}

// A response that waits for the server is not its client's fault.
func TestStallWatchWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowClient{ResponseRecorder: httptest.NewRecorder()}
		s := newStallWatch(c, httptest.NewRequest("GET", "/files/x", nil), time.Second)
		time.Sleep(time.Hour)
		if _, err := s.w.Write(make([]byte, 100)); err != nil || s.end() {
			t.Errorf("cut: %v", err)
		}
	})
}

// The watch of a TCP connection on Linux counts what the client's machine has acknowledged.
func TestAcknowledged(t *testing.T) {
	got := make(chan taking, 1)
	release := make(chan struct{})
	f := &fixture{t: t}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- acknowledged(r)
		_, _ = w.Write(make([]byte, 8<<20))
		<-release
	}))
	heads := &headWatch{}
	server.Config.ConnContext = heads.connContext
	server.Start()
	defer server.Close()
	defer close(release)
	f.addr = server.Listener.Addr().String()
	w := f.watch("/", 4096)
	a := <-got
	if a == nil {
		t.Skip("the kernel does not send files on this system")
	}
	eventually(t, "bytes that the client owes an answer to", func() bool { _, owed := a.progress(); return owed })
	before, _ := a.progress()
	w.read(1 << 20)
	if after, _ := a.progress(); after < before+1<<20-64<<10 && after <= before {
		t.Errorf("%d acknowledged, then %d", before, after)
	}
	w.read(7 << 20)
	eventually(t, "all acknowledged", func() bool { n, owed := a.progress(); return n >= 8<<20 && !owed })
}
