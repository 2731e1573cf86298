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
	for i, m := range c.Masters(t) {
		key := KeyIn(i*Slots/3+7, t.Name())
		roundTrip(t, client, key)
		if c.Owner(t, key) != m || m.Do(t, "GET", key) != "value of "+key {
			t.Errorf("%s is not at %s", key, m)
		}
		if r := c.ReplicasOf(t, m); len(r) != 1 || r[0] != c.nodes[3+i] {
			t.Errorf("the replicas of %s: %v", m, r)
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
	c := StartCluster(t, Masters(2), Replicas(0), TLS(), Password("secret"))
	client := c.Client(t)
	const slot = 100
	keys := []string{KeyIn(slot, "a"), KeyIn(slot, "b"), KeyIn(slot, "c")}
	for _, key := range keys {
		roundTrip(t, client, key)
	}
	from := c.OwnerOf(t, slot)
	to := c.Other(t, from)

	check := func(when string, atFrom, atTo [3]string) {
		t.Helper()
		for i, key := range keys {
			if a, b := redirected(t, from, key), redirected(t, to, key); a != atFrom[i] || b != atTo[i] {
				t.Errorf("%s: %s: %q and %q, want %q and %q", when, key, a, b, atFrom[i], atTo[i])
			}
			if got, err := client.Get(t.Context(), key).Result(); got != "value of "+key {
				t.Errorf("%s: a client gets %q, %v", when, got, err)
			}
		}
	}
	moved := [3]string{"MOVED", "MOVED", "MOVED"}
	m := c.BeginMigration(t, slot, to)
	check("begun", [3]string{}, moved)
	m.Move(t, keys[1])
	check("one moved", [3]string{"", "ASK", ""}, moved)
	m.Finish(t)
	check("finished", moved, [3]string{})
}

func TestFailovers(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	key := t.Name()
	roundTrip(t, c.Client(t), key)
	master := c.Owner(t, key)
	replica := c.ReplicasOf(t, master)[0]

	c.Kill(t, master)
	if promoted := c.AwaitPromotion(t, master); promoted != replica || c.Owner(t, key) != replica {
		t.Errorf("%s took over, not %s", promoted, replica)
	}
	roundTrip(t, c.Client(t), key) // a new one, since the other may not have noticed yet
}

func TestManualFailover(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, Replicas(1), Masters(2))
	key := KeyIn(0, "k") // of the first master, which has the replica
	master := c.Owner(t, key)
	replica := c.ReplicasOf(t, master)[0]
	roundTrip(t, c.Client(t), key)
	c.Failover(t, replica)
	if c.Owner(t, key) != replica {
		t.Error("the owner has not changed")
	}
	roundTrip(t, c.Client(t), key)
}

func TestDisown(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, Masters(3), Replicas(1))
	const slot = 9000
	key, elsewhere := KeyIn(slot, "k"), KeyIn(slot+1, "k")
	owner := c.OwnerOf(t, slot)
	c.Disown(t, slot)
	for _, k := range []string{key, elsewhere} {
		if word := redirected(t, owner, k); word != "CLUSTERDOWN" {
			t.Errorf("GET %s: %q", k, word)
		}
	}
	c.Adopt(t, slot, c.Other(t, owner))
	roundTrip(t, c.Client(t), key)

	for _, s := range c.nodes {
		s.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	owner = c.OwnerOf(t, slot)
	c.Disown(t, slot)
	if word := redirected(t, owner, key); word != "CLUSTERDOWN" {
		t.Errorf("GET in the slot: %q", word)
	}
	if word := redirected(t, c.Owner(t, elsewhere), elsewhere); word != "" {
		t.Errorf("GET in the next slot: %q", word)
	}
}

func TestClusterRefusesWhatMakesNoSense(t *testing.T) {
	for name, opt := range map[string]Option{"no master": Masters(0), "a socket": UnixSocket(), "fewer than no replicas": Replicas(-1)} {
		if _, err := newCluster(program(t), tempDir(t), configure([]Option{opt})); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}
