package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Slot agrees with the server.
func TestSlot(t *testing.T) {
	c := SharedCluster(t)
	keys := []string{"", "foo", "{}", "{}foo", "{foo}bar", "x{foo}{bar}", "{{foo}}", "}{foo", "{foo", "\x00\xff"}
	for range 50 {
		keys = append(keys, fmt.Sprintf("%d{%d", rand.Int(), rand.Int()))
	}
	for _, key := range keys {
		if got, want := Slot(key), c.nodes[0].Do(t, "CLUSTER", "KEYSLOT", key); int64(got) != want {
			t.Errorf("%q: slot %d, want %d", key, got, want)
		}
	}
	if key := KeyIn(12345, "x"); Slot(key) != 12345 || !strings.HasSuffix(key, "x") {
		t.Errorf("KeyIn: %q", key)
	}
}

func TestSharedCluster(t *testing.T) {
	c := SharedCluster(t)
	if c != SharedCluster(t) {
		t.Error("two of them")
	}
	client := c.Client(t)
	for i, m := range c.nodes[:3] {
		key := KeyIn(i*slots/3+7, t.Name())
		roundTrip(t, client, key)
		if c.Owner(t, key) != m || m.Do(t, "GET", key) != "value of "+key {
			t.Errorf("%s is not at %s", key, m)
		}
	}
}

// redirected returns the first word of the error that s answers with.
func redirected(t *testing.T, s *Server, key string) string {
	t.Helper()
	_, err := s.do(t.Context(), "GET", key)
	if err == nil || errors.Is(err, redis.Nil) {
		return ""
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return word
}

func TestMigration(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 2, 0)
	client := c.Client(t)
	const slot = 100
	keys := []string{KeyIn(slot, "a"), KeyIn(slot, "b"), KeyIn(slot, "c")}
	for _, key := range keys {
		roundTrip(t, client, key)
	}
	m := c.BeginMigration(t, slot)
	check := func(when string, from, to [3]string) {
		t.Helper()
		for i, key := range keys {
			if a, b := redirected(t, m.from, key), redirected(t, m.to, key); a != from[i] || b != to[i] {
				t.Errorf("%s: %s: %q and %q, want %q and %q", when, key, a, b, from[i], to[i])
			}
			if got, err := client.Get(t.Context(), key).Result(); got != "value of "+key {
				t.Errorf("%s: a client gets %q, %v", when, got, err)
			}
		}
	}
	moved := [3]string{"MOVED", "MOVED", "MOVED"}
	check("begun", [3]string{}, moved)
	m.Move(t, keys[1])
	check("one moved", [3]string{"", "ASK", ""}, moved)
	m.Finish(t)
	check("finished", moved, [3]string{})
}

// The only replica takes over from its master, and when it is killed itself, that from it.
func TestFailovers(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3, 3)
	key := t.Name()
	master := c.Owner(t, key)
	roundTrip(t, c.Client(t), key)
	c.Failover(t, master)
	replica := c.Owner(t, key)
	if replica == master {
		t.Error("the owner has not changed")
	}
	roundTrip(t, c.Client(t), key)
	c.Kill(t, replica)
	if now := c.Owner(t, key); now != master {
		t.Errorf("%s took over, not %s", now, master)
	}
	roundTrip(t, c.Client(t), key) // a new one, since the other may not have noticed yet
}
