package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// oneConn prevents a client from sending its own commands in between.
func oneConn(o *redis.Options) { o.Protocol = 2 }

// patient sets timeouts of a minute. A call that needs a timeout to detect a lost connection fails
// atOnce.
func patient(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute }

// atOnce fails the test if a call that began at begun has waited for such a timeout.
func atOnce(t *testing.T, begun time.Time, name string, n int64) {
	t.Helper()
	if d := time.Since(begun); d > 30*time.Second {
		t.Fatalf("%s, cut at %d: it took %v to notice", name, n, d)
	}
}

// nextCut returns the next position for a cut after n: every byte of short data and of headers, and
// some bytes of long data.
func nextCut(n int64, size int) int64 {
	if n < 12 || size < 1000 {
		return n + 1
	}
	return 4 * n
}

// A cutter makes a rule that closes one connection, or resets it.
type cutter func(redistest.Rule) redistest.Rule

// onEachCut runs f with a new key for each way to cut a connection: closed or reset (RST), and with
// a context that can or cannot be cancelled.
func onEachCut(t *testing.T, f func(t *testing.T, ctx context.Context, key string, cut cutter)) {
	for name, cut := range map[string]cutter{"end": ended, "rst": redistest.Rule.Reset} {
		for _, background := range []bool{false, true} {
			if name == "rst" && !background {
				continue // a watch does not change how cuts are detected
			}
			key := fmt.Sprint(name, background)
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				if background {
					ctx = context.Background()
				}
				f(t, ctx, key, cut)
			})
		}
	}
}

func ended(r redistest.Rule) redistest.Rule { return r }

// If a reply or a read request is cut at any byte, the call returns an error at once, and the next
// call is not affected.
func TestCutAtEveryByteOfARead(t *testing.T) {
	onEachCut(t, func(t *testing.T, ctx context.Context, key string, cut cutter) {
		c, p := proxied(t, oneConn, patient)
		for _, test := range []struct {
			size int
			rule func(n int64) redistest.Rule
		}{
			{20, redistest.CutRequest},
			{20, func(n int64) redistest.Rule { return redistest.CutReply(n).On(key + "\r\n") }},
			{200_000, func(n int64) redistest.Rule {
				return redistest.CutReply(n).On(key + "\r\n")
			}},
		} {
			size := test.size
			value := randomValue(size)
			must(t, c.SetFromBuffer(t.Context(), key, value))
			for _, g := range gets {
				err := errors.New("none yet")
				for n := int64(0); err != nil; n = nextCut(n, size) {
					p.Set(cut(test.rule(n)))
					begun := time.Now()
					var got []byte
					got, err = g.call(ctx, c, key, size)
					atOnce(t, begun, g.name, n)
					p.Set()
					if err == nil && (n < int64(size) || !bytes.Equal(got, value)) {
						t.Fatalf("%s, cut at %d of %d: %d bytes, and no error", g.name, n, size,
							len(got))
					}
					if err != nil && (n > int64(400+2*size) || isServerError(err)) {
						t.Fatalf("%s, cut at %d of %d: %v", g.name, n, size, err)
					}
					got, next := g.call(ctx, c, key, size)
					// A connection that is cut after the reply is only detected when it is used.
					if err != nil && next != nil || next == nil && !bytes.Equal(got, value) {
						t.Fatalf("%s, after a cut at %d of %d: %d bytes, %v", g.name, n, size,
							len(got), next)
					}
				}
			}
		}
	})
}

