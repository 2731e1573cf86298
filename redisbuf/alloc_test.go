//go:build !race && !invariants

package redisbuf

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// The race detector and the invariants allocate memory themselves. Only one client is open at a
// time, because the background goroutines of another may allocate at any time.
func TestNoAllocations(t *testing.T) {
	tcp := redistest.Shared(t)
	unix := redistest.Start(t, redistest.UnixSocket())
	for name, open := range map[string]func(t *testing.T) redis.UniversalClient{
		"tcp":  func(t *testing.T) redis.UniversalClient { return rdbOf(t, tcp.Endpoint()) },
		"unix": func(t *testing.T) redis.UniversalClient { return rdbOf(t, unix.Endpoint()) },
		"cluster": func(t *testing.T) redis.UniversalClient {
			return clusterRdb(t, redistest.StartCluster(t, 1, 0))
		},
		"ring": func(t *testing.T) redis.UniversalClient {
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": tcp.Addr()},
				HeartbeatFrequency: time.Hour})
			t.Cleanup(func() { ring.Close() })
			return ring
		},
	} {
		t.Run(name, func(t *testing.T) { noAllocations(t, newClient(t, open(t))) })
	}
}

func TestStatsAllocatesNothing(t *testing.T) {
	c, _ := shared(t)
	rest(t, c, 3)
	if got := allocations(t, func() error { _ = c.Stats(); return nil }); got > 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func noAllocations(t *testing.T, c *Client) {
	cancellable, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := c.Conn(cancellable)
	must(t, err)
	defer conn.Close()
	// net.Buffers.WriteTo has a type assertion whose result is cached in one call out of a
	// thousand.
	for range 10_000 {
		must(t, c.SetFromBuffer(cancellable, "alloc", nil))
	}
	sizes := []int{100, 64 << 10, 1<<20 + 1}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		value, buf := randomValue(size), make([]byte, size)
		var src, dst millrace.Chain
		defer src.Release()
		src.AppendCopy(value)
		many := scattered(t, value, 50)
		for name, f := range map[string]func(ctx context.Context) error{
			"SetFromBuffer": func(ctx context.Context) error {
				return c.SetFromBuffer(ctx, "alloc", value)
			},
			"SetFromBuffer with options": func(ctx context.Context) error {
				return c.SetFromBuffer(ctx, "alloc", value, Expire(time.Hour), IfPresent())
			},
			"SetChain": func(ctx context.Context) error {
				return c.SetChain(ctx, "alloc", &src)
			},
			"SetChain of many pieces": func(ctx context.Context) error {
				return c.SetChain(ctx, "alloc", many)
			},
			"GetToBuffer": func(ctx context.Context) error {
				_, err := c.GetToBuffer(ctx, "alloc", buf)
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
		} {
			must(t, c.SetFromBuffer(cancellable, "alloc", value))
			for kind, ctx := range map[string]context.Context{"background": context.Background(),
				"cancellable": cancellable} {
				if got := allocations(t, func() error { return f(ctx) }); got > 0 {
					t.Errorf("%s of %d, %s context: %v allocations", name, size, kind, got)
				}
			}
		}
	}
}

// allocations returns the number of allocations in a hundred calls of f. No garbage collection runs
// in the meantime, because it would empty the lists of free commands.
func allocations(t *testing.T, f func() error) float64 {
	runtime.GC()
	return alloctest.Count(0, func() {
		for range 100 {
			must(t, f())
		}
	})
}
