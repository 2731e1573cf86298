package redisbuf

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// If the user's code panics while a connection is made, the panic reaches the call that needs the
// connection. If the code ends the call's goroutine, as FailNow does, the next call is not
// affected.
func TestDialPanics(t *testing.T) {
	for name, set := range map[string]func(o *redis.Options, fail func()){
		"Dialer": func(o *redis.Options, fail func()) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				fail()
				return dial(ctx, network, addr)
			}
		},
		"CredentialsProvider": func(o *redis.Options, fail func()) {
			o.CredentialsProvider = func() (string, string) { fail(); return "", "" }
		},
		"DialerRetryBackoff": func(o *redis.Options, fail func()) {
			(&away{refuse: 1}).install(o)
			o.DialerRetryBackoff = func(int) time.Duration { fail(); return 0 }
		},
	} {
		for _, goexit := range []bool{false, true} {
			failed := false
			change := func(o *redis.Options) {
				set(o, func() {
					if failed {
						return
					}
					if failed = true; goexit {
						runtime.Goexit()
					}
					panic("boom")
				})
			}
			onPipes(t, change, []Option{MaxConns(1)}, func(t *testing.T, c *Client, _ *pipeRedis) {
				get := func() { _, _ = c.GetToBuffer(t.Context(), "k", make([]byte, 5)) }
				if goexit {
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						get()
						t.Errorf("%s: the call continues", name)
					}()
					<-ended
				} else {
					booms(t, get)
				}
				get5(t, c)
				idle(t, c, 1)
			})
		}
	}
}

// If a Dialer returns neither a connection nor an error, the call returns an error and does not
// panic.
func TestDialerOfNothing(t *testing.T) {
	failing := true
	onPipes(t, func(o *redis.Options) {
		dial := o.Dialer
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if failing {
				return nil, nil
			}
			return dial(ctx, network, addr)
		}
	}, []Option{MaxConns(1)}, func(t *testing.T, c *Client, _ *pipeRedis) {
		if _, err := c.GetToBuffer(t.Context(), "k", make([]byte, 5)); err == nil ||
			!strings.Contains(err.Error(), "no connection") {
			t.Error(err)
		}
		failing = false
		// In virtual time: a server that cannot be reached is not retried at once.
		time.Sleep(time.Minute)
		get5(t, c)
		idle(t, c, 1)
	})
}

// booms fails the test unless f panics with "boom".
func booms(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if v := recover(); v != "boom" {
			t.Errorf("recovered %v, want boom", v)
		}
	}()
	f()
}

// A Conn that failed to connect because of a panic can be used again.
func TestDialPanicsOfAConn(t *testing.T) {
	s := redistest.Shared(t)
	left := 1
	rdb := ringOf(t, func(o *redis.RingOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if left--; left == 0 {
				panic("boom")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}, s)
	c := newClient(t, rdb)
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	left = 1
	booms(t, func() { _ = conn.SetFromBuffer(ctx, "dial/conn", []byte("v")) })
	must(t, conn.SetFromBuffer(ctx, "dial/conn", []byte("v")))
	must(t, conn.Close())
}

// away makes a Dialer refuse connections for a while.
type away struct {
	dial          func(ctx context.Context, network, addr string) (net.Conn, error)
	refuse, asked int
}

func (a *away) install(o *redis.Options) {
	a.dial, o.Dialer = o.Dialer, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if a.asked++; a.asked <= a.refuse {
			return nil, errors.New("refused")
		}
		return a.dial(ctx, network, addr)
	}
	o.MaxRetries = -1
}

// A call waits for a server that is away for a short time, as in go-redis. If the server stays
// away, each further call dials once.
func TestDialerRetries(t *testing.T) {
	for _, tt := range []struct {
		refuse, first, asked int
		backoff              func(int) time.Duration
		took                 time.Duration
	}{
		{refuse: 0, first: 1, asked: 1},
		{refuse: 4, first: 5, asked: 5, took: 400 * time.Millisecond},
		{refuse: 4, first: 5, asked: 5, took: 10 * time.Second,
			backoff: func(n int) time.Duration { return time.Duration(n+1) * time.Second }},
		{refuse: 6, first: 5, asked: 7, took: 400 * time.Millisecond},
	} {
		a := &away{refuse: tt.refuse}
		change := func(o *redis.Options) { a.install(o); o.DialerRetryBackoff = tt.backoff }
		onPipes(t, change, nil, func(t *testing.T, c *Client, _ *pipeRedis) {
			begun := time.Now()
			_, err := c.GetToBuffer(t.Context(), "k", make([]byte, 5))
			if took := time.Since(begun); (err == nil) != (tt.first > tt.refuse) ||
				a.asked != tt.first || took != tt.took {
				t.Fatalf("%v, after %d dials and %v", err, a.asked, took)
			}
			for err != nil {
				_, err = c.GetToBuffer(t.Context(), "k", make([]byte, 5))
			}
			if took := time.Since(begun); a.asked != tt.asked || took != tt.took {
				t.Errorf("%d dials, %v, want %d in %v", a.asked, took, tt.asked, tt.took)
			}
		})
	}
}

// Close does not wait for a server that is away.
func TestCloseWhileDialing(t *testing.T) {
	a := &away{refuse: 1 << 30}
	change := func(o *redis.Options) { a.install(o); o.DialerRetryTimeout = time.Hour }
	onPipes(t, change, nil, func(t *testing.T, c *Client, _ *pipeRedis) {
		ended := make(chan error)
		go func() {
			_, err := c.GetToBuffer(context.Background(), "k", make([]byte, 5))
			ended <- err
		}()
		synctest.Wait()
		begun := time.Now()
		c.stop() // the first part of Close; onPipes does the rest
		if err := <-ended; err == nil || time.Since(begun) > 0 {
			t.Errorf("%v after %v, want an error at once", err, time.Since(begun))
		}
	})
}