// If a request is cut, the call returns an error at once, and the key has the old or the new value
// as a whole. The error is a SentError only if the whole request was sent.
func TestCutAtEveryByteOfARequest(t *testing.T) {
	_, direct := shared(t)
	onEachCut(t, func(t *testing.T, ctx context.Context, key string, cut cutter) {
		c, p := proxied(t, oneConn, patient)
		for _, size := range []int{20, 200_000} {
			before, after := randomValue(size), randomValue(size+1)
			for _, s := range sets {
				err := errors.New("none yet")
				for n := int64(1); err != nil; n = nextCut(n, size) {
					must(t, direct.Set(ctx, key, before, 0).Err())
					p.Set(cut(redistest.CutRequest(n)))
					begun := time.Now()
					err = s.call(ctx, c, key, after)
					atOnce(t, begun, s.name, n)
					p.Set()
					got, getErr := direct.Get(ctx, key).Bytes()
					must(t, getErr)
					switch {
					case err == nil && !bytes.Equal(got, after):
						t.Fatalf("%s, cut at %d of %d: no error, and not set", s.name, n, size)
					case err == nil && n < int64(size), err != nil && n > int64(300+2*size):
						t.Fatalf("%s, cut at %d of %d: %v", s.name, n, size, err)
					case err != nil && bytes.Equal(got, after) && !isA[*SentError](err):
						t.Fatalf("%s, cut at %d of %d: set, and %v", s.name, n, size, err)
					case !bytes.Equal(got, after) && !bytes.Equal(got, before):
						t.Fatalf("%s, cut at %d of %d: the key has %d other bytes", s.name, n, size,
							len(got))
					}
					if err == nil { // the reply may have arrived before the cut
						_ = c.SetFromBuffer(ctx, key, nil)
					}
				}
			}
		}
	})
}

// If the reply to a SET is cut, the SET was executed, and the call's error says that this is
// unknown.
func TestCutAtEveryByteOfAReplyToASet(t *testing.T) {
	_, direct := shared(t)
	onEachCut(t, func(t *testing.T, ctx context.Context, key string, cut cutter) {
		c, p := proxied(t, oneConn, patient)
		for _, size := range []int{20, 200_000} {
			for _, s := range sets {
				for n := range int64(len("+OK\r\n")) {
					value := randomValue(size)
					p.Set(cut(redistest.CutReply(n).On(key + "\r\n")))
					begun := time.Now()
					err := s.call(ctx, c, key, value)
					atOnce(t, begun, s.name, n)
					if !isA[*SentError](err) {
						t.Fatalf("%s, cut at %d: %v, want a SentError", s.name, n, err)
					}
					p.Set()
					check(t, direct, key, value)
				}
			}
		}
	})
}

// Calls that may safely be retried are retried.
func TestCutReplyIsTriedAgain(t *testing.T) {
	s := redistest.Shared(t)
	p := s.Proxy(t)
	c, rdb := clientOf(t, optionsOf(p.Endpoint()))
	ctx := bounded(t)
	value := randomValue(200000)
	must(t, rdb.Set(ctx, "again", value, 0).Err())
	for _, n := range []int64{0, 3, 9, 50, 70000, 150000} {
		for _, g := range gets {
			p.Set(redistest.CutReply(n).On("\r\nagain\r\n").Once())
			got, err := g.call(ctx, c, "again", len(value))
			if strings.HasPrefix(g.name, "GetTo ") || g.name == "GetTo" || g.name == "GetRangeTo" {
				if err != nil && n > 9 {
					continue // the writer has got a part of it
				}
			}
			if err != nil || !bytes.Equal(got, value) {
				t.Fatalf("%s, cut at %d: %d bytes, %v", g.name, n, len(got), err)
			}
		}
		for _, set := range sets { // it was executed, but the reply is lost
			p.Set(redistest.CutReply(0).On("\r\nagain\r\n").Once())
			err := set.call(ctx, c, "again", value)
			if !isA[*SentError](err) {
				t.Fatalf("%s: %v, want a SentError", set.name, err)
			}
		}
	}
}

