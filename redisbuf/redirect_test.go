package redisbuf

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// MOVED and ASK from a single server are errors, and no other server gets the password.
func TestOnlyAClusterRedirects(t *testing.T) {
	other := redistest.StartHostile(t)
	h := redistest.StartHostile(t)
	o := optionsOf(h.Endpoint())
	o.Password = "secret"
	c, _ := clientOf(t, o)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": h.Addr()},
		Password: "secret"})
	t.Cleanup(func() { ring.Close() })
	for _, c := range []*Client{c, newClient(t, ring)} {
		for _, word := range []string{"MOVED", "ASK"} {
			before, calls := len(h.Requests()), 0
			h.Always(redistest.Say("-" + word + " 1 " + other.Addr() + "\r\n"))
			for _, g := range gets {
				if g.asksTwice() {
					continue // expects more than one reply
				}
				calls++
				if _, err := g.call(bounded(t), c, "k", 10); !redis.HasErrorPrefix(err, word) {
					t.Errorf("%s: %v, want %s", g.name, err, word)
				}
			}
			if n := len(h.Requests()) - before; n != calls {
				t.Errorf("%s: %d requests of %d calls", word, n, calls)
			}
		}
	}
	if n := other.Accepted(); n != 0 {
		t.Errorf("another server was asked %d times", n)
	}
}

// A redirected call is sent to the server that the cluster names, in any valid notation of its
// address.
func TestRedirects(t *testing.T) {
	here, there := redistest.StartHostile(t),
		redistest.StartHostile(t, redistest.Say("+OK\r\n"), redistest.Say("+OK\r\n"))
	there.Always(redistest.Say("+OK\r\n"))
	for says, means := range map[string]string{
		"127.0.0.2:7000": "127.0.0.2:7000", "host:7000": "host:7000", "::1:7000": "[::1]:7000",
		"[::1]:7000":         "[::1]:7000",
		"2001:db8::2:1:7000": "[2001:db8::2:1]:7000", ":7000": "127.0.0.1:7000",
		"": "", "host": "", "host:": "", "::1": "[:]:1", // these are invalid
	} {
		for _, word := range []string{"MOVED", "ASK"} {
			var mu sync.Mutex
			var dialed []string
			o := optionsOf(here.Endpoint())
			o.MaxRetries = 1
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialed = append(dialed, addr)
				to := there.Addr()
				if addr == here.Addr() {
					to = addr
				}
				return new(net.Dialer).DialContext(ctx, network, to)
			}
			c, _ := clientOf(t, o)
			c.router.redirects = true
			here.Always(redistest.Say("-" + word + " 1 " + says + "\r\n"))
			err := c.SetFromBuffer(bounded(t), "k", []byte("value"))
			want := []string{here.Addr()}
			if means != "" {
				want = append(want, means)
			}
			if (err == nil) != (means != "") || !slices.Equal(dialed, want) {
				t.Errorf("%s %s: %v, and %q were asked", word, says, err, dialed)
			}
		}
	}
}

// The topology is read again even if the call itself cannot be retried.
func TestReloadWithoutAnotherTry(t *testing.T) {
	h := redistest.StartHostile(t)
	o := optionsOf(h.Endpoint())
	o.MaxRetries = -1
	for _, test := range []struct {
		text string
		want int
	}{
		{"MOVED 1 127.0.0.1:1", 1}, {"ASK 1 127.0.0.1:1", 1}, {"READONLY You can't write", 1},
		{"CLUSTERDOWN not served", 1},
		{"OOM command not allowed", 0}, {"WRONGTYPE Operation", 0},
	} {
		c, _ := clientOf(t, o)
		reloads := 0
		c.router.reload = func(context.Context) { reloads++ }
		conn, err := c.Conn(bounded(t))
		must(t, err)
		for _, call := range []func() error{
			func() error { return c.SetFrom(bounded(t), "k", strings.NewReader("v"), 1) },
			func() error { return conn.SetFromBuffer(bounded(t), "k", []byte("v")) },
			func() error { _, err := c.GetToBuffer(bounded(t), "k", nil); return err },
		} {
			h.Script(redistest.Say("-" + test.text + "\r\n"))
			reloads = 0
			if err := call(); err == nil || err.Error() != test.text || reloads != test.want {
				t.Errorf("%s: %v, asked for the topology %d times", test.text, err, reloads)
			}
		}
		must(t, conn.Close())
	}
}

