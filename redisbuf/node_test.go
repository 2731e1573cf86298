package redisbuf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// A pipeRedis is a server that a Dialer reaches over pipes instead of sockets, so that tests can
// use virtual time. It may act as several servers, as behind a Sentinel. Each server's values are
// its name.
type pipeRedis struct {
	mu     sync.Mutex
	dialed int
	open   int
	ends   map[net.Conn]struct{}

	first  func(ctx context.Context) // called before each dial, if not nil
	refuse error                     // returned by each dial, if not nil
	name   string                    // server that the next connection leads to
	role   string                    // role that the servers report
	silent bool                      // sends nothing
	pause  time.Duration             // before each byte of a value
}

func newPipeRedis() *pipeRedis {
	return &pipeRedis{ends: make(map[net.Conn]struct{}), name: "value", role: "master"}
}

// A namedConn has a server's name as its address.
type namedConn struct {
	net.Conn
	name string
}

func (c namedConn) RemoteAddr() net.Addr { return c }
func (c namedConn) Network() string      { return "pipe" }
func (c namedConn) String() string       { return c.name }

// set changes the server's behaviour.
func (s *pipeRedis) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *pipeRedis) silence() { s.set(func() { s.silent = true }) }

// hangUp closes all connections.
func (s *pipeRedis) hangUp() {
	s.set(func() {
		for end := range s.ends {
			end.Close()
		}
	})
}

func (s *pipeRedis) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	first := s.first
	s.mu.Unlock()
	if first != nil {
		first(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	client, server := net.Pipe()
	s.dialed++
	s.open++
	s.ends[server] = struct{}{}
	go s.serve(server, s.name)
	return namedConn{client, s.name}, nil
}

// serve answers each command with the same value.
func (s *pipeRedis) serve(conn net.Conn, name string) {
	defer func() {
		conn.Close()
		s.set(func() {
			s.open--
			delete(s.ends, conn)
		})
	}()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		s.mu.Lock()
		role, silent, pause := s.role, s.silent, s.pause
		s.mu.Unlock()
		switch {
		case silent:
		case strings.HasPrefix(line, "HELLO"):
			_, _ = fmt.Fprintf(conn,
				"%%3\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n$%d\r\n%s\r\n+modules\r\n*0\r\n",
				len(role), role)
		case strings.HasPrefix(line, "GET"):
			for _, b := range fmt.Appendf(nil, "$%d\r\n%s\r\n", len(name), name) {
				time.Sleep(pause)
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
			}
		}
	}
}

func (s *pipeRedis) counts() (dialed, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialed, s.open
}

// onPipes runs a test in virtual time.
func onPipes(t *testing.T, change func(*redis.Options), opts []Option,
	test func(t *testing.T, c *Client, s *pipeRedis)) {
	t.Helper()
	s := newPipeRedis()
	o := &redis.Options{Addr: "127.0.0.1:0", Dialer: s.dial}
	change(o)
	rdb := redis.NewClient(o)
	defer rdb.Close()
	synctest.Test(t, func(t *testing.T) {
		c, err := New(rdb, opts...)
		must(t, err)
		test(t, c, s)
		if err := c.Close(); err != ErrClosed { // the test may have closed it
			must(t, err)
		}
		synctest.Wait()
		if _, open := s.counts(); open != 0 {
			t.Errorf("%d connections are open", open)
		}
	})
}

func get5(t *testing.T, c *Client) {
	t.Helper()
	buf := make([]byte, 5)
	if n, err := c.GetToBuffer(t.Context(), "k", buf); err != nil || string(buf[:n]) != "value" {
		t.Fatal(n, err)
	}
}

// A checkedConn calls check when it is closed.
type checkedConn struct {
	net.Conn
	check func()
}

func (c *checkedConn) Close() error {
	c.check()
	return c.Conn.Close()
}

