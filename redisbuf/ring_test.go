package redisbuf

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

func TestRing(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs:              map[string]string{"one": one.Addr(), "two": two.Addr()},
		HeartbeatFrequency: 20 * time.Millisecond,
		DialerRetries:      1,
	})
	t.Cleanup(func() { rdb.Close() })
	c := newClient(t, rdb)
	everyWay(t, c, rdb, "ring", fewSizes)
	ctx := bounded(t)
	for i := range 20 {
		key, value := fmt.Sprint("ring/", i), randomValue(1000)
		must(t, c.SetFromBuffer(ctx, key, value))
		check(t, rdb, key, value)
	}
	c.mu.RLock()
	if n := len(c.nodes); n != 2 {
		t.Errorf("the values are on %d servers", n)
	}
	c.mu.RUnlock()

	// A shard that is down is left out, once the ring knows it.
	two.Kill()
	for rdb.Len() > 1 {
		time.Sleep(5 * time.Millisecond)
	}
	for i := range 20 {
		key, value := fmt.Sprint("ring/", i), randomValue(1000)
		must(t, c.SetFromBuffer(ctx, key, value))
		got, err := gets[0].call(ctx, c, key, len(value))
		if err != nil || !bytes.Equal(got, value) {
			t.Fatal(err)
		}
	}
	one.Kill()
	for rdb.Len() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := c.GetToBuffer(ctx, "ring/1", nil); err == nil || isServerError(err) {
		t.Error("without a shard:", err)
	}
}

// Shards may be databases of one server.
func TestRingOfDatabases(t *testing.T) {
	s := redistest.Start(t)
	var made atomic.Int64
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"0": s.Addr(), "1": s.Addr()},
		NewClient: func(o *redis.Options) *redis.Client {
			db := made.Add(1) - 1
			o.DB = int(db)
			return redis.NewClient(o)
		},
	})
	t.Cleanup(func() { rdb.Close() })
	c := newClient(t, rdb)
	ctx := bounded(t)
	for i := range 20 {
		key, value := fmt.Sprint("databases/", i), randomValue(100)
		must(t, c.SetFromBuffer(ctx, key, value))
		check(t, rdb, key, value)
	}
}

// Shards of one address are different servers if their Dialers say so, as those of clients of a Sentinel do.
func TestRingOfShardsThatDifferInTheirDialer(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	var made atomic.Int64
	newShard := func(*redis.Options) *redis.Client {
		s := servers[(made.Add(1)-1)%2]
		o := s.Options()
		o.Addr = failoverAddr
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
		}
		return redis.NewClient(o)
	}
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "1", "two": "2"}, NewClient: newShard})
	t.Cleanup(func() { rdb.Close() })
	c := newClient(t, rdb)
	ctx := bounded(t)
	for i := range 40 {
		key, value := fmt.Sprint("dialers/", i), randomValue(100)
		must(t, c.SetFromBuffer(ctx, key, value))
		check(t, rdb, key, value)
	}
	for _, s := range servers {
		if s.Do(t, "DBSIZE") == int64(0) {
			t.Error("a shard has nothing")
		}
	}
}

// A shard that has left the Ring is forgotten, and its options with it.
func TestShardsThatHaveLeftAreForgotten(t *testing.T) {
	s := new(pipeRedis)
	var shards []*redis.Client // made here, because go-redis looks names up meanwhile, and not in a test's own time
	for range 6 {
		shards = append(shards, redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: s.dial}))
	}
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"shard": "0"}, HeartbeatFrequency: 24 * time.Hour,
		NewClient: func(*redis.Options) *redis.Client {
			next := shards[0]
			shards = shards[1:]
			return next
		},
	})
	defer rdb.Close()
	synctest.Test(t, func(t *testing.T) {
		c, err := New(rdb)
		must(t, err)
		for left := len(shards); left > 0; left-- {
			get5(t, c)
			rdb.SetAddrs(map[string]string{"shard": fmt.Sprint(left)})
			get5(t, c)
			time.Sleep(time.Minute)
		}
		time.Sleep(maxIdleTime + forgetAfter + 2*expiryInterval)
		c.mu.RLock()
		if n := len(c.nodes); n != 0 {
			t.Errorf("%d servers are known", n)
		}
		c.mu.RUnlock()
		must(t, c.Close())
	})
}

// A Dialer that ends its goroutine, as a test's FailNow does, does not leave calls that look as if they had been executed.
func TestGoexitInAPipelineOfSeveralServers(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	rdb := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": one.Addr(), "two": two.Addr()}, HeartbeatFrequency: time.Hour,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			runtime.Goexit()
			return nil, nil
		},
	})
	t.Cleanup(func() { rdb.Close() })
	p := newClient(t, rdb).Pipeline()
	for i := range 20 {
		p.GetToBuffer(fmt.Sprint("goexit/", i), nil)
	}
	defer func() {
		if said := recover(); said != errGoexit {
			t.Errorf("%v", said)
		}
	}()
	t.Error("no panic, and", p.Exec(bounded(t)))
}
