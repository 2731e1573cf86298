package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// behind returns a proxy before the shared server and a client that goes through it on one connection, without retries.
func behind(t *testing.T) (*Proxy, *redis.Client) {
	s := Shared(t)
	p := s.Proxy(t)
	o := p.Options()
	o.MaxRetries, o.PoolSize, o.ContextTimeoutEnabled = -1, 1, true
	return p, closing(t, redis.NewClient(o))
}

// Every byte of a reply is the last that arrives, once; cut at the end, the value is whole.
func TestCutReplyAtEveryByte(t *testing.T) {
	p, c := behind(t)
	key := t.Name()
	roundTrip(t, c, key)
	whole := len(fmt.Sprintf("$%d\r\n%s\r\n", len("value of "+key), "value of "+key))
	for n := 0; n <= whole; n++ {
		p.Set(CutReply(int64(n)).On("get"))
		got, err := c.Get(t.Context(), key).Result()
		if n == whole && (err != nil || got != "value of "+key) {
			t.Errorf("after the whole reply: %q, %v", got, err)
		}
		if n < whole && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d of %d bytes: %q, %v", n, whole, got, err)
		}
	}
	p.Set()
	c.Ping(t.Context()) // may be the one to notice that the last connection is cut
	roundTrip(t, c, key)
}

// The server gets n bytes and no more.
func TestCutRequest(t *testing.T) {
	p, c := behind(t)
	key := t.Name()
	roundTrip(t, c, key)
	request := fmt.Sprintf("*3\r\n$3\r\nset\r\n$%d\r\n%s\r\n$5\r\nother\r\n", len(key), key)
	for n := range len(request) {
		p.Set(CutRequest(int64(n)))
		if err := c.Set(t.Context(), key, "other", 0).Err(); err == nil {
			t.Errorf("no error after %d bytes", n)
		}
	}
	p.Set()
	if got := c.Get(t.Context(), key).Val(); got != "value of "+key {
		t.Errorf("a cut request has set %q", got)
	}
	p.Set(CutRequest(0).On(key + "\r\n").Once())
	if err := c.Set(t.Context(), key, "other", 0).Err(); err == nil {
		t.Error("no error behind the marker")
	}
	if err := c.Set(t.Context(), key, "other", 0).Err(); err != nil {
		t.Errorf("a second connection is cut: %v", err)
	}
}

func TestCutReset(t *testing.T) {
	p, c := behind(t)
	roundTrip(t, c, t.Name())
	p.Set(CutReply(1).On("get").Reset())
	if err := c.Get(t.Context(), t.Name()).Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("reset: %v", err)
	}
	p.Set()
	p.Cut()
	roundTrip(t, c, t.Name())
}

func TestHold(t *testing.T) {
	for name, rule := range map[string]Rule{"reply": HoldReply(3), "request": HoldRequest(2)} {
		t.Run(name, func(t *testing.T) {
			p, c := behind(t)
			roundTrip(t, c, t.Name())
			p.Set(rule.On("get"))
			got := make(chan string)
			before := p.Requests()
			go func() { got <- c.Get(t.Context(), t.Name()).Val() }()
			await(t, "the first bytes", func(context.Context) error {
				if p.Requests() == before {
					return errors.New("none has passed")
				}
				return nil
			})
			select {
			case v := <-got:
				t.Fatalf("%q came past", v)
			default:
			}
			p.Release()
			if v := <-got; v != "value of "+t.Name() {
				t.Errorf("released: %q", v)
			}
		})
	}
}

// A RESP3 push may stand before any reply; in the middle of one it breaks it.
func TestInject(t *testing.T) {
	const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n"
	p, c := behind(t)
	key := t.Name()
	roundTrip(t, c, key)
	reply := fmt.Sprintf("$%d\r\nvalue of %s\r\n", len("value of "+key), key)
	for _, n := range []int{0, len(reply)} {
		p.Set(InjectReply(int64(n), push).On("get"))
		for range 2 {
			if got, err := c.Get(t.Context(), key).Result(); err != nil || got != "value of "+key {
				t.Errorf("a push at %d: %q, %v", n, got, err)
			}
		}
	}
	p.Set(InjectReply(5, "xx").On("get"))
	if got, _ := c.Get(t.Context(), key).Result(); !strings.Contains(got, "xx") {
		t.Errorf("injected: %q", got)
	}
}

func TestSwallow(t *testing.T) {
	p, c := behind(t)
	roundTrip(t, c, t.Name())
	p.Set(SwallowReply(1).On("get"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := c.Get(ctx, t.Name()).Err(); !timedOut(err) {
		t.Errorf("%v", err)
	}
}

// Bytes without a rule pass unchanged, through TLS and Unix sockets too.
func TestProxyPasses(t *testing.T) {
	for name, opts := range map[string][]Option{"tcp": nil, "TLS": {TLS(), Password("p")}, "unix": {UnixSocket()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, opts...)
			p := s.Proxy(t)
			o := p.Options()
			o.MaxRetries, o.DialerRetries = -1, 1
			c := closing(t, redis.NewClient(o))
			value := strings.Repeat("0123456789abcdef", 1<<16)
			if err := c.Set(t.Context(), "k", value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Get(t.Context(), "k").Result(); err != nil || got != value {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if p.Accepted() < 1 || p.Open() < 1 || p.Requests() < 1<<20 {
				t.Errorf("%d accepted, %d open, %d bytes", p.Accepted(), p.Open(), p.Requests())
			}
			s.Kill()
			if err := c.Ping(t.Context()).Err(); err == nil {
				t.Error("an answer without a server")
			}
		})
	}
}
