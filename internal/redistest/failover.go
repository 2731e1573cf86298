package redistest

import (
	"context"
	"fmt"
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
		return fmt.Errorf("nobody owns slot %d yet", slot)
	})
	c.AwaitOwner(t, slot, promoted)
	c.AwaitOK(t)
	return promoted
}

// Revive starts a node again that Kill has ended. It knows the cluster as it left it and finds out what has become of
// its slots; Revive waits until it is a replica in step or, if nobody took its place, a master again.
func (c *Cluster) Revive(t testing.TB, s *Server) {
	t.Helper()
	slot := c.dead[s]
	s.Restart(t)
	delete(c.dead, s)
	await(t, fmt.Sprintf("%s to find its place", s), func(ctx context.Context) error {
		self, err := s.self(ctx)
		if err != nil || slot < 0 || self.is("slave") {
			return err
		}
		for _, asked := range c.live() { // it is a master as long as it has not heard of another
			if id, err := asked.owner(ctx, slot); err != nil || id != c.ids[s] {
				return fmt.Errorf("%s says %q: %w", asked, id, err)
			}
		}
		return nil
	})
	c.AwaitOK(t)
	if c.self(t, s).is("slave") {
		s.awaitSync(t)
	}
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
	c.AwaitOwner(t, slots[0].first, replica)
	master.awaitSync(t)
	c.AwaitOK(t)
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
