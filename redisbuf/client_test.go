package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// sizes are lengths at which something changes: the digits of the header, the areas that a reply is
// read into, the buffers of sockets and of go-redis, and the blocks.
var sizes = []int{0, 1, 9, 10, 63, 99, 100, 999, 1000, 4095, 4096, 4097, 9999, 10000, 32 << 10,
	65535, 64 << 10, 65537,
	99999, 100000, 1<<20 - 1, 1 << 20, 1<<20 + 1, 10 << 20}

// fewSizes are the most important of sizes.
var fewSizes = []int{0, 1, 99, 100, 4097, 64 << 10, 100000, 1<<20 + 1}

func TestEveryWayToSetAndGet(t *testing.T) {
	tcp := redistest.Shared(t)
	unix := redistest.Start(t, redistest.UnixSocket())
	for _, test := range []struct {
		name   string
		server *redistest.Server
		sizes  []int
		change func(*redis.Options)
	}{
		{"tcp", tcp, sizes, func(*redis.Options) {}},
		{"unix", unix, fewSizes, func(*redis.Options) {}},
		{"RESP2", tcp, fewSizes, func(o *redis.Options) { o.Protocol = 2 }},
		{"no timeouts", tcp, fewSizes, func(o *redis.Options) {
			o.ReadTimeout, o.WriteTimeout = -1, -1
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := optionsOf(test.server.Endpoint())
			test.change(o)
			c, rdb := clientOf(t, o)
			everyWay(t, c, rdb, "every/"+test.name, test.sizes)
		})
	}
}

// everyWay sets values with each method, and reads them with each method, over separate
// connections.
func everyWay(t *testing.T, c *Client, rdb redis.UniversalClient, key string, sizes []int) {
	t.Helper()
	ctx := bounded(t)
	for i, size := range sizes {
		value := randomValue(size)
		for j, s := range sets {
			ctx := ctx
			if (i+j)%2 == 0 {
				ctx = context.Background()
			}
			must(t, rdb.Del(ctx, key).Err())
			if err := s.call(ctx, c, key, value); err != nil {
				t.Fatalf("%s of %d bytes: %v", s.name, size, err)
			}
			check(t, rdb, key, value)
			if size > 1<<20 {
				break // one way to set it is enough
			}
		}
		for _, g := range gets {
			got, err := g.call(ctx, c, key, size)
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", g.name, size, err)
			}
			if !bytes.Equal(got, value) {
				t.Fatalf("%s of %d: another value, of %d", g.name, size, len(got))
			}
		}
	}
}

// idle fails the test unless c has want connections, all of them idle.
func idle(t testing.TB, c *Client, want int) {
	t.Helper()
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := 0
	for _, node := range c.nodes {
		var s Stats
		node.stats(&s)
		n += s.Idle
		if s.Conns != s.Idle {
			t.Errorf("%d connections are in use", s.Conns-s.Idle)
		}
	}
	if n != want {
		t.Errorf("%d idle connections, want %d", n, want)
	}
}

func TestGetToBufferTooSmall(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, size := range []int{1, 2, 10, 64, 65, 200, 5000, 100000, 1 << 20} {
		value := randomValue(size)
		must(t, rdb.Set(ctx, "small", value, 0).Err())
		for _, have := range []int{0, 1, size / 2, size - 2, size - 1} {
			if have < 0 || have >= size {
				continue
			}
			buf := guarded(have)
			n, err := c.GetToBuffer(ctx, "small", buf)
			var small *BufferTooSmallError
			if n != 0 || !errors.As(err, &small) || small.Need != int64(size) ||
				small.Have != int64(have) {
				t.Fatalf("%d bytes into %d: %d, %v, want an error with both sizes", size, have, n,
					err)
			}
			intact(buf)
			n, err = c.GetToBuffer(ctx, "small", intact(guarded(size)))
			if n != size || err != nil {
				t.Fatalf("after %d into %d: %d, %v", size, have, n, err)
			}
		}
	}
	idle(t, c, 1)
}

func TestGetChainLimit(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "limit", randomValue(100000), 0).Err())
	var chain millrace.Chain
	defer chain.Release()
	chain.AppendCopy([]byte("before"))
	for _, limit := range []int{-1, 0, 1, 99999} {
		var large *ValueTooLargeError
		if err := c.GetChain(ctx, "limit", &chain, limit); !errors.As(err, &large) ||
			large.Size != 100000 || large.Limit != int64(limit) {
			t.Fatalf("limit %d: %v, want an error with size and limit", limit, err)
		}
		if string(chain.Bytes()) != "before" {
			t.Fatal("the chain has changed")
		}
	}
	must(t, c.GetChain(ctx, "limit", &chain, 100000))
	idle(t, c, 1)
}

