package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// manualFailover is how long a replica tries what CLUSTER FAILOVER asks for; then it must be asked again.
const manualFailover = 5 * time.Second

// Kill ends a node as a power cut would. The others notice it after the node timeout.
func (c *Cluster) Kill(t testing.TB, s *Server) {
	t.Helper()
	first := -1
	if self := c.self(t, s); len(self.slots) > 0 {
		first = self.slots[0].first
	}
	s.Kill()
	c.dead[s] = first
}

// AwaitPromotion waits until a replica has taken the place of a master that Kill has ended and all nodes know it, and
// returns it. That takes about two seconds.
func (c *Cluster) AwaitPromotion(t testing.TB, killed *Server) *Server {
	t.Helper()
	slot, ok := c.dead[killed]
	if !ok || slot < 0 {
		t.Fatalf("redistest: %s is no master that Kill has ended", killed)
	}
	var promoted *Server
	await(t, "a replica to be promoted", func(ctx context.Context) error {
		for _, s := range c.live() {
			self, err := s.self(ctx)
			if err != nil {
				return err
			}
			if self.owns(slot) {
				promoted = s
				return nil
			}
		}
		return fmt.Errorf("no node owns slot %d yet", slot)
	})
	c.awaitOwner(t, slot, promoted)
	c.awaitOK(t)
	return promoted
}

// Failover swaps a replica and its master, which both live on, and waits until all nodes know it and the old master is
// in step.
func (c *Cluster) Failover(t testing.TB, replica *Server) {
	t.Helper()
	master := c.byID(t, c.self(t, replica).master)
	slots := c.self(t, master).slots
	if len(slots) == 0 {
		t.Fatalf("redistest: the master of %s owns no slot", replica)
	}
	var asked time.Time
	await(t, fmt.Sprintf("%s to take over", replica), func(ctx context.Context) error {
		self, err := replica.self(ctx)
		if err != nil || self.is("master") {
			return err
		}
		if time.Since(asked) > manualFailover {
			asked = time.Now()
			_, err = replica.do(ctx, "CLUSTER", "FAILOVER")
		}
		return fmt.Errorf("still a replica: %w", err)
	})
	c.awaitOwner(t, slots[0].first, replica)
	master.awaitSync(t)
	c.awaitOK(t)
}

func (c *Cluster) byID(t testing.TB, id string) *Server {
	t.Helper()
	for s, its := range c.ids {
		if its == id {
			return s
		}
	}
	t.Fatalf("redistest: no node is %q", id)
	return nil
}

// migrateTimeout, in milliseconds, is what MIGRATE may take for a key.
const migrateTimeout = 20000

// Migration is a slot on its way from one master to another. A client gets ASK from the old owner for the keys that are
// not there, be they moved or new, and MOVED from all other nodes, until Finish.
type Migration struct {
	c        *Cluster
	slot     int
	From, To *Server
}

// BeginMigration opens the slot at both ends. It moves no key.
func (c *Cluster) BeginMigration(t testing.TB, slot int, to *Server) *Migration {
	t.Helper()
	m := &Migration{c: c, slot: slot, From: c.OwnerOf(t, slot), To: to}
	if m.From == to {
		t.Fatalf("redistest: %s owns slot %d already", to, slot)
	}
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[m.From])
	m.From.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	return m
}

// Move moves one key to the new owner.
func (m *Migration) Move(t testing.TB, key string) {
	t.Helper()
	m.migrate(t, m.From, m.To, key)
}

// Finish moves the keys that are left, and then the slot. When it returns all nodes know.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	m.migrateAll(t, m.From, m.To)
	// The new owner first: else the slot would have no owner in between.
	m.To.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.To])
	m.From.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.To])
	m.c.tellMasters(t, m.slot, m.To)
	m.c.awaitOwner(t, m.slot, m.To)
}

func (m *Migration) migrateAll(t testing.TB, from, to *Server) {
	t.Helper()
	for {
		keys, _ := from.Do(t, "CLUSTER", "GETKEYSINSLOT", m.slot, 100).([]any)
		if len(keys) == 0 {
			return
		}
		for _, key := range keys {
			m.migrate(t, from, to, fmt.Sprint(key))
		}
	}
}

func (m *Migration) migrate(t testing.TB, from, to *Server, key string) {
	t.Helper()
	args := []any{"MIGRATE", host, to.port, key, 0, migrateTimeout, "REPLACE"}
	if p := to.conf.password; p != "" {
		args = append(args, "AUTH", p)
	}
	if reply := from.Do(t, args...); reply != "OK" {
		t.Fatalf("redistest: MIGRATE %s: %v", key, reply)
	}
}

// tellMasters tells the live masters who owns a slot, instead of waiting until they hear it.
func (c *Cluster) tellMasters(t testing.TB, slot int, owner *Server) {
	t.Helper()
	for _, s := range c.Masters(t) {
		if s != owner {
			s.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[owner])
		}
	}
}

// Disown takes the slot from its owner, until Adopt gives it to a master. With cluster-require-full-coverage no the
// answer is CLUSTERDOWN for the keys of that slot; with yes, which is Redis's default, for all keys.
func (c *Cluster) Disown(t testing.TB, slot int) {
	t.Helper()
	owner := c.OwnerOf(t, slot)
	nodes := append([]*Server{owner}, c.live()...)
	calm := 0 // rounds in which no node has heard of the owner, which may have spoken just before it lost the slot
	await(t, fmt.Sprintf("slot %d to have no owner", slot), func(ctx context.Context) error {
		calm++
		for _, s := range nodes {
			_, err := s.do(ctx, "CLUSTER", "DELSLOTS", slot)
			if err == nil {
				calm = 0
			} else if !strings.Contains(err.Error(), "unassigned") {
				return err
			}
		}
		if calm < 3 {
			return fmt.Errorf("%d rounds", calm)
		}
		return c.closed(ctx)
	})
}

// closed returns nil when every node that wants all slots to be owned has stopped serving for the lack of one.
func (c *Cluster) closed(ctx context.Context) error {
	for _, s := range c.live() {
		reply, err := s.do(ctx, "CONFIG", "GET", "cluster-require-full-coverage")
		if err != nil {
			return err
		}
		coverage, _ := reply.([]any)
		if reply, err = s.do(ctx, "CLUSTER", "INFO"); err != nil {
			return err
		}
		info := fields(reply)
		if info["cluster_slots_assigned"] == strconv.Itoa(Slots) ||
			len(coverage) == 2 && coverage[1] == "yes" && info["cluster_state"] == "ok" {
			return fmt.Errorf("%s: %s, %s slots", s, info["cluster_state"], info["cluster_slots_assigned"])
		}
	}
	return nil
}

// Adopt gives a slot without an owner to a master, and waits until all nodes know and serve.
func (c *Cluster) Adopt(t testing.TB, slot int, s *Server) {
	t.Helper()
	s.Do(t, "CLUSTER", "ADDSLOTS", slot)
	c.tellMasters(t, slot, s)
	c.awaitOwner(t, slot, s)
	c.awaitOK(t)
}
