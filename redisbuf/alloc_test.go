//go:build !race && !invariants

package redisbuf

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
)

// The race detector and the invariants allocate on their own account.
func TestNoAllocations(t *testing.T) {
	tcp := redistest.Shared(t)
	unix := redistest.Start(t, redistest.UnixSocket())
	cluster := redistest.StartCluster(t, redistest.Masters(1), redistest.Replicas(0))
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": tcp.Addr()}})
	t.Cleanup(func() { ring.Close() })
	for name, rdb := range map[string]redis.UniversalClient{
		"tcp": tcp.Client(t), "unix": unix.Client(t), "cluster": cluster.Client(t), "ring": ring,
	} {
		t.Run(name, func(t *testing.T) { noAllocations(t, newClient(t, rdb)) })
	}
}

// A pipeline that InFlight lets go in parts only allocates as little.
func TestNoAllocationsInSeveralGoes(t *testing.T) {
	c, _ := shared(t, InFlight(100_000))
	value, buf := randomValue(60_000), make([]byte, 60_000)
	pipe := c.Pipeline()
	ctx := bounded(t)
	if got := allocations(t, func() error {
		for range 5 {
			pipe.SetFromBuffer("alloc/goes", value)
			pipe.GetToBuffer("alloc/goes", buf)
		}
		return pipe.Exec(ctx)
	}); got >= 1 {
		t.Errorf("%v allocations", got)
	}
}

func TestStatsAllocatesNothing(t *testing.T) {
	c, _ := shared(t)
	rest(t, c, 3)
	if got := allocations(t, func() error { _ = c.Stats(); return nil }); got >= 1 {
		t.Errorf("%v allocations", got)
	}
}

func noAllocations(t *testing.T, c *Client) {
	cancellable, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := c.Conn(cancellable)
	must(t, err)
	defer conn.Close()
	pipe := c.Pipeline()
	for _, size := range []int{100, 64 << 10, 1 << 20, 5<<20 + 1} {
		value, buf := randomValue(size), make([]byte, size)
		at := time.Now().Add(time.Hour)
		var src, dst millrace.Chain
		defer src.Release()
		src.AppendCopy(value)
		many := scattered(t, value, 50)
		for name, f := range map[string]func(ctx context.Context) error{
			"SetFromBuffer": func(ctx context.Context) error { return c.SetFromBuffer(ctx, "alloc", value) },
			"SetFromBuffer with options": func(ctx context.Context) error {
				return c.SetFromBuffer(ctx, "alloc", value, Expire(time.Hour), IfPresent())
			},
			"SetFromBuffer until then": func(ctx context.Context) error {
				return c.SetFromBuffer(ctx, "alloc", value, ExpireAt(at))
			},
			"SetChain":                func(ctx context.Context) error { return c.SetChain(ctx, "alloc", &src) },
			"SetChain of many pieces": func(ctx context.Context) error { return c.SetChain(ctx, "alloc", many) },
			"GetToBuffer":             func(ctx context.Context) error { _, err := c.GetToBuffer(ctx, "alloc", buf); return err },
			"GetToBuffer in pieces": func(ctx context.Context) error {
				_, err := c.getToBuffer(ctx, "alloc", buf, int64(size)/4)
				return err
			},
			"GetToBuffer of a Conn": func(ctx context.Context) error {
				_, err := conn.GetToBuffer(ctx, "alloc", buf)
				return err
			},
			"GetRangeToBuffer": func(ctx context.Context) error {
				_, err := c.GetRangeToBuffer(ctx, "alloc", 1, buf)
				return err
			},
			"GetChain": func(ctx context.Context) error {
				err := c.GetChain(ctx, "alloc", &dst, size)
				dst.Release()
				return err
			},
			"GetChain in pieces": func(ctx context.Context) error {
				c.expected.Store(math.MaxInt64)
				err := c.getChain(ctx, "alloc", &dst, size+1, max(int64(size)/3, 1))
				dst.Release()
				return err
			},
			"Pipeline": func(ctx context.Context) error {
				pipe.SetFromBuffer("alloc", value, Expire(time.Hour))
				pipe.SetChain("alloc", &src)
				pipe.GetToBuffer("alloc", buf)
				pipe.GetRangeToBuffer("alloc", 1, buf)
				return pipe.Exec(ctx)
			},
		} {
			must(t, c.SetFromBuffer(cancellable, "alloc", value))
			for kind, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": cancellable} {
				if got := allocations(t, func() error { return f(ctx) }); got >= 1 {
					t.Errorf("%s of %d, %s context: %v allocations", name, size, kind, got)
				}
			}
		}
	}
}

// allocations returns how often f allocates when nothing holds it up: a call that takes longer than a glance has its context
// watched, which allocates.
func allocations(t *testing.T, f func() error) float64 {
	for try := 1; ; try++ {
		n := testing.AllocsPerRun(30, func() { must(t, f()) })
		if n < 1 || try == 10 {
			return n
		}
	}
}