// A range can be read in the same ways as a whole value.
func TestGetRange(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	value := randomValue(3 << 20)
	must(t, rdb.Set(ctx, "range", value, 0).Err())
	for _, r := range []struct{ off, n int64 }{
		{0, 0}, {0, 1}, {500, 100}, {100, 1 << 20}, {0, 3 << 20}, {1, 4 << 20}, {3<<20 - 1, 10},
		{3 << 20, 10}, {5 << 20, 10},
		{math.MaxInt64 - 2, 10}, {math.MaxInt64, 1},
	} {
		from := min(r.off, int64(len(value)))
		want := value[from : from+min(r.n, int64(len(value))-from)]
		for name, get := range map[string]func() ([]byte, error){
			"GetRangeToBuffer": func() ([]byte, error) {
				buf := guarded(int(r.n))
				n, err := c.GetRangeToBuffer(ctx, "range", r.off, buf)
				return intact(buf)[:n], err
			},
			"Pipeline": func() ([]byte, error) {
				buf := guarded(int(r.n))
				p := c.Pipeline()
				result := p.GetRangeToBuffer("range", r.off, buf)
				err := p.Exec(ctx)
				return intact(buf)[:result.Len()], err
			},
			"GetRangeTo": func() ([]byte, error) {
				var b bytes.Buffer
				n, err := c.GetRangeTo(ctx, "range", r.off, r.n, plainWriter{&b})
				return b.Bytes()[:n], err
			},
			"GetRangeTo a socket": func() ([]byte, error) {
				return throughSocket(func(w io.Writer) (int64,
					error) {
					return c.GetRangeTo(ctx, "range", r.off, r.n, w)
				})
			},
		} {
			if got, err := get(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %+v: %d bytes, %v", name, r, len(got), err)
			}
		}
	}
	if _, err := c.GetRangeToBuffer(ctx, "range", -1, make([]byte, 1)); err != errOffset {
		t.Error(err)
	}
	for _, r := range [][2]int64{{-1, 1}, {0, -1}} {
		if _, err := c.GetRangeTo(ctx, "range", r[0], r[1], io.Discard); err != errOffset {
			t.Errorf("%d: %v, want errOffset", r, err)
		}
	}
	var all bytes.Buffer
	if _, err := c.GetRangeTo(ctx, "range", 1, math.MaxInt64, &all); err != nil ||
		!bytes.Equal(all.Bytes(), value[1:]) {
		t.Errorf("to the end: %d, %v", all.Len(), err)
	}
	if n, err := c.GetRangeTo(ctx, "range/none", 0, 1, io.Discard); n != 0 || err != nil {
		t.Errorf("no value: %d, %v", n, err)
	}
	must(t, rdb.Del(ctx, "range").Err())
	idle(t, c, 1)
}

func TestLongKeys(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, size := range []int{1, 100, 160, 161, 5000, 70000, 2 << 20} {
		key, value := strings.Repeat("k", size), randomValue(size)
		must(t, c.SetFromBuffer(ctx, key, value, Expire(time.Minute)))
		check(t, rdb, key, value)
		got, err := gets[0].call(ctx, c, key, size)
		if err != nil || !bytes.Equal(got, value) {
			t.Fatal(err)
		}
		must(t, rdb.Del(ctx, key).Err())
	}
}

func TestClose(t *testing.T) {
	c, p := proxied(t)
	ctx := bounded(t)
	must(t, c.SetFromBuffer(ctx, "close", []byte("v")))
	conn, err := c.Conn(ctx)
	must(t, err)
	p.Set(redistest.HoldReply(0).On("close"))
	errs := make(chan error, 4)
	go func() {
		p := c.Pipeline()
		get, set := p.GetToBuffer("close", make([]byte, 10)), p.SetFromBuffer("close", []byte("x"))
		_ = p.Exec(context.Background())
		errs <- get.Err()
		errs <- set.Err()
	}()
	go func() {
		_, err := c.GetToBuffer(context.Background(), "close", make([]byte, 10))
		errs <- err
	}()
	go func() { errs <- c.SetFromBuffer(context.Background(), "close", []byte("w")) }()
	eventually(t, func() bool { return c.Stats().InUse == 4 && p.Open() == 4 })
	must(t, c.Close())
	for range 4 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := conn.GetToBuffer(ctx, "close", make([]byte, 1)); err != ErrClosed {
		t.Error(err)
	}
	if _, err := c.GetToBuffer(ctx, "close", make([]byte, 1)); err != ErrClosed {
		t.Error(err)
	}
	if err := c.Close(); err != ErrClosed {
		t.Error(err)
	}
	must(t, conn.Close())
	if err := conn.Close(); err != ErrClosed {
		t.Error(err)
	}
	if _, err := c.Conn(ctx); err != ErrClosed {
		t.Error(err)
	}
}
