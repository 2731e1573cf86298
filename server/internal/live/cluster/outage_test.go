package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/live"
)

// outageLease is long enough for a busy machine: an attempt may take three quarters of a second.
const outageLease = 3 * time.Second

// A pair is an owner of streams, and a node that looks them up, each with its own client.
type pair struct {
	owner, other *member
	leases       map[string]live.Lease
	epochs       map[string]uint64
}

func joinPair(t *testing.T, address string) *pair {
	t.Helper()
	p := &pair{leases: make(map[string]live.Lease), epochs: make(map[string]uint64)}
	p.owner = join(t, openRedis(t, address, outageLease), nodeA, never, outageLease)
	p.other = join(t, openRedis(t, address, outageLease), nodeB, never, outageLease)
	for i := range 50 {
		name := fmt.Sprint("s", i)
		l := p.owner.claim(t, name)
		// Later if Redis is slow.
		eventually(t, name+" to be claimed", func() bool { return l.Epoch() != 0 })
		p.leases[name], p.epochs[name] = l, l.Epoch()
	}
	p.check(t)
	return p
}

// check waits until both nodes agree that each stream is where it was at the beginning.
func (p *pair) check(t *testing.T) {
	t.Helper()
	for name, l := range p.leases {
		eventually(t, name+" to have its owner", func() bool {
			o, err := p.other.net.Directory.Lookup(t.Context(), name)
			return err == nil && o == Owner{nodeA, p.epochs[name]} && l.Current() && l.Held()
		})
		if o, err := p.other.Owner(t.Context(), name); err != nil || o.Node != nodeA {
			t.Errorf("the owner of %s: %v, %v, want the same as before the outage", name, o, err)
		}
	}
	if lost := p.owner.hub.losses(); len(lost) != 0 {
		t.Errorf("%v were lost in the outage, want none", lost)
	}
	eventually(t, "the nodes to know each other", func() bool {
		return p.owner.Reachable() && p.other.Reachable() && len(p.owner.Peers()) == 1 &&
			len(p.other.Peers()) == 1
	})
}

// away waits until neither node reaches the directory, and checks that streams continue.
func (p *pair) away(t *testing.T) {
	t.Helper()
	eventually(t, "no answers", func() bool { return !p.owner.Reachable() && !p.other.Reachable() })
	for name, l := range p.leases {
		if o, err := p.other.Owner(t.Context(), name); err != nil ||
			o != (Owner{nodeA, p.epochs[name]}) {
			t.Errorf("the owner of %s while Redis is away: %v, %v, want the same as before", name,
				o, err)
		}
		eventually(t, "the owner to go on", l.Current)
	}
}

// Neither a server that stops answering, nor one that dies and returns without data, affects
// running streams.
func TestRedisUnreachable(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := joinPair(t, "redis://"+s.Addr())
	s.Pause(t)
	p.away(t)
	late := p.other.claim(t, "late")
	if late.Epoch() != 0 {
		t.Errorf("a claim while Redis is away has epoch %d, want 0", late.Epoch())
	}
	time.Sleep(outageLease) // the leases end before it resumes
	s.Resume(t)
	p.check(t)
	eventually(t, "the late claim", late.Current)
	s.Kill()
	p.away(t)
	s.Restart(t)
	p.check(t)
	eventually(t, "the late claim", func() bool {
		o, err := p.owner.Owner(t.Context(), "late")
		return err == nil && o == Owner{nodeB, late.Epoch()}
	})
	// Events arrive again, too.
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	found := make(chan Owner, 1)
	go func() {
		o, _ := p.other.finder.awaitOwner(ctx, "new")
		found <- o
	}()
	l := p.owner.claim(t, "new")
	if o := <-found; o != (Owner{nodeA, l.Epoch()}) {
		t.Errorf("the owner is %v, want the claim with its epoch", o)
	}
}

// Slots are migrated and masters change while leases are renewed.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 3)
	p := joinPair(t, "redis+cluster://"+strings.Join(c.Addrs(), ","))
	key := p.other.net.Directory.(*Redis).key
	m := c.BeginMigration(t, redistest.Slot(key("s7")))
	p.check(t)
	if l, err := p.other.Claim(t.Context(), "s7"); err == nil {
		t.Errorf("a claim while the slot moves: epoch %d", l.Epoch())
	}
	m.Move(t, key("s7"))
	p.check(t)
	m.Finish(t)
	p.check(t)
	c.Failover(t, c.Owner(t, key("s1")))
	p.check(t)
	c.Kill(t, c.Owner(t, key("s2")))
	p.check(t)
	moved := p.owner.Node.leases.leases["s3"]
	moved.Release()
	eventually(t, "a claim after a release", func() bool {
		l, err := p.other.Claim(t.Context(), "s3")
		return err == nil && l.Epoch() > p.epochs["s3"]
	})
}

// Sentinels promote another server.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	p := joinPair(t, "redis://"+s.Addr()+"?master_name="+redistest.MasterName)
	s.Failover(t)
	p.check(t)
	s.Master().Kill()
	p.away(t)
	s.Master().Restart(t)
	p.check(t)
}