// A late reply is not mistaken for the reply to the next call.
func TestLateReply(t *testing.T) {
	c, p := proxied(t, oneConn, func(o *redis.Options) { o.ReadTimeout = 20 * time.Millisecond })
	ctx := bounded(t)
	one, two := randomValue(1000), randomValue(1000)
	_, direct := shared(t)
	must(t, direct.MSet(ctx, "late/1", one, "late/2", two).Err())
	for _, n := range []int64{0, 7, 500} {
		for _, g := range gets {
			p.Set(redistest.HoldReply(n).On("late/1\r\n"))
			if _, err := g.call(context.Background(), c, "late/1", 1000); err == nil ||
				isServerError(err) {
				t.Fatalf("%s: %v, want a timeout", g.name, err)
			}
			p.Release()
			got, err := g.call(ctx, c, "late/2", 1000)
			for isTimeout(err) && ctx.Err() == nil { // the machine may be that slow
				got, err = g.call(ctx, c, "late/2", 1000)
			}
			if err != nil || !bytes.Equal(got, two) {
				t.Fatalf("%s: %v, or the value of another key", g.name, err)
			}
		}
	}
}

// A late reply to a SET, which may have been executed, is not mistaken for the reply to the next
// SET.
func TestLateReplyToASet(t *testing.T) {
	c, p := proxied(t, oneConn, func(o *redis.Options) { o.ReadTimeout = 20 * time.Millisecond })
	_, direct := shared(t)
	ctx := bounded(t)
	two := randomValue(1000)
	must(t, direct.Set(ctx, "late/2", two, 0).Err())
	must(t, direct.Del(ctx, "late/1").Err())
	for _, n := range []int64{0, 3} {
		for _, s := range sets {
			one := randomValue(1000)
			p.Set(redistest.HoldReply(n).On("late/1\r\n"))
			err := s.call(context.Background(), c, "late/1", one)
			for isTimeout(err) && !isA[*SentError](err) { // not sent yet: the machine is busy
				err = s.call(context.Background(), c, "late/1", one)
			}
			if !isA[*SentError](err) || !isTimeout(err) {
				t.Fatalf("%s: %v, want a timeout when all was sent", s.name, err)
			}
			p.Release()
			err = s.call(ctx, c, "late/2", one, IfAbsent())
			for isTimeout(err) && ctx.Err() == nil { // the machine may be that slow
				err = s.call(ctx, c, "late/2", one, IfAbsent())
			}
			if err != redis.Nil {
				t.Fatalf("%s: %v, want redis.Nil", s.name, err)
			}
			eventually(t, func() bool { // sent bytes may not have reached the server yet
				got, _ := direct.Get(ctx, "late/1").Bytes()
				return bytes.Equal(got, one)
			})
			check(t, direct, "late/2", two)
		}
	}
}

// If a context ends in the middle of a value, the call ends with the context's error, and the
// connection is closed.
func TestCancelInTheMiddle(t *testing.T) {
	c, p := proxied(t, patient)
	ctx := bounded(t)
	value := randomValue(300000)
	must(t, c.SetFromBuffer(ctx, "cancel", value))
	for _, n := range []int64{0, 5, 1000, 200000} {
		for _, g := range gets {
			for _, wait := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond} {
				// The rule applies to each connection, because a cancelled call's connection may
				// still pass on its request.
				p.Set(redistest.HoldReply(n).On("cancel\r\n"))
				inner, cancel := context.WithCancel(ctx)
				time.AfterFunc(wait, cancel)
				begun := time.Now()
				if _, err := g.call(inner, c, "cancel", len(value)); !errors.Is(err,
					context.Canceled) {
					t.Fatalf("%s, held at %d: %v", g.name, n, err)
				}
				atOnce(t, begun, g.name, n)
				p.Release()
			}
		}
	}
	for _, s := range sets { // the server may have it or not
		p.Set(redistest.HoldRequest(100000).On("cancel\r\n"))
		inner, cancel := context.WithTimeout(ctx, 15*time.Millisecond)
		large := randomValue(16 << 20)
		// On a busy machine, the time may be up while the client dials. The error is then the
		// dialer's.
		err := s.call(inner, c, "cancel", large)
		if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
			t.Fatalf("%s: %v, want context.DeadlineExceeded", s.name, err)
		}
		cancel()
		p.Release()
	}
	p.Set()
	got, err := gets[0].call(ctx, c, "cancel", len(value))
	if err != nil || !bytes.Equal(got, value) {
		t.Fatal("half a command was executed:", err)
	}
}

