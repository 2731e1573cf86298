package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// migrateTimeout, in milliseconds, is what MIGRATE may take for a key.
const migrateTimeout = 20000

// Migration is a slot on its way from one master to another. A client gets ASK from the old owner for the keys that are
// not there, be they moved or new, and MOVED from everybody else, until Finish or Cancel.
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
	// The new owner first: the slot would be nobody's in between.
	m.To.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.To])
	m.From.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.To])
	m.c.tellMasters(t, m.slot, m.To)
	m.c.AwaitOwner(t, m.slot, m.To)
}

// Cancel moves the keys back that have been moved, and the slot stays where it was.
func (m *Migration) Cancel(t testing.TB) {
	t.Helper()
	m.From.Do(t, "CLUSTER", "SETSLOT", m.slot, "STABLE")
	m.migrateAll(t, m.To, m.From)
	m.To.Do(t, "CLUSTER", "SETSLOT", m.slot, "STABLE")
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
	if p := to.Password(); p != "" {
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

// Disown takes the slot from its owner and gives it to nobody, until Adopt. With cluster-require-full-coverage no the
// answer is CLUSTERDOWN for the keys of that slot; with yes, which is Redis's default, for all keys.
func (c *Cluster) Disown(t testing.TB, slot int) {
	t.Helper()
	owner := c.OwnerOf(t, slot)
	nodes := append([]*Server{owner}, c.live()...)
	calm := 0 // rounds in which no node has heard of the owner, which may have spoken just before it lost the slot
	await(t, fmt.Sprintf("slot %d to be nobody's", slot), func(ctx context.Context) error {
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

// Adopt gives a slot that nobody owns to a master, and waits until all nodes know and serve.
func (c *Cluster) Adopt(t testing.TB, slot int, s *Server) {
	t.Helper()
	s.Do(t, "CLUSTER", "ADDSLOTS", slot)
	c.tellMasters(t, slot, s)
	c.AwaitOwner(t, slot, s)
	c.AwaitOK(t)
}
