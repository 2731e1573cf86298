package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// nodeTimeout is the number of milliseconds of silence after which a node is suspected: as little as a busy machine
// bears without taking a live one for dead.
const nodeTimeout = 1000

// Cluster is a running Redis Cluster. Its methods are for one goroutine; clients may use it meanwhile.
type Cluster struct {
	nodes []*Server // masters first, as they began
	ids   map[*Server]string
	dead  map[*Server]int // those that Kill has ended, and the first slot that each owned; -1 for none
}

// StartCluster starts a cluster that ends with the test: three masters that share the slots evenly, each with a
// replica, unless the options say otherwise. It takes about two seconds, because a master waits that long before it
// serves at all. A test that changes nothing can use [SharedCluster].
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	path, dir := program(t), tempDir(t)
	c, err := newCluster(path, dir, configure(opts))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range c.nodes {
			s.Kill() // nobody is left to say good-bye to
			if t.Failed() {
				t.Logf("the log of %s:\n%s", s, s.Log())
			}
			s.close()
		}
	})
	c.form(t)
	return c
}

// SharedCluster returns the cluster that all tests of a package share, with all options at their defaults: the first call
// starts it, and it dies with the test binary, as [Shared] does. Tests use keys of their own and leave the nodes and their
// slots alone.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		path := program(t)
		dir, err := os.MkdirTemp("", "redistest")
		if err != nil {
			t.Fatal(err)
		}
		if err := removeAtExit(dir); err != nil {
			t.Fatal(err)
		}
		c, err := newCluster(path, dir, configure(nil))
		if err != nil {
			t.Fatal(err)
		}
		c.form(t)
		shared.cluster = c
	}
	for _, s := range shared.cluster.nodes {
		s.show(t)
	}
	return shared.cluster
}

// clusterLines is the configuration of a node.
func (s *Server) clusterLines() []string {
	lines := []string{
		"cluster-enabled yes",
		fmt.Sprint("cluster-port ", s.bus),
		fmt.Sprint("cluster-node-timeout ", nodeTimeout),
		"cluster-replica-validity-factor 0",  // a replica that was out of touch for long stands for election, too
		"cluster-allow-replica-migration no", // a replica stays with its master, and a master without slots a master
	}
	if s.conf.tls {
		lines = append(lines, "tls-cluster yes")
	}
	return lines
}

// newCluster starts the servers. They do not know each other yet.
func newCluster(path, dir string, conf config) (*Cluster, error) {
	if conf.masters < 1 || conf.replicas < 0 || conf.unix || conf.master != nil {
		return nil, errors.New("redistest: a cluster has a master at least, ports, and replicas of its own")
	}
	conf.cluster = true
	n := conf.masters + conf.replicas
	c := &Cluster{nodes: make([]*Server, n), ids: make(map[*Server]string), dead: make(map[*Server]int)}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			dir := filepath.Join(dir, strconv.Itoa(i))
			if errs[i] = os.Mkdir(dir, 0o700); errs[i] == nil {
				c.nodes[i], errs[i] = newServer(path, dir, conf)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, s := range c.nodes {
			if s != nil {
				s.Kill()
				s.close()
			}
		}
		return nil, err
	}
	return c, nil
}

// form introduces the nodes to each other, deals the slots and the replicas, and waits until all is well.
func (c *Cluster) form(t testing.TB) {
	t.Helper()
	masters := c.nodes[0].conf.masters
	for i, s := range c.nodes {
		c.ids[s], _ = s.Do(t, "CLUSTER", "MYID").(string)
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1) // else they have to sort out who of them is right
		if i < masters {
			s.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*Slots/masters, (i+1)*Slots/masters-1)
		}
		for _, other := range c.nodes[:i] { // all of them, since gossip takes its time
			s.Do(t, "CLUSTER", "MEET", host, other.port, other.bus)
		}
	}
	for i, s := range c.nodes[masters:] {
		master := c.ids[c.nodes[i%masters]]
		await(t, "a replica to know its master", func(ctx context.Context) error {
			_, err := s.do(ctx, "CLUSTER", "REPLICATE", master)
			return err
		})
	}
	c.AwaitOK(t)
	for _, s := range c.nodes[masters:] {
		s.awaitSync(t)
	}
}