// After a READONLY, which a former master sends, no call uses an older connection.
func TestReadOnlyLeavesTheServer(t *testing.T) {
	c, h := hostile(t)
	conn, err := c.Conn(bounded(t))
	must(t, err)
	h.Script(redistest.Say("-READONLY You can't write against a read only replica.\r\n"))
	if err := c.SetFromBuffer(bounded(t), "k", nil); !redis.IsReadOnlyError(err) {
		t.Error(err)
	}
	must(t, conn.Close())
	idle(t, c, 0)
}

// If the context ends between two attempts, the call returns the context's error, and not that of
// the first attempt.
func TestContextEndsBetweenTries(t *testing.T) {
	h := redistest.StartHostile(t)
	h.Always(redistest.Say("-TRYAGAIN Multiple keys request during rehashing of slot\r\n"))
	o := optionsOf(h.Endpoint())
	o.MinRetryBackoff, o.MaxRetryBackoff = time.Hour, time.Hour
	c, _ := clientOf(t, o)
	ctx, cancel := context.WithTimeout(bounded(t), 50*time.Millisecond)
	defer cancel()
	if _, err := c.GetToBuffer(ctx, "k", nil); err != context.DeadlineExceeded {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(bounded(t), 50*time.Millisecond)
	defer cancel()
	p := c.Pipeline()
	r := p.GetToBuffer("k", nil)
	if err := p.Exec(ctx); err != context.DeadlineExceeded || r.Err() != err {
		t.Error(err, r.Err())
	}
}

// After a slot has moved, calls that cannot be retried find it as soon as go-redis does.
func movedReader(t *testing.T, c *Client, cluster *redistest.Cluster) {
	const slot = 2345
	ctx := bounded(t)
	key := redistest.KeyIn(slot, "reader")
	set := func() error { return c.SetFrom(ctx, key, bytes.NewReader(make([]byte, 100)), 100) }
	must(t, set())
	m := cluster.BeginMigration(t, slot)
	m.Finish(t)
	eventually(t, func() bool {
		err := set()
		if _, moved := redis.IsMovedError(err); err != nil && !moved {
			t.Fatal(err)
		}
		return err == nil
	})
}

// The empty key is in slot 0.
func emptyKey(t *testing.T, c *Client, rdb redis.UniversalClient) {
	ctx := bounded(t)
	if slot := redistest.Slot(keyOfSlot0); slot != 0 {
		t.Fatalf("%s is in slot %d", keyOfSlot0, slot)
	}
	for range 20 {
		must(t, c.SetFrom(ctx, "", strings.NewReader("value"), 5))
	}
	conn, err := c.Conn(ctx)
	must(t, err)
	defer conn.Close()
	buf := make([]byte, 5)
	if n, err := conn.GetToBuffer(ctx, "", buf); err != nil || string(buf[:n]) != "value" {
		t.Error(n, err)
	}
	must(t, rdb.Del(ctx, "").Err())
}

// Redirections name servers. The number of servers that a Client remembers is limited.
func TestServersAreBounded(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer rdb.Close()
	c, err := New(rdb)
	must(t, err)
	defer c.Close()
	server := func(i int) (*node, error) {
		return c.node(&redis.Options{Addr: fmt.Sprint("server", i)})
	}
	for i := range maxServers {
		_, err := server(i)
		must(t, err)
	}
	if _, err := server(maxServers); err == nil || !strings.Contains(err.Error(), "16384") {
		t.Error(err)
	}
	if _, err := server(0); err != nil {
		t.Error(err)
	}
}
