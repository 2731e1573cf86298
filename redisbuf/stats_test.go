package redisbuf

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// says fails the test unless c's Stats equal want.
func says(t *testing.T, c *Client, when string, want Stats) {
	t.Helper()
	synctest.Wait()
	want.InFlightLimit = c.settings.inFlight
	if got := c.Stats(); got != want {
		t.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

func TestStatsOfConnections(t *testing.T) {
	onPipes(t, func(*redis.Options) {}, []Option{MaxConns(2)},
		func(t *testing.T, c *Client, s *pipeRedis) {
			says(t, c, "at first", Stats{})
			get5(t, c)
			says(t, c, "after a call", Stats{Conns: 1, Idle: 1, Dials: 1})
			one, err := c.Conn(t.Context())
			must(t, err)
			two, err := c.Conn(t.Context())
			must(t, err)
			says(t, c, "with two Conns", Stats{Conns: 2, InUse: 2, Dials: 2})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				get5(t, c)
			}()
			says(t, c, "with one more call", Stats{Conns: 2, InUse: 2, Waiting: 1, Dials: 2})
			must(t, one.Close())
			<-ended
			says(t, c, "after that", Stats{Conns: 2, InUse: 1, Idle: 1, Dials: 2})
			must(t, two.Close())
			s.hangUp()
			get5(t, c)
			says(t, c, "after a loss", Stats{Conns: 1, Idle: 1, Dials: 3, Dropped: 2, Retries: 1})
			c.nodes[c.keyOf(c.router.one)].close() // as Close does
			says(t, c, "closed", Stats{Dials: 3, Dropped: 2, Retries: 1})
		})
}

func TestStatsOfDials(t *testing.T) {
	a := &away{refuse: 2}
	onPipes(t, a.install, nil, func(t *testing.T, c *Client, _ *pipeRedis) {
		get5(t, c)
		says(t, c, "after two failures", Stats{Conns: 1, Idle: 1, Dials: 3, DialsFailed: 2})
	})
	boom := func(o *redis.Options) {
		o.CredentialsProvider = func() (string, string) {
			panic("boom")
		}
	}
	onPipes(t, boom, nil, func(t *testing.T, c *Client, _ *pipeRedis) {
		booms(t, func() { _, _ = c.GetToBuffer(t.Context(), "k", nil) })
		says(t, c, "after a panic", Stats{Dials: 1, DialsFailed: 1})
	})
}

func TestStatsOfBytesInFlight(t *testing.T) {
	const size = 2 * freeWeight
	onPipes(t, func(*redis.Options) {}, []Option{MaxInFlight(size)},
		func(t *testing.T, c *Client, s *pipeRedis) {
			get5(t, c)
			s.silence()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			for range 3 {
				go func() {
					_, err := c.GetToBuffer(ctx, "k", make([]byte, size))
					ended <- err
				}()
			}
			says(t, c, "two of three wait", Stats{Conns: 1, InUse: 1, Dials: 1, InFlight: size,
				InFlightWaiting: 2})
			cancel()
			for range 3 {
				if err := <-ended; err != context.Canceled {
					t.Error(err)
				}
			}
			says(t, c, "after all", Stats{Dials: 1, Dropped: 1})
		})
}

func TestStatsOfRetries(t *testing.T) {
	there := redistest.StartHostile(t, redistest.Say("+OK\r\n"))
	here := redistest.StartHostile(t, redistest.Say("-LOADING Redis is loading\r\n"),
		redistest.Say("-MOVED 1 "+there.Addr()+"\r\n"))
	c, _ := clientOf(t, optionsOf(here.Endpoint()))
	c.router.redirects = true
	must(t, c.SetFromBuffer(bounded(t), "k", []byte("v")))
	if s := c.Stats(); s.Retries != 2 || s.Redirects != 1 || s.Dials != 2 || s.Conns != 2 {
		t.Errorf("%+v, want two retries, one redirect and two connections", s)
	}
	here.Script(redistest.Say("+OK\r\n"), redistest.Say("-LOADING Redis is loading\r\n"),
		redistest.Say("+OK\r\n"))
	p := c.Pipeline()
	p.SetFromBuffer("k", []byte("v"))
	p.SetFromBuffer("k", []byte("v"))
	must(t, p.Exec(bounded(t)))
	if s := c.Stats(); s.Retries != 3 || s.Redirects != 1 {
		t.Errorf("after a pipeline: %+v", s)
	}
}
