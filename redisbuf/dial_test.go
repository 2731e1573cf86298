package redisbuf

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// What the user's code panics with while a connection is made reaches the call that wants it, and the next one goes well.
func TestDialPanics(t *testing.T) {
	s := redistest.Shared(t)
	for name, set := range map[string]func(o *redis.Options, boom func()){
		"Dialer": func(o *redis.Options, boom func()) {
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				boom()
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
		},
		"CredentialsProvider": func(o *redis.Options, boom func()) {
			o.CredentialsProvider = func() (string, string) { boom(); return "", "" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := s.Options()
			left := 1
			set(o, func() {
				if left--; left == 0 {
					panic("boom")
				}
			})
			c, rdb := clientOf(t, o)
			ctx := bounded(t)
			booms(t, func() { _ = c.SetFromBuffer(ctx, "dial/panic", []byte("v")) })
			must(t, c.SetFromBuffer(ctx, "dial/panic", []byte("w")))
			check(t, rdb, "dial/panic", []byte("w"))
			idle(t, c, 1)
		})
	}
}

// booms fails the test unless f panics with "boom".
func booms(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if v := recover(); v != "boom" {
			t.Errorf("recovered %v", v)
		}
	}()
	f()
}

// User code that ends the goroutine of a call, as a test's FailNow does, while a connection is made keeps nothing from the next.
func TestGoexitWhileDialing(t *testing.T) {
	for name, install := range map[string]func(o *redis.Options, once func()){
		"Dialer": func(o *redis.Options, once func()) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				once()
				return dial(ctx, network, addr)
			}
		},
		"CredentialsProvider": func(o *redis.Options, once func()) {
			o.CredentialsProvider = func() (string, string) { once(); return "", "" }
		},
	} {
		left := 1
		change := func(o *redis.Options) {
			install(o, func() {
				if left--; left == 0 {
					runtime.Goexit()
				}
			})
		}
		onPipes(t, change, []Option{Conns(1)}, func(t *testing.T, c *Client, _ *pipeRedis) {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, err := c.GetToBuffer(t.Context(), "k", make([]byte, 5))
				t.Errorf("%s: the call goes on: %v", name, err)
			}()
			<-ended
			get5(t, c)
		})
	}
}

// A panic that ends the wait for another dial does not keep the turn of the call.
func TestDialerRetryBackoffPanics(t *testing.T) {
	a := &away{refuse: 1}
	change := func(o *redis.Options) {
		a.install(o)
		o.DialerRetryBackoff = func(int) time.Duration { panic("boom") }
	}
	onPipes(t, change, []Option{Conns(1)}, func(t *testing.T, c *Client, _ *pipeRedis) {
		booms(t, func() { _, _ = c.GetToBuffer(t.Context(), "k", make([]byte, 5)) })
		get5(t, c)
	})
}

// A Conn whose connection could not be made because of that can be used again.
func TestDialPanicsOfAConn(t *testing.T) {
	s := redistest.Start(t)
	left := 1
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": s.Addr()}, HeartbeatFrequency: time.Hour,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if left--; left == 0 {
				panic("boom")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { rdb.Close() })
	c := newClient(t, rdb)
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	left = 1
	booms(t, func() { _ = conn.SetFromBuffer(ctx, "k", []byte("v")) })
	must(t, conn.SetFromBuffer(ctx, "k", []byte("v")))
	must(t, conn.Close())
}

// away has a Dialer refuse connections for a while.
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

// A server that is away for a moment is waited for as go-redis does; one that stays away is asked once by each further call.
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
			if took := time.Since(begun); (err == nil) != (tt.first > tt.refuse) || a.asked != tt.first || took != tt.took {
				t.Fatalf("%v, after %d dials and %v", err, a.asked, took)
			}
			for err != nil {
				_, err = c.GetToBuffer(t.Context(), "k", make([]byte, 5))
			}
			if took := time.Since(begun); a.asked != tt.asked || took != tt.took {
				t.Errorf("%d dials, %v", a.asked, took)
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
		c.stop() // what Close begins with; onPipes does the rest
		if err := <-ended; err == nil || time.Since(begun) > 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