// No mutex is held while a connection is closed, because that may take long over TLS or with the
// user's own connection type.
func TestConnectionsAreClosedWithoutAMutex(t *testing.T) {
	for name, closing := range map[string]func(c *Client){
		"expired": func(*Client) { time.Sleep(maxIdleTime + expiryInterval) },
		"reset": func(c *Client) {
			for _, n := range c.nodes {
				n.reset()
			}
		},
		"close": func(c *Client) { _ = c.Close() },
	} {
		var c *Client
		closed := 0
		check := func() {
			closed++
			for _, n := range c.nodes {
				if !n.mu.TryLock() {
					t.Errorf("%s: the node's mutex is held", name)
					continue
				}
				n.mu.Unlock()
			}
			if !c.mu.TryLock() {
				t.Errorf("%s: the Client's mutex is held", name)
				return
			}
			c.mu.Unlock()
		}
		onPipes(t, func(o *redis.Options) {
			dial := o.Dialer
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return &checkedConn{conn, check}, err
			}
		}, nil, func(t *testing.T, made *Client, _ *pipeRedis) {
			c = made
			get5(t, c)
			closing(c)
			synctest.Wait()
			if closed == 0 {
				t.Errorf("%s: nothing is closed", name)
			}
		})
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*redis.Options)
		after  time.Duration
	}{
		{"by default", func(*redis.Options) {}, maxIdleTime},
		{"as the client says", func(o *redis.Options) { o.ConnMaxIdleTime = time.Minute },
			time.Minute},
	} {
		onPipes(t, test.change, nil, func(t *testing.T, c *Client, s *pipeRedis) {
			get5(t, c)
			time.Sleep(test.after - time.Second)
			synctest.Wait()
			if _, open := s.counts(); open != 1 {
				t.Errorf("%s: closed early", test.name)
			}
			time.Sleep(expiryInterval + 2*time.Second)
			synctest.Wait()
			if _, open := s.counts(); open != 0 {
				t.Errorf("%s: open for too long", test.name)
			}
			get5(t, c)
		})
	}
}

// A connection that is never idle for long is replaced nevertheless, even if it is in use whenever
// expired connections are closed.
func TestOldConnectionsAreReplaced(t *testing.T) {
	change := func(o *redis.Options) { o.ConnMaxLifetime = time.Minute }
	for name, use := range map[string]func(t *testing.T, n *node){
		"between": func(*testing.T, *node) { time.Sleep(time.Second / 2) },
		"then": func(t *testing.T, n *node) {
			conn, err := n.acquire(t.Context())
			must(t, err)
			time.Sleep(time.Second)
			n.release(conn)
		},
	} {
		onPipes(t, change, nil, func(t *testing.T, c *Client, s *pipeRedis) {
			n, err := c.node(c.router.one)
			must(t, err)
			// So that no call is made at the time when expired connections are closed.
			time.Sleep(time.Second / 4)
			for begun := time.Now(); time.Since(begun) < 5*time.Minute; {
				get5(t, c)
				use(t, n)
			}
			if dialed, _ := s.counts(); dialed < 3 || dialed > 6 {
				t.Errorf("%s: %d connections in 5 minutes", name, dialed)
			}
		})
	}
}

