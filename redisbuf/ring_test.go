package redisbuf

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// ringOf returns a client of a Ring of these servers. It only learns from failed calls that a
// server is down.
func ringOf(t testing.TB, change func(*redis.RingOptions),
	servers ...*redistest.Server) *redis.Ring {
	t.Helper()
	o := &redis.RingOptions{Addrs: make(map[string]string), HeartbeatFrequency: 24 * time.Hour}
	for i, s := range servers {
		o.Addrs[fmt.Sprint(i)] = s.Addr()
	}
	if change != nil {
		change(o)
	}
	rdb := redis.NewRing(o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// spread sets many keys, and returns the number of servers that c uses for them.
func spread(t *testing.T, c *Client, rdb redis.UniversalClient) int {
	t.Helper()
	ctx := bounded(t)
	for i := range 40 {
		key, value := fmt.Sprint("spread/", i), randomValue(100)
		must(t, c.SetFromBuffer(ctx, key, value))
		check(t, rdb, key, value)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.nodes)
}

func TestRing(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	rdb := ringOf(t, func(o *redis.RingOptions) {
		o.HeartbeatFrequency, o.DialerRetries = 20*time.Millisecond, 1
	}, one, two)
	c := newClient(t, rdb)
	everyWay(t, c, rdb, "ring", fewSizes)
	if n := spread(t, c, rdb); n != 2 {
		t.Errorf("the values are on %d servers", n)
	}
	// A shard that is down is left out when the ring has noticed it.
	two.Kill()
	eventually(t, func() bool { return rdb.Len() == 1 })
	spread(t, c, rdb)
	one.Kill()
	eventually(t, func() bool { return rdb.Len() == 0 })
	if _, err := c.GetToBuffer(bounded(t), "ring/1", nil); err == nil || isServerError(err) {
		t.Error("without a shard:", err)
	}
}

// Shards with one address are different servers if they have different databases, or different
// Dialers, like clients of a Sentinel.
func TestRingOfShardsOfOneAddress(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	for name, shard := range map[string]func(i int) *redis.Options{
		"databases": func(i int) *redis.Options {
			o := optionsOf(servers[0].Endpoint())
			o.DB = i + 1
			return o
		},
		"Dialers": func(i int) *redis.Options {
			o := optionsOf(servers[i].Endpoint())
			o.Addr = failoverAddr
			o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", servers[i].Addr())
			}
			return o
		},
	} {
		var made atomic.Int64
		rdb := ringOf(t, func(o *redis.RingOptions) {
			o.NewClient = func(*redis.Options) *redis.Client {
				return redis.NewClient(shard(int(made.Add(1)-1) % 2))
			}
		}, servers...)
		if n := spread(t, newClient(t, rdb), rdb); n != 2 {
			t.Errorf("%s: the values are on %d servers", name, n)
		}
	}
	for _, s := range servers {
		if s.Do(t, "DBSIZE") == int64(0) {
			t.Error("a shard has nothing")
		}
	}
}

// If a Dialer ends its goroutine, as FailNow does, no call looks as if it had been executed.
func TestGoexitInAPipelineOfSeveralServers(t *testing.T) {
	rdb := ringOf(t, func(o *redis.RingOptions) {
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			runtime.Goexit()
			return nil, nil
		}
	}, redistest.Start(t), redistest.Start(t))
	p := newClient(t, rdb).Pipeline()
	var results []*Result
	for i := range 20 {
		results = append(results, p.GetToBuffer(fmt.Sprint("goexit/", i), nil))
	}
	if err := p.Exec(bounded(t)); err != errNotExecuted {
		t.Error(err)
	}
	for i, r := range results {
		if r.Err() != errNotExecuted {
			t.Error(i, r.Err())
		}
	}
}
