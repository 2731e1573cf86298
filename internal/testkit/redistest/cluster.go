package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
			s.Kill() // no client is left
			if t.Failed() {
				t.Logf("the log of %s:\n%s", s, s.log())
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
	c.awaitOK(t)
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

// awaitOK waits until every live node calls the cluster's state ok, knows an owner for each slot, and knows each live
// replica as one.
func (c *Cluster) awaitOK(t testing.TB) {
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

// Addrs returns the addresses of all nodes, first those that began as masters.
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
		Password:                 c.nodes[0].conf.password,
		TLSConfig:                c.nodes[0].tlsConfig(),
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
		t.Fatalf("redistest: no node owns slot %d", slot)
	}
	return owner
}

func (c *Cluster) self(t testing.TB, s *Server) node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	self, err := s.self(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// Masters returns the live masters.
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

// ReplicasOf returns the live replicas of master.
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

// awaitOwner waits until every live node thinks that s owns the slot.
func (c *Cluster) awaitOwner(t testing.TB, slot int, s *Server) {
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

// span is a range of slots, both ends included.
type span struct{ first, last int }

// node is a line of CLUSTER NODES: what one node thinks of another, or of itself.
type node struct {
	id     string
	flags  []string
	master string // the id of a replica's master; "-" for a master
	epoch  int
	slots  []span
}

func (n node) is(flag string) bool { return slices.Contains(n.flags, flag) }

func (n node) owns(slot int) bool {
	return slices.ContainsFunc(n.slots, func(s span) bool { return s.first <= slot && slot <= s.last })
}

// nodes returns what s knows of the cluster.
func (s *Server) nodes(ctx context.Context) ([]node, error) {
	reply, err := s.do(ctx, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	return parseNodes(text)
}

// parseNodes reads the lines "id address flags master ping-sent pong-recv config-epoch link-state slot ...".
func parseNodes(text string) ([]node, error) {
	var nodes []node
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("redistest: CLUSTER NODES says %q", line)
		}
		n := node{id: f[0], flags: strings.Split(f[2], ","), master: f[3]}
		n.epoch, _ = strconv.Atoi(f[6])
		for _, word := range f[8:] {
			if strings.HasPrefix(word, "[") {
				continue // a slot that is moving
			}
			first, last, ok := strings.Cut(word, "-")
			if !ok {
				last = first
			}
			a, err1 := strconv.Atoi(first)
			b, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("redistest: CLUSTER NODES says %q", line)
			}
			n.slots = append(n.slots, span{a, b})
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// self returns what s thinks of itself.
func (s *Server) self(ctx context.Context) (node, error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return node{}, err
	}
	for _, n := range nodes {
		if n.is("myself") {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("redistest: %s does not know itself", s)
}

// owner returns the id of the node that s thinks owns the slot; empty if none does.
func (s *Server) owner(ctx context.Context, slot int) (string, error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if n.owns(slot) {
			return n.id, nil
		}
	}
	return "", nil
}

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// Slot returns the hash slot of a key: of what stands in its first pair of braces, if that is not empty.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % Slots
}

// crc16 is CRC-16/XMODEM, a bit at a time.
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

// KeyIn returns a key of that slot that ends in name: the same one for the same arguments.
func KeyIn(slot int, name string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("{%d}%s", i, name); Slot(key) == slot {
			return key
		}
	}
}