// A server that accepts connections and sends nothing costs a call no more than its timeouts. The
// error says that the dial has failed.
func TestSilentServer(t *testing.T) {
	change := func(o *redis.Options) { o.MaxRetries, o.DialTimeout = -1, time.Second }
	onPipes(t, change, nil, func(t *testing.T, c *Client, s *pipeRedis) {
		s.silent = true
		begun := time.Now()
		_, err := c.GetToBuffer(context.Background(), "k", nil)
		if !isDialError(err) || !isTimeout(err) || strings.Count(err.Error(), "dial") != 1 {
			t.Error(err)
		}
		if d := time.Since(begun); d > time.Second {
			t.Error(d)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := c.GetToBuffer(ctx, "k", nil); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}

// After one lost connection the other connections are checked, even if they were idle for a moment
// only. A call therefore does not use up its retries when the server has closed all connections at
// once.
func TestLostConnectionsCostOneTry(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("connections are looked at on Linux only")
	}
	s := redistest.Shared(t)
	p := s.Proxy(t)
	o := optionsOf(p.Endpoint())
	o.MaxRetries = 1
	c, _ := clientOf(t, o)
	ctx := bounded(t)
	must(t, c.SetFromBuffer(ctx, "lost", []byte("v")))
	for range 5 {
		rest(t, c, 8)
		p.Cut()
		accepted := p.Accepted()
		get, err := c.GetToBuffer(ctx, "lost", make([]byte, 10))
		if err != nil || get != 1 {
			t.Fatal(get, err)
		}
		for range 8 {
			must(t, c.SetFromBuffer(ctx, "lost", []byte("w"))) // a lost connection would cause a SentError
		}
		if n := p.Accepted() - accepted; n != 1 {
			t.Errorf("%d new connections for calls one after the other", n)
		}
	}
	// Working connections are kept.
	rest(t, c, 8)
	accepted := p.Accepted()
	p.Set(redistest.CutReply(0).On("lost").Once())
	_, err := c.GetToBuffer(ctx, "lost", make([]byte, 10))
	must(t, err)
	rest(t, c, 7)
	if n := p.Accepted() - accepted; n != 0 {
		t.Errorf("%d new connections, though only one was lost", n)
	}
}

// rest makes c have n idle connections.
func rest(t *testing.T, c *Client, n int) {
	t.Helper()
	var conns []*Conn
	for range n {
		conn, err := c.Conn(bounded(t))
		must(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		must(t, conn.Close())
	}
}

// Connections that cannot be checked are replaced in that case.
func TestLostConnectionsOfAnUnknownKind(t *testing.T) {
	change := func(o *redis.Options) { o.MaxRetries = 1 }
	onPipes(t, change, nil, func(t *testing.T, c *Client, s *pipeRedis) {
		rest(t, c, 8)
		s.hangUp()
		get5(t, c)
		if dialed, _ := s.counts(); dialed != 9 {
			t.Errorf("%d connections, want 9", dialed)
		}
		time.Sleep(2 * checkIdleAfter)
		get5(t, c) // without a loss they are used again
		if dialed, open := s.counts(); dialed != 9 || open != 1 {
			t.Errorf("%d connections, %d are open", dialed, open)
		}
	})
}

// The error of a failed dial says once that it is from dialing, and the address.
func TestDialErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	for _, dialer := range []func(context.Context, string, string) (net.Conn, error){
		nil, func(_ context.Context, _, addr string) (net.Conn, error) {
			return nil, errors.New(addr + " is not there")
		},
	} {
		c, _ := clientOf(t, &redis.Options{Addr: l.Addr().String(), MaxRetries: -1, Dialer: dialer})
		_, err = c.GetToBuffer(bounded(t), "k", nil)
		if !isDialError(err) || strings.Count(err.Error(), "dial") != 1 ||
			strings.Count(err.Error(), l.Addr().String()) != 1 {
			t.Error(err)
		}
	}
}

// Between calls a connection holds no block.
func TestIdleConnectionsHoldNoBlock(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, size := range []int{10, 100000, 3 << 20} {
		value := randomValue(size)
		for _, s := range sets {
			must(t, s.call(ctx, c, "block", value))
		}
		for _, g := range gets {
			_, err := g.call(ctx, c, "block", size)
			must(t, err)
			_, err = g.call(ctx, c, "block", 1)
			_ = err // too small for some values
		}
		if s := millrace.DefaultPool().Stats(); s.InUse != 0 {
			t.Fatalf("%d bytes in %d blocks", s.InUse, s.InUseBlocks)
		}
	}
	must(t, rdb.Del(ctx, "block").Err())
}
