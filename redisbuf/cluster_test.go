package redisbuf

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 3)
	rdb := clusterRdb(t, cluster)
	c := newClient(t, rdb)
	t.Run("every way", func(t *testing.T) { everyWay(t, c, rdb, "cluster", fewSizes) })
	t.Run("many servers", func(t *testing.T) { manyServers(t, c, rdb) })
	t.Run("conn", func(t *testing.T) { connOfACluster(t, c, cluster) })
	t.Run("migration", func(t *testing.T) { migration(t, c, cluster, rdb) })
	t.Run("moved reader", func(t *testing.T) { movedReader(t, c, cluster) })
	t.Run("empty key", func(t *testing.T) { emptyKey(t, c, rdb) })
	t.Run("promotion", func(t *testing.T) { promotion(t, c, cluster) })
	t.Run("killed master", func(t *testing.T) { killedMaster(t, c, cluster) })
	t.Run("slots without a master", func(t *testing.T) { slotsWithoutAMaster(t, c, cluster) })
}

// A Pipeline and MGet contact all servers of their keys. Their results equal those of separate
// calls.
func manyServers(t *testing.T, c *Client, rdb *redis.ClusterClient) {
	ctx := bounded(t)
	const n = 60
	keys, values := make([]string, n), make([][]byte, n)
	total := 0
	p := c.Pipeline()
	for i := range n {
		keys[i], values[i] = fmt.Sprint("many/", i), randomValue(i*i*10)
		total += len(values[i])
		p.SetFromBuffer(keys[i], values[i])
	}
	must(t, p.Exec(ctx))
	buf := guarded(total)
	slots := make([]Slot, n)
	if got, err := c.MGet(ctx, keys, buf, slots); got != total || err != nil {
		t.Fatal(got, err)
	}
	results := make([]*Result, n)
	bufs := make([][]byte, n)
	for i, s := range slots {
		check(t, rdb, keys[i], values[i])
		if s.Err != nil || !bytes.Equal(intact(buf)[s.Start:s.End], values[i]) {
			t.Fatal(i, s)
		}
		bufs[i] = guarded(len(values[i]))
		results[i] = p.GetToBuffer(keys[i], bufs[i])
	}
	must(t, p.Exec(ctx))
	for i, r := range results {
		if !bytes.Equal(intact(bufs[i])[:r.Len()], values[i]) {
			t.Fatal(i)
		}
	}
}

