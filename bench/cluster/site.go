package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// A site is a cluster with its Redis server, or a single node without Redis.
type site struct {
	b     *bench
	flags []string // additional flags of the nodes
	dir   string
	addr  string          // address of Redis; empty for a single server
	redis *measure.Server // nil for a single server, or while Redis is down
	nodes []*node
}

// A node is a process that runs "millrace serve".
type node struct {
	*measure.Server
	*counter // proxy between the other nodes and this node; nil: no proxy
	addr     string
}

func (n *node) url() string { return "http://" + n.addr }

// whole is for clients that need complete payloads.
func (n *node) whole() load.Protocol { return httpflv.Server{URL: n.url()} }

// flv is for clients that need only the start of each payload.
func (n *node) flv() load.Protocol { return load.HTTPFLV(load.Config{URL: n.url()}) }

// alone starts a site with one server outside any cluster. The caller must close the site.
func (b *bench) alone(ctx context.Context) (*site, error) {
	s := &site{b: b}
	return s.started(s.add(ctx, false))
}

// nodes starts a cluster of n nodes. If counted is true, proxies count the bytes between the nodes.
// The caller must close the site.
func (b *bench) nodes(ctx context.Context, n int, counted bool, flags ...string) (*site, error) {
	s := &site{b: b, flags: flags}
	err := s.startRedis(ctx)
	for range n {
		if err == nil {
			err = s.add(ctx, counted)
		}
	}
	return s.started(err)
}

func (s *site) started(err error) (*site, error) {
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// startRedis starts an empty Redis server. Every Redis server of the site has the same address.
func (s *site) startRedis(ctx context.Context) (err error) {
	if s.addr == "" {
		if s.addr, err = measure.FreeAddr(); err != nil {
			return err
		}
		if s.dir, err = os.MkdirTemp(s.b.dir, "redis-"); err != nil {
			return err
		}
	}
	s.redis, err = measure.StartRedis(ctx, s.dir, s.addr)
	return err
}

func (s *site) add(ctx context.Context, counted bool) error {
	n := new(node)
	var err error
	if n.addr, err = measure.FreeAddr(); err != nil {
		return err
	}
	if counted {
		if n.counter, err = countBytes(n.addr); err != nil {
			return err
		}
	}
	s.nodes = append(s.nodes, n)
	return s.start(ctx, n)
}

func (s *site) start(ctx context.Context, n *node) (err error) {
	args := []string{"serve", "--listen", n.addr, "--rtmp", "", "--log-level", "error"}
	if s.addr != "" {
		advertised := n.url()
		if n.counter != nil {
			advertised = "http://" + n.counter.addr()
		}
		args = append(args, "--cluster", "redis://"+s.addr, "--cluster-token", "bench",
			"--advertise", advertised)
	}
	time.Sleep(rand.N(bound)) // so that the nodes flush at different times
	n.Server, err = measure.StartServer(ctx, n.addr,
		exec.Command(s.b.bin, append(args, s.flags...)...))
	return err
}

// kill sends SIGKILL to a server, so that the server cannot announce its shutdown.
func kill(s *measure.Server) error {
	err := signal(s, syscall.SIGKILL)
	s.Stop()
	return err
}

func signal(s *measure.Server, sig syscall.Signal) error { return syscall.Kill(s.PIDs[0], sig) }

func (s *site) close() {
	for _, n := range s.nodes {
		if n.Server != nil {
			n.Stop()
		}
		if n.counter != nil {
			n.counter.close()
		}
	}
	if s.redis != nil {
		_ = signal(s.redis, syscall.SIGCONT)
		s.redis.Stop()
	}
}

// A spread is a load.Protocol that distributes publishers and viewers over the nodes of a cluster.
type spread struct {
	in, out []load.Protocol // nodes for publishers, and nodes for viewers
	streams map[string]*turns
}

type turns struct {
	in  int          // index of the publisher's node
	out atomic.Int64 // index of the next viewer's node, modulo the number of nodes
}

func newSpread(names []string, pubNodes, viewNodes []*node) *spread {
	s := &spread{streams: make(map[string]*turns)}
	for _, n := range pubNodes {
		s.in = append(s.in, n.flv())
	}
	for _, n := range viewNodes {
		s.out = append(s.out, n.flv())
	}
	for i, name := range names {
		t := &turns{in: i % len(pubNodes)}
		t.out.Store(int64(i))
		s.streams[name] = t
	}
	return s
}

func (s *spread) String() string { return "the cluster" }

func (s *spread) Publish(ctx context.Context, name string) (load.Publication, error) {
	return s.in[s.streams[name].in].Publish(ctx, name)
}

func (s *spread) Watch(ctx context.Context, name string) (load.Subscription, error) {
	i := s.streams[name].out.Add(1) - 1
	return s.out[int(i)%len(s.out)].Watch(ctx, name)
}

var errEnded = errors.New("the viewer was disconnected")
