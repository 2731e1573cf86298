package redisbuf

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
)

func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	c := newClient(t, rdb)
	t.Run("every way", func(t *testing.T) { everyWay(t, c.commands, rdb, "cluster", fewSizes) })
	t.Run("many servers", func(t *testing.T) { manyServers(t, c, rdb) })
	t.Run("conn", func(t *testing.T) { connOfACluster(t, c, cluster) })
	t.Run("migration", func(t *testing.T) { migration(t, c, cluster, rdb) })
	t.Run("moved reader", func(t *testing.T) { movedReader(t, c, cluster) })
	t.Run("empty key", func(t *testing.T) { emptyKey(t, c, rdb) })
	t.Run("panic", func(t *testing.T) { panicOfMany(t, c) })
	t.Run("slot without owner", func(t *testing.T) { slotWithoutOwner(t, c, cluster) })
	t.Run("promotion", func(t *testing.T) { promotion(t, c, cluster) })
	t.Run("killed master", func(t *testing.T) { killedMaster(t, c, cluster) })
}

// A Pipeline and MGet go to all servers of their keys, and have the same results as one call after the other.
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

// A writer of a Pipeline that goes to several servers panics in the goroutine of the one who called Exec.
func panicOfMany(t *testing.T, c *Client) {
	ctx := bounded(t)
	p := c.Pipeline()
	var results []*Result
	for i := range 60 {
		must(t, c.SetFromBuffer(ctx, fmt.Sprint("panic/", i), []byte("value")))
		results = append(results, p.GetTo(fmt.Sprint("panic/", i), &panicking{}))
	}
	if !panics(func() { _ = p.Exec(ctx) }) {
		t.Error("no panic")
	}
	if err := results[0].Err(); err != errNotExecuted {
		t.Error(err)
	}
	r := p.GetToBuffer("panic/1", make([]byte, 5))
	if err := p.Exec(ctx); err != nil || r.Len() != 5 {
		t.Error(r.Len(), err)
	}
}

func connOfACluster(t *testing.T, c *Client, cluster *redistest.Cluster) {
	ctx := bounded(t)
	masters := cluster.Masters(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	defer conn.Close()
	var one, other string
	for i := 0; one == "" || other == ""; i++ {
		key := fmt.Sprint("conn/", i)
		if cluster.Owner(t, key) == masters[0] {
			one = key
		} else {
			other = key
		}
	}
	must(t, conn.SetFromBuffer(ctx, one, []byte("v")))
	if err := conn.SetFromBuffer(ctx, other, []byte("v")); err != ErrOtherServer {
		t.Error(err)
	}
	if _, err := conn.GetToBuffer(ctx, one, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// While a slot moves, keys of it are found where they are.
func migration(t *testing.T, c *Client, cluster *redistest.Cluster, rdb *redis.ClusterClient) {
	ctx := bounded(t)
	const slot = 1234
	value := randomValue(100000)
	stays, moves, isNew := redistest.KeyIn(slot, "stays"), redistest.KeyIn(slot, "moves"), redistest.KeyIn(slot, "new")
	everywhere := func(when string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			for _, g := range gets {
				got, err := g.call(ctx, c.commands, key, len(value))
				if err != nil || !bytes.Equal(got, value) {
					t.Fatalf("%s, %s of %s: %d bytes, %v", when, g.name, key, len(got), err)
				}
			}
			r, err := c.ReaderAt(ctx, key)
			must(t, err)
			r.plain.Store(true) // no transactions
			got := make([]byte, 1000)
			if _, err := r.ReadAt(got, 5000); err != nil || !bytes.Equal(got, value[5000:6000]) {
				t.Fatalf("%s, a range of %s: %v", when, key, err)
			}
		}
	}
	must(t, c.SetFromBuffer(ctx, stays, value))
	must(t, c.SetFromBuffer(ctx, moves, value))
	from := cluster.OwnerOf(t, slot)
	m := cluster.BeginMigration(t, slot, cluster.Other(t, from))
	m.Move(t, moves)
	everywhere("in the middle", stays, moves)
	for _, s := range sets {
		if strings.HasPrefix(s.name, "SetFrom") && s.name != "SetFromBuffer" {
			continue // reads its reader once, and so is not tried again
		}
		must(t, s.call(ctx, c.commands, isNew, value))
		must(t, rdb.Do(ctx, "DEL", isNew).Err())
	}
	for _, s := range sets {
		if err := s.call(ctx, c.commands, isNew, value); err != nil {
			if _, asked := redis.IsAskError(err); !asked {
				t.Fatalf("%s: %v", s.name, err)
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

func slotWithoutOwner(t *testing.T, c *Client, cluster *redistest.Cluster) {
	const slot = 4321
	ctx := bounded(t)
	key := redistest.KeyIn(slot, "down")
	must(t, c.SetFromBuffer(ctx, key, []byte("v")))
	owner := cluster.OwnerOf(t, slot)
	cluster.Disown(t, slot)
	if err := c.SetFromBuffer(ctx, key, []byte("w")); !redis.IsClusterDownError(err) {
		t.Errorf("%v, want CLUSTERDOWN", err)
	}
	cluster.Adopt(t, slot, owner)
	must(t, c.SetFromBuffer(ctx, key, []byte("w")))
}

// load sets and reads values of one key until stop, and fails the test if one is read that was not set as a whole. Errors
// are counted.
func load(t *testing.T, c *Client, key string, size int, stop chan struct{}) (wait func() (done, failed int)) {
	var all sync.WaitGroup
	var mu sync.Mutex
	done, failed := 0, 0
	count := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed++
		} else {
			done++
		}
	}
	for worker := range 3 {
		all.Go(func() {
			buf := make([]byte, size+100)
			for i := 0; ; i++ {
				select {
				case <-stop:
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
	return func() (int, int) {
		all.Wait()
		return done, failed
	}
}

// A replica that takes over from a master that lives is found, and nobody reads what it does not have.
func promotion(t *testing.T, c *Client, cluster *redistest.Cluster) {
	key := "promotion"
	old := cluster.Owner(t, key)
	stop := make(chan struct{})
	wait := load(t, c, key, 200000, stop)
	cluster.Failover(t, cluster.ReplicasOf(t, old)[0])
	time.Sleep(100 * time.Millisecond)
	close(stop)
	done, failed := wait()
	t.Logf("%d calls, %d failed", done, failed)
	must(t, c.SetFromBuffer(bounded(t), key, []byte("after")))
	if cluster.Owner(t, key) == old {
		t.Error("nothing has happened")
	}
}

// A master that dies under load costs errors, but no torn value; its replica goes on.
func killedMaster(t *testing.T, c *Client, cluster *redistest.Cluster) {
	key := "killed"
	old := cluster.Owner(t, key)
	stop := make(chan struct{})
	wait := load(t, c, key, 2<<20, stop)
	time.Sleep(50 * time.Millisecond)
	cluster.Kill(t, old)
	cluster.AwaitPromotion(t, old)
	begun := time.Now()
	for {
		err := c.SetFromBuffer(bounded(t), key, describe(key, 9, 9, 1000))
		if err == nil {
			break
		}
		if time.Since(begun) > testTime {
			t.Fatal(err)
		}
	}
	close(stop)
	done, failed := wait()
	t.Logf("%d calls, %d failed", done, failed)
	must(t, c.SetFromBuffer(bounded(t), key, describe(key, 9, 9, 1000)))
}