// A value that arrives slowly does not time out, as long as bytes arrive.
func TestSlowValue(t *testing.T) {
	const timeout = time.Second
	for _, g := range gets[:5] {
		change := func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = timeout, -1 }
		onPipes(t, change, nil, func(t *testing.T, c *Client, s *pipeRedis) {
			get5(t, c)
			s.set(func() { s.pause = timeout * 9 / 10 })
			if got, err := g.call(t.Context(), c, "k", 5); err != nil || string(got) != "value" {
				t.Errorf("%s: %q, %v, want value", g.name, got, err)
			}
			s.set(func() { s.pause = 3 * timeout })
			begun := time.Now()
			if _, err := g.call(t.Context(), c, "k", 5); !isTimeout(err) ||
				time.Since(begun) > timeout*5/4 {
				t.Errorf("%s: %v after %v, want a timeout", g.name, err, time.Since(begun))
			}
			time.Sleep(3 * timeout) // until the server notices that the client is gone
		})
	}
}

// An idle connection is checked before it is used: whether the server has closed it, or has sent
// data.
func TestIdleConnections(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("idle connections are looked at on Linux only")
	}
	closed, cutter := proxied(t)
	pushed, pusher := proxied(t)
	babbled, babbler := proxied(t)
	ctx := bounded(t)
	for _, c := range []*Client{closed, pushed, babbled} {
		must(t, c.SetFromBuffer(ctx, "idle", []byte("v")))
	}
	cutter.Cut()
	pusher.Push(">1\r\n+news\r\n")
	babbler.Push("+OK\r\n") // a reply without a request
	for _, c := range []*Client{closed, babbled} {
		awaitUnusable(t, c)
	}
	for i, c := range []*Client{closed, pushed, babbled} {
		letIdle(c)
		must(t, c.SetFromBuffer(ctx, "idle", []byte("w"))) // which is not retried
		got, err := gets[0].call(ctx, c, "idle", 1)
		if err != nil || string(got) != "w" {
			t.Errorf("client %d: %q, %v, want w", i, got, err)
		}
	}
	if n := pusher.Accepted(); n != 1 {
		t.Errorf("%d connections, because of a push", n)
	}
	if n := babbler.Accepted(); n != 2 {
		t.Errorf("%d connections, in spite of a reply to nothing", n)
	}
}

// letIdle waits until c's idle connections are due for a check.
func letIdle(c *Client) {
	for _, n := range c.nodes {
		for _, conn := range n.idle {
			conn.idleSince = conn.idleSince.Add(-checkIdleAfter)
		}
	}
}

// awaitUnusable waits until the end of c's idle connection, or the server's data on it, has
// arrived.
func awaitUnusable(t *testing.T, c *Client) {
	t.Helper()
	for _, n := range c.nodes {
		eventually(t, func() bool {
			usable, _ := n.idle[0].checkIdle()
			return !usable
		})
	}
}

// A server that stops reading is given up after WriteTimeout, and the partial value is not set.
func TestWriteTimeout(t *testing.T) {
	s := redistest.Start(t)
	o := optionsOf(s.Endpoint())
	patient(o)
	o.MaxRetries, o.WriteTimeout = -1, 100*time.Millisecond
	c, rdb := clientOf(t, o)
	large := make([]byte, 64<<20) // more than the sockets' buffers hold
	for _, ctx := range []context.Context{context.Background(), bounded(t)} {
		must(t, c.SetFromBuffer(ctx, "k", []byte("before")))
		s.Pause(t)
		begun := time.Now()
		err := c.SetFromBuffer(ctx, "k", large)
		atOnce(t, begun, "SetFromBuffer", 0)
		s.Resume(t)
		if !isTimeout(err) || errors.Is(err, context.DeadlineExceeded) || isA[*SentError](err) {
			t.Error(err)
		}
		check(t, rdb, "k", []byte("before"))
	}
}
