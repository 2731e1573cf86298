package redisbuf

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// told runs a test with a client of a Sentinel, in virtual time.
func told(t *testing.T, test func(t *testing.T, c *Client, s *pipeRedis)) {
	t.Helper()
	change := func(o *redis.Options) { o.Addr = failoverAddr }
	onPipes(t, change, nil, func(t *testing.T, c *Client, s *pipeRedis) {
		s.tell("one", "master", nil)
		test(t, c, s)
	})
}

// tell changes the server that the next connection leads to.
func (s *pipeRedis) tell(master, role string, err error) {
	s.set(func() { s.name, s.role, s.refuse = master, role, err })
}

// connections returns the number of connections so far.
func (s *pipeRedis) connections() int {
	dialed, _ := s.counts()
	return dialed
}

func nameOf(t *testing.T, c *Client) string {
	t.Helper()
	buf := make([]byte, 10)
	n, err := c.GetToBuffer(t.Context(), "k", buf)
	must(t, err)
	return string(buf[:n])
}

// A replaced master that does not know about it is left in time, however busy its connections are.
func TestFailoverLeavesTheOldMaster(t *testing.T) {
	told(t, func(t *testing.T, c *Client, d *pipeRedis) {
		conn, err := c.Conn(t.Context())
		must(t, err)
		for range 500 {
			if name := nameOf(t, c); name != "one" {
				t.Fatal(name)
			}
			time.Sleep(10 * time.Millisecond)
		}
		d.tell("two", "master", nil)
		time.Sleep(followInterval + time.Millisecond)
		for range 500 {
			if name := nameOf(t, c); name != "two" {
				t.Fatal(name)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := conn.GetToBuffer(t.Context(), "k", nil); err != ErrConnLost {
			t.Error(err)
		}
		must(t, conn.Close())
		// One check per second, two connections to one, and one to two.
		if n := d.connections(); n > 11+3 {
			t.Errorf("%d connections in 11 s", n)
		}
	})
}

// The shards of a Ring may be masters of Sentinels.
func TestFailoverOfAShard(t *testing.T) {
	d := newPipeRedis()
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"shard": "1"}, HeartbeatFrequency: 24 * time.Hour,
		NewClient: func(*redis.Options) *redis.Client {
			return redis.NewClient(&redis.Options{Addr: failoverAddr, Dialer: d.dial})
		},
	})
	defer rdb.Close()
	synctest.Test(t, func(t *testing.T) {
		c, err := New(rdb)
		must(t, err)
		for range 2 { // the second round begins without connections
			d.tell("one", "master", nil)
			if name := nameOf(t, c); name != "one" {
				t.Error(name)
			}
			d.tell("two", "master", nil)
			time.Sleep(followInterval + time.Millisecond)
			if name := nameOf(t, c); name != "two" {
				t.Error(name)
			}
			time.Sleep(maxIdleTime + 2*expiryInterval)
		}
		must(t, c.Close())
	})
}

// If the user's Dialer panics or ends its goroutine during a check, there is another check a second
// later.
func TestFailoverAfterAFailedCheck(t *testing.T) {
	for name, fail := range map[string]func(){"a panic": func() { panic("boom") },
		"Goexit": runtime.Goexit} {
		told(t, func(t *testing.T, c *Client, d *pipeRedis) {
			nameOf(t, c)
			left := 1
			d.set(func() {
				d.first = func(context.Context) {
					if left--; left == 0 {
						fail()
					}
				}
			})
			d.tell("two", "master", nil)
			time.Sleep(2*followInterval + time.Millisecond)
			if at := nameOf(t, c); at != "two" {
				t.Errorf("after %s the master is %s, want two", name, at)
			}
		})
	}
}

// After Close, no check of the master is running in the user's Dialer.
func TestCloseWaitsForACheck(t *testing.T) {
	told(t, func(t *testing.T, c *Client, d *pipeRedis) {
		nameOf(t, c)
		var inside atomic.Bool
		d.set(func() {
			d.first = func(ctx context.Context) {
				inside.Store(true)
				<-ctx.Done()
				time.Sleep(time.Second) // the Dialer is slow to notice the end of its context
				inside.Store(false)
			}
		})
		time.Sleep(followInterval)
		synctest.Wait()
		if !inside.Load() {
			t.Error("there is no check")
		}
		must(t, c.Close())
		if inside.Load() {
			t.Error("a check is under way after Close")
		}
	})
}

// A master is not left because the Sentinel is gone, or because it names a replica.
func TestFailoverStays(t *testing.T) {
	for _, test := range []struct {
		name, role string
		err        error
	}{
		{"two", "replica", nil}, {"two", "slave", nil},
		{"two", "what is too long for a word" + strings.Repeat("!", maxWord), nil},
		{"two", "master", errors.New("no sentinel")}, {"one", "master", nil},
	} {
		told(t, func(t *testing.T, c *Client, d *pipeRedis) {
			conn, err := c.Conn(t.Context())
			must(t, err)
			d.tell(test.name, test.role, test.err)
			for range 50 {
				if name := nameOf(t, &conn.Client); name != "one" {
					t.Fatal(test, name)
				}
				time.Sleep(100 * time.Millisecond)
			}
			must(t, conn.Close())
			if name := nameOf(t, c); name != "one" {
				t.Fatal(test, name)
			}
		})
	}
}

// Without connections the Sentinel is not contacted.
func TestFailoverAsksNoOneWithoutConnections(t *testing.T) {
	told(t, func(t *testing.T, c *Client, d *pipeRedis) {
		nameOf(t, c)
		time.Sleep(maxIdleTime + expiryInterval + time.Second)
		before := d.connections()
		time.Sleep(time.Hour)
		if n := d.connections() - before; n != 0 {
			t.Errorf("%d connections without need", n)
		}
	})
}

func TestReadRole(t *testing.T) {
	for _, test := range []struct {
		greeting string
		replica  bool
		failure  bool
	}{
		{"%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n", false, false},
		{"%2\r\n+a\r\n%1\r\n+b\r\n:1\r\n$4\r\nrole\r\n$7\r\nreplica\r\n", true, false},
		{"*4\r\n$7\r\nmodules\r\n*1\r\n$1\r\nm\r\n$4\r\nrole\r\n$5\r\nslave\r\n", true, false},
		{"-ERR unknown command 'HELLO'\r\n", false, false},
		{"%0\r\n", false, false},
		{"+OK\r\n", false, true},
		{"%99999999\r\n", false, true},
		{"%1\r\n$4\r\nrole\r\n$65\r\n", false, true},
		{"%1\r\n:4\r\n$4\r\nrole\r\n", false, true},
		{"%1\r\n$4\r\nrole\r\n", false, true},
	} {
		c, _ := tapeOf(test.greeting)
		role := newRoleCmd()
		err := c.run(bounded(t), role)
		if role.isReplica() != test.replica || (err != nil) != test.failure {
			t.Errorf("%q: %v, %v, want replica: %v", test.greeting, role.role, err, test.replica)
		}
	}
}