// live returns the nodes that have not been killed.
func (c *Cluster) live() []*Server {
	var live []*Server
	for _, s := range c.nodes {
		if _, dead := c.dead[s]; !dead {
			live = append(live, s)
		}
	}
	return live
}

// AwaitOK waits until every live node calls the cluster's state ok, knows an owner for each slot, and knows each live
// replica as one.
func (c *Cluster) AwaitOK(t testing.TB) {
	t.Helper()
	await(t, "cluster_state:ok at every node", func(ctx context.Context) error {
		replicas := -1
		for _, s := range c.live() {
			reply, err := s.do(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			info := fields(reply)
			if info["cluster_state"] != "ok" || info["cluster_slots_assigned"] != strconv.Itoa(Slots) ||
				info["cluster_known_nodes"] != strconv.Itoa(len(c.nodes)) {
				return fmt.Errorf("%s: %s, %s slots, %s nodes", s, info["cluster_state"], info["cluster_slots_assigned"],
					info["cluster_known_nodes"])
			}
			nodes, err := s.nodes(ctx)
			if err != nil {
				return err
			}
			known := 0
			for _, n := range nodes {
				if n.is("slave") {
					known++
				}
			}
			if replicas >= 0 && known != replicas {
				return fmt.Errorf("%s knows %d replicas, another %d", s, known, replicas)
			}
			replicas = known
		}
		return nil
	})
}

// Nodes returns all nodes, dead or alive, those first that began as masters.
func (c *Cluster) Nodes() []*Server { return c.nodes[:len(c.nodes):len(c.nodes)] }

// Addrs returns the addresses of all nodes, in the order of Nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.nodes {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Options returns new options of a client of the cluster; see [Server.Options].
func (c *Cluster) Options() *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:                    c.Addrs(),
		Password:                 c.nodes[0].Password(),
		TLSConfig:                c.nodes[0].TLSConfig(),
		MaintNotificationsConfig: noMaintenance(),
	}
}

// Client returns a client of the cluster that is closed when the test ends.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	return closing(t, redis.NewClusterClient(c.Options()))
}

// Owner returns the master that owns the key's slot.
func (c *Cluster) Owner(t testing.TB, key string) *Server {
	t.Helper()
	return c.OwnerOf(t, Slot(key))
}

// OwnerOf returns the live master that owns the slot, by its own account. Just after a failover two may think so: the
// one with the newer epoch is right.
func (c *Cluster) OwnerOf(t testing.TB, slot int) *Server {
	t.Helper()
	var owner *Server
	epoch := -1
	for _, s := range c.live() {
		self := c.self(t, s)
		if self.owns(slot) && self.epoch > epoch {
			owner, epoch = s, self.epoch
		}
	}
	if owner == nil {
		t.Fatalf("redistest: nobody owns slot %d", slot)
	}
	return owner
}

func (c *Cluster) self(t testing.TB, s *Server) node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	self, err := s.self(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// Masters returns the live masters, in the order of Nodes.
func (c *Cluster) Masters(t testing.TB) []*Server {
	t.Helper()
	var masters []*Server
	for _, s := range c.live() {
		if c.self(t, s).is("master") {
			masters = append(masters, s)
		}
	}
	return masters
}

// Other returns a live master that is not s.
func (c *Cluster) Other(t testing.TB, s *Server) *Server {
	t.Helper()
	for _, m := range c.Masters(t) {
		if m != s {
			return m
		}
	}
	t.Fatal("redistest: there is one master only")
	return nil
}

// ReplicasOf returns the live replicas of master, in the order of Nodes.
func (c *Cluster) ReplicasOf(t testing.TB, master *Server) []*Server {
	t.Helper()
	var replicas []*Server
	for _, s := range c.live() {
		if c.self(t, s).master == c.ids[master] {
			replicas = append(replicas, s)
		}
	}
	return replicas
}

// AwaitOwner waits until every live node thinks that s owns the slot.
func (c *Cluster) AwaitOwner(t testing.TB, slot int, s *Server) {
	t.Helper()
	await(t, fmt.Sprintf("%s to own slot %d", s, slot), func(ctx context.Context) error {
		for _, asked := range c.live() {
			id, err := asked.owner(ctx, slot)
			if err != nil {
				return err
			}
			if id != c.ids[s] {
				return fmt.Errorf("%s says %q", asked, id)
			}
		}
		return nil
	})
}