func connOfACluster(t *testing.T, c *Client, cluster *redistest.Cluster) {
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	defer conn.Close()
	one, other := redistest.KeyIn(0, "conn"), redistest.KeyIn(1<<14-1, "conn") // on two masters
	must(t, conn.SetFromBuffer(ctx, one, []byte("v")))
	if err := conn.SetFromBuffer(ctx, other, []byte("v")); err != ErrOtherServer {
		t.Error(err)
	}
	if _, err := conn.GetToBuffer(ctx, one, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// While a slot is migrated, its keys are found at either server.
func migration(t *testing.T, c *Client, cluster *redistest.Cluster, rdb *redis.ClusterClient) {
	ctx := bounded(t)
	const slot = 1234
	value := randomValue(100000)
	stays, moves, isNew := redistest.KeyIn(slot, "stays"), redistest.KeyIn(slot, "moves"),
		redistest.KeyIn(slot, "new")
	everywhere := func(when string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			for _, g := range gets {
				got, err := g.call(ctx, c, key, len(value))
				if err != nil || !bytes.Equal(got, value) {
					t.Fatalf("%s, %s of %s: %d bytes, %v", when, g.name, key, len(got), err)
				}
			}
			r, err := c.ReaderAt(ctx, key)
			must(t, err)
			got := make([]byte, 1000)
			if _, err := r.ReadAt(got, 5000); err != nil || !bytes.Equal(got, value[5000:6000]) {
				t.Fatalf("%s, a range of %s: %v", when, key, err)
			}
		}
	}
	must(t, c.SetFromBuffer(ctx, stays, value))
	must(t, c.SetFromBuffer(ctx, moves, value))
	m := cluster.BeginMigration(t, slot)
	m.Move(t, moves)
	everywhere("in the middle", stays, moves)
	for _, s := range sets {
		if strings.HasPrefix(s.name, "SetFrom") && s.name != "SetFromBuffer" {
			continue // reads its reader once, and is therefore not retried
		}
		must(t, s.call(ctx, c, isNew, value))
		must(t, rdb.Do(ctx, "DEL", isNew).Err())
	}
	for _, s := range sets {
		if err := s.call(ctx, c, isNew, value); err != nil {
			if _, asked := redis.IsAskError(err); !asked {
				t.Fatalf("%s: %v, want ASK", s.name, err)
			}
		}
	}
	everywhere("after a new key", stays, moves, isNew)
	if _, err := c.GetToBuffer(ctx, redistest.KeyIn(slot, "none"), nil); err != redis.Nil {
		t.Error(err)
	}
	m.Finish(t)
	everywhere("after", stays, moves, isNew)
	must(t, c.SetFromBuffer(ctx, stays, value))
}

// load sets and reads values of one key on several goroutines. stop ends that, and fails the test
// if no call has succeeded. The test also fails if a read value was never set as a whole, or if an
// error is not explained by a lost or changed server.
func load(t *testing.T, c *Client, key string, size int) (stop func()) {
	var all sync.WaitGroup
	var done, failed atomic.Int64
	stopped := make(chan struct{})
	count := func(err error) {
		_, _, redirected := parseRedirection(err)
		switch {
		case err == nil:
			done.Add(1)
		case isLoss(err), isTransient(err), redirected, err == context.DeadlineExceeded:
			failed.Add(1)
		default:
			t.Errorf("%s under load: %v", key, err)
		}
	}
	for worker := range 3 {
		all.Go(func() {
			buf := make([]byte, size+100)
			for i := 0; ; i++ {
				select {
				case <-stopped:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				if (i+worker)%2 == 0 {
					count(c.SetFromBuffer(ctx, key, describe(key, worker, i, size+i%100)))
				} else {
					n, err := c.GetToBuffer(ctx, key, buf)
					if err == nil && !described(key, buf[:n]) {
						t.Errorf("a torn value of %d bytes", n)
					}
					if err != redis.Nil {
						count(err)
					}
				}
				cancel()
			}
		})
	}
	return func() {
		close(stopped)
		all.Wait()
		t.Logf("%d calls, %d failed", done.Load(), failed.Load())
		if done.Load() == 0 {
			t.Error("no call under load has succeeded")
		}
	}
}

// A replica that takes over from a running master is found, and no call misses data.
func promotion(t *testing.T, c *Client, cluster *redistest.Cluster) {
	key := "promotion"
	old := cluster.Owner(t, key)
	stop := load(t, c, key, 200000)
	cluster.Failover(t, old)
	// Calls succeed under load and on the new master.
	must(t, c.SetFromBuffer(bounded(t), key, describe(key, 9, 9, 1000)))
	stop()
	must(t, c.SetFromBuffer(bounded(t), key, []byte("after")))
	if cluster.Owner(t, key) == old {
		t.Error("nothing has happened")
	}
}

// A master that dies under load causes errors, but no torn value. Its replica takes over.
func killedMaster(t *testing.T, c *Client, cluster *redistest.Cluster) {
	key := "killed"
	old := cluster.Owner(t, key)
	stop := load(t, c, key, 2<<20)
	// Calls succeed under load before the master is killed.
	must(t, c.SetFromBuffer(bounded(t), key, describe(key, 9, 9, 1000)))
	cluster.Kill(t, old)
	eventually(t, func() bool {
		return c.SetFromBuffer(bounded(t), key, describe(key, 9, 9, 1000)) == nil
	})
	stop()
	must(t, c.SetFromBuffer(bounded(t), key, describe(key, 9, 9, 1000)))
}

// When a master dies without a replica, the other masters refuse all calls, and the error says so.
func slotsWithoutAMaster(t *testing.T, c *Client, cluster *redistest.Cluster) {
	ctx := bounded(t)
	key := redistest.KeyIn(12000, "down") // on another master than "killed"
	must(t, c.SetFromBuffer(ctx, key, []byte("v")))
	cluster.Owner(t, "killed").Kill() // the replica that took over
	eventually(t, func() bool {
		return redis.IsClusterDownError(c.SetFromBuffer(ctx, key, []byte("w")))
	})
}
