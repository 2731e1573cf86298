package redisbuf

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

func TestConnsBoundsConnections(t *testing.T) {
	s := redistest.Shared(t)
	p := s.Proxy(t)
	c, _ := clientOf(t, optionsOf(p.Endpoint()), MaxConns(3))
	ctx := bounded(t)
	value := randomValue(100000)
	must(t, c.SetFromBuffer(ctx, "conns", value))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 5 {
				if n, err := c.GetToBuffer(ctx, "conns", make([]byte, len(value))); err != nil ||
					n != len(value) {
					t.Error(n, err)
				}
			}
		})
	}
	all.Wait()
	if n := p.Accepted(); n > 3 {
		t.Errorf("%d connections, want 3 at most", n)
	}
}

// Waiting for a connection ends with the context, and with PoolTimeout.
func TestWaitForAConnectionEnds(t *testing.T) {
	o := optionsOf(redistest.Shared(t).Endpoint())
	o.PoolTimeout = 20 * time.Millisecond
	c, _ := clientOf(t, o, MaxConns(1))
	conn, err := c.Conn(bounded(t))
	must(t, err)
	if _, err := c.GetToBuffer(bounded(t), "k", nil); err != redis.ErrPoolTimeout {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(bounded(t), time.Millisecond)
	defer cancel()
	if _, err := c.GetToBuffer(ctx, "k", nil); err != context.DeadlineExceeded {
		t.Error(err)
	}
	must(t, conn.Close())
	if _, err := c.GetToBuffer(bounded(t), "k", nil); err != redis.Nil {
		t.Error(err)
	}
}

// Close ends the calls that wait for a connection, or for MaxInFlight, while other calls hold them.
func TestCloseEndsWhatWaits(t *testing.T) {
	c, _ := shared(t, MaxConns(1), MaxInFlight(1<<20))
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	errs := make(chan error)
	wait := func(size int) {
		_, err := c.GetToBuffer(ctx, "k", make([]byte, size))
		errs <- err
	}
	go wait(10)
	go wait(1 << 20) // holds all of MaxInFlight, and waits for the connection
	eventually(t, func() bool { return taken(c) })
	go wait(1 << 20)
	eventually(t, func() bool { s := c.Stats(); return s.Waiting == 2 && s.InFlightWaiting == 1 })
	must(t, c.Close())
	for range 3 {
		if err := <-errs; err != ErrClosed {
			t.Error(err)
		}
	}
	must(t, conn.Close())
}

// A call larger than MaxInFlight runs alone. Later calls wait for it, in order.
func TestInFlight(t *testing.T) {
	c, p := proxied(t)
	c.settings.inFlight = defaultInFlight
	ctx := bounded(t)
	huge := make([]byte, defaultInFlight+1)
	must(t, c.SetFromBuffer(ctx, "inflight", []byte("v")))
	p.Set(redistest.HoldReply(0).On("huge"))
	first := make(chan error, 1)
	go func() {
		_, err := c.GetToBuffer(ctx, "inflight/huge", huge)
		first <- err
	}()
	eventually(t, func() bool { return taken(c) })
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := c.GetToBuffer(short, "inflight",
		make([]byte, 1<<20)); err != context.DeadlineExceeded {
		t.Error("a second one went along:", err)
	}
	if _, err := c.GetToBuffer(ctx, "inflight", make([]byte, 100)); err != nil {
		t.Error("a short one had to wait:", err)
	}
	p.Release()
	if err := <-first; err != redis.Nil {
		t.Error(err)
	}
	_, err := c.GetToBuffer(ctx, "inflight", make([]byte, 1<<20))
	must(t, err)
}

// taken reports whether all of MaxInFlight is in use.
func taken(c *Client) bool {
	if !c.inFlight.sem.TryAcquire(1) {
		return true
	}
	c.inFlight.sem.Release(1)
	return false
}

// Calls that hold MaxInFlight but wait for a connection do not block a Conn, which has the
// connection that they need.
func TestInFlightDoesNotStopAConn(t *testing.T) {
	o := optionsOf(redistest.Shared(t).Endpoint())
	c, _ := clientOf(t, o, MaxConns(1), MaxInFlight(1<<20))
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	must(t, conn.SetFromBuffer(ctx, "weight", []byte("v")))
	done := make(chan error, 1)
	go func() { // holds all of MaxInFlight, and waits for the connection
		_, err := c.GetToBuffer(ctx, "weight", make([]byte, 2<<20))
		done <- err
	}()
	eventually(t, func() bool { return taken(c) })
	_, err = conn.GetToBuffer(ctx, "weight", make([]byte, 2<<20))
	must(t, err)
	must(t, conn.Close())
	must(t, <-done)
}

// A value of unknown length counts as much as the value before it.
func TestInFlightOfUnknownLength(t *testing.T) {
	c, p := proxied(t)
	ctx := bounded(t)
	must(t, c.SetFromBuffer(ctx, "unknown", make([]byte, 6<<20)))
	for _, g := range gets {
		if g.name != "GetChain" && g.name != "GetTo" {
			continue
		}
		got, err := g.call(ctx, c, "unknown", 64<<20)
		if err != nil || len(got) != 6<<20 {
			t.Fatal(g.name, len(got), err)
		}
		p.Set(redistest.HoldReply(0).On("GET"))
		sent := p.Requests()
		done := make(chan error, 1)
		go func() {
			_, err := g.call(ctx, c, "unknown", 64<<20)
			done <- err
		}()
		eventually(t, func() bool { return p.Requests() > sent })
		if c.inFlight.sem.TryAcquire(defaultInFlight - 6<<20 + 1) {
			t.Errorf("%s: its 6 MiB do not count", g.name)
			c.inFlight.sem.Release(defaultInFlight - 6<<20 + 1)
		}
		p.Release()
		must(t, <-done)
	}
}

// An MGet counts the size of its buffer, and not a megabyte for each key.
func TestInFlightOfMGet(t *testing.T) {
	c, rdb := shared(t, MaxInFlight(1<<20))
	ctx := bounded(t)
	keys, slots := make([]string, 100), make([]Slot, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("weight/", i)
		must(t, rdb.Set(ctx, keys[i], "value", 0).Err())
	}
	if !c.inFlight.sem.TryAcquire(1<<20 - 200<<10) { // used by another client
		t.Fatal("the bytes of the other client were not taken")
	}
	defer c.inFlight.sem.Release(1<<20 - 200<<10)
	short, cancel := context.WithTimeout(ctx, testTime/2)
	defer cancel()
	for _, room := range []int{500, 100 << 10} {
		if n, err := c.MGet(short, keys, make([]byte, room), slots); err != nil || n != 500 {
			t.Errorf("into %d bytes: %d, %v", room, n, err)
		}
	}
	if n, err := c.MGet(ctx, nil, make([]byte, 10), nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}
