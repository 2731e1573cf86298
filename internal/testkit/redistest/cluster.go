package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// Cluster is a running Redis Cluster. Its methods are for one goroutine. Clients may use the
// cluster at the same time.
type Cluster struct {
	nodes []*Server // the running nodes, initial masters first
}

// StartCluster starts a cluster that is stopped when the test ends. The masters share the slots
// evenly, and each replica gets one of the masters in turn. The start takes about two seconds. A
// test that does not change the nodes or their slots can use [SharedCluster].
func StartCluster(t testing.TB, masters, replicas int) *Cluster {
	t.Helper()
	c := new(Cluster)
	for range masters + replicas {
		c.nodes = append(c.nodes, start(t, config{cluster: true}))
	}
	c.form(t, masters)
	return c
}

// SharedCluster returns a cluster of three masters and three replicas that all tests of a package
// share. The first call starts the cluster, which ends with the test binary, like the server of
// [Shared]. Tests must use different keys, and must not change the nodes or their slots.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		dir, err := nettest.MkdirPlain()
		if err != nil {
			t.Fatal(err)
		}
		c := new(Cluster)
		leaktest.AtExit(func() {
			for _, s := range c.nodes {
				s.Kill() // a graceful stop would write to dir
			}
			_ = os.RemoveAll(dir)
		})
		if err := removeAtExit(dir); err != nil { // in case the test binary is killed
			t.Fatal(err)
		}
		for i := range 6 {
			dir := filepath.Join(dir, strconv.Itoa(i))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c.nodes = append(c.nodes, newServer(t, dir, config{cluster: true}))
		}
		c.form(t, 3)
		shared.cluster = c
	}
	for _, s := range shared.cluster.nodes {
		s.logOnFailure(t)
	}
	return shared.cluster
}

// form connects the nodes, assigns slots to masters and masters to replicas, and waits until the
// cluster is complete.
func (c *Cluster) form(t testing.TB, masters int) {
	t.Helper()
	for i, s := range c.nodes {
		s.id = fmt.Sprint(s.Do(t, "CLUSTER", "MYID"))
		// Give the nodes different epochs. Nodes with equal epochs would first have to resolve the
		// conflict.
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < masters {
			s.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
		}
		for _, other := range c.nodes[:i] { // all earlier nodes, because gossip is slow
			s.Do(t, "CLUSTER", "MEET", host, other.port, other.bus)
		}
	}
	replicas := c.nodes[masters:]
	for i, s := range replicas {
		master := c.nodes[i%masters].id
		await(t, "a replica to know its master", func(ctx context.Context) error {
			_, err := s.do(ctx, "CLUSTER", "REPLICATE", master)
			return err
		})
	}
	c.awaitView(t, "to be formed", func(v view) bool {
		known := 0
		for _, r := range v {
			known += len(r.replicas)
		}
		return known == len(replicas)
	})
	for _, s := range replicas {
		s.awaitSync(t)
	}
}

// A view is one node's description of the cluster: the ranges of hash slots, each with its master
// and its replicas.
type view []slotRange

// slotRange is a range of slots (inclusive), with the ids of its master and live replicas.
type slotRange struct {
	first, last int
	master      string
	replicas    []string
}

func (v view) owner(slot int) string {
	for _, r := range v {
		if r.first <= slot && slot <= r.last {
			return r.master
		}
	}
	return ""
}

// view returns the cluster as s reports it. It returns an error if s reports a cluster state other
// than ok.
func (s *Server) view(ctx context.Context) (v view, err error) {
	info, err := s.fields(ctx, "CLUSTER", "INFO")
	if err != nil {
		return nil, err
	}
	if state := info["cluster_state"]; state != "ok" {
		return nil, fmt.Errorf("%s: the state is %s", s, state)
	}
	reply, err := s.do(ctx, "CLUSTER", "SHARDS")
	for _, shard := range list(reply) {
		var o slotRange
		parts := dict(shard)
		for _, n := range list(parts["nodes"]) {
			node := dict(n)
			if id := fmt.Sprint(node["id"]); node["role"] == "master" {
				o.master = id
			} else if node["health"] == "online" {
				o.replicas = append(o.replicas, id)
			}
		}
		slices.Sort(o.replicas)
		for r := range slices.Chunk(list(parts["slots"]), 2) {
			first, _ := r[0].(int64)
			last, _ := r[len(r)-1].(int64)
			o.first, o.last = int(first), int(last)
			v = append(v, o)
		}
	}
	slices.SortFunc(v, func(a, b slotRange) int { return a.first - b.first })
	return v, err
}

func list(reply any) []any {
	elements, _ := reply.([]any)
	return elements
}

func dict(reply any) map[string]any {
	m := make(map[string]any)
	for pair := range slices.Chunk(list(reply), 2) {
		m[fmt.Sprint(pair[0])] = pair[len(pair)-1]
	}
	return m
}

// awaitView waits until all running nodes report the same view, which must satisfy cond. It returns
// this view.
func (c *Cluster) awaitView(t testing.TB, what string, cond func(view) bool) (v view) {
	t.Helper()
	await(t, "the cluster "+what, func(ctx context.Context) error {
		for i, s := range c.nodes {
			other, err := s.view(ctx)
			if err != nil {
				return err
			}
			if i == 0 {
				v = other
			}
			if !reflect.DeepEqual(other, v) || !cond(other) {
				return fmt.Errorf("%s sees %v", s, other)
			}
		}
		return nil
	})
	return v
}

func (c *Cluster) view(t testing.TB) view {
	t.Helper()
	return c.awaitView(t, "to be well", func(view) bool { return true })
}

// Addrs returns the addresses of all nodes, initial masters first.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.nodes {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Owner returns the master of the key's slot.
func (c *Cluster) Owner(t testing.TB, key string) *Server {
	t.Helper()
	return c.byID(t, c.view(t).owner(Slot(key)))
}

func (c *Cluster) byID(t testing.TB, id string) *Server {
	t.Helper()
	i := slices.IndexFunc(c.nodes, func(s *Server) bool { return s.id == id })
	if i < 0 {
		t.Fatalf("redistest: no node is %q", id)
	}
	return c.nodes[i]
}

// replicated returns the first range of slots of a master, which must have slots and a replica.
func (c *Cluster) replicated(t testing.TB, master *Server) slotRange {
	t.Helper()
	for _, r := range c.view(t) {
		if r.master == master.id && len(r.replicas) > 0 {
			return r
		}
	}
	t.Fatalf("redistest: %s is no master with slots and a replica", master)
	return slotRange{}
}

// Kill kills a master, as a power cut would. It waits about two seconds, until all nodes know the
// new master.
func (c *Cluster) Kill(t testing.TB, master *Server) {
	t.Helper()
	slot := c.replicated(t, master).first
	master.Kill()
	c.nodes = slices.DeleteFunc(slices.Clone(c.nodes), func(s *Server) bool { return s == master })
	c.awaitView(t,
		"to have another master", func(v view) bool { return v.owner(slot) != master.id })
}

// manualFailover is the time for which a replica tries to execute CLUSTER FAILOVER. If the failover
// has not succeeded by then, the command must be sent again.
const manualFailover = 5 * time.Second

// Failover swaps the roles of the master and one of its replicas. It waits until all nodes know the
// new roles and the old master is in sync.
func (c *Cluster) Failover(t testing.TB, master *Server) {
	t.Helper()
	r := c.replicated(t, master)
	replica := c.byID(t, r.replicas[0])
	var asked time.Time
	await(t, fmt.Sprintf("%s to take over", replica), func(ctx context.Context) error {
		info, err := replica.fields(ctx, "INFO", "replication")
		if err != nil || info["role"] == "master" {
			return err
		}
		if time.Since(asked) > manualFailover {
			asked = time.Now()
			_, err = replica.do(ctx, "CLUSTER", "FAILOVER")
		}
		return errors.Join(err, errors.New("still a replica"))
	})
	master.awaitSync(t)
	c.awaitView(t,
		"to know the new master", func(v view) bool { return v.owner(r.first) == replica.id })
}

// migrateTimeout is the time limit of MIGRATE for one key, in milliseconds.
const migrateTimeout = 20000

// A Migration moves a hash slot from one master, the old owner, to another. Until Finish, the old
// owner serves the keys that have not been moved. For any other key of the slot, the old owner
// answers ASK. For all keys of the slot, all other nodes answer MOVED.
type Migration struct {
	c        *Cluster
	slot     int
	from, to *Server
}

// BeginMigration begins the migration of a slot to another master. It moves no keys.
func (c *Cluster) BeginMigration(t testing.TB, slot int) *Migration {
	t.Helper()
	v := c.view(t)
	m := &Migration{c: c, slot: slot, from: c.byID(t, v.owner(slot))}
	for _, r := range v {
		if r.master != m.from.id {
			m.to = c.byID(t, r.master)
		}
	}
	if m.to == nil {
		t.Fatal("redistest: there is one master only")
	}
	m.to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", m.from.id)
	m.from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", m.to.id)
	return m
}

// Move moves one key to the new owner.
func (m *Migration) Move(t testing.TB, key string) {
	t.Helper()
	if reply := m.from.Do(t, "MIGRATE", host, m.to.port, key, 0, migrateTimeout,
		"REPLACE"); reply != "OK" {
		t.Fatalf("redistest: MIGRATE %s: %v", key, reply)
	}
}

// Finish moves the remaining keys and the slot, and waits until all nodes know the new owner.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	for _, key := range list(m.from.Do(t, "CLUSTER", "GETKEYSINSLOT", m.slot, 1000)) {
		m.Move(t, fmt.Sprint(key))
	}
	// Tell the new owner first, because otherwise the slot would have no owner for a moment.
	m.to.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.to.id)
	m.from.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.to.id)
	m.c.awaitView(t, "to know the slot's new owner",
		func(v view) bool { return v.owner(m.slot) == m.to.id })
}

const slots = 16384

// Slot returns the hash slot of a key. If the key has a nonempty text in its first pair of braces,
// the slot depends only on that text.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % slots
}

func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// KeyIn returns a key that ends with suffix and belongs to the hash slot with the given number. The
// same arguments give the same key.
func KeyIn(slot int, suffix string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("{%d}%s", i, suffix); Slot(key) == slot {
			return key
		}
	}
}
