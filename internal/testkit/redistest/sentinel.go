package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// masterName is what the sentinel calls its master.
const masterName = "mymaster"

// sentinelTimings replace the sentinel's sense of time, in milliseconds: it is made for networks of machines. While a
// master is down, a replica is good for its place if its INFO is no older than five ping periods. It is asked for INFO
// each second, with any info-period: hence a ping period of more than a fifth of that. The last two keep the
// sentinel from doing nothing for half a minute ("tilt") because a busy machine has let it wait for two seconds.
var sentinelTimings = []any{
	"info-period", 100, "ping-period", 500, "publish-period", 100, "ask-period", 100,
	"min-link-reconnect-period", 100, "tilt-trigger", 60000, "tilt-period", 1000,
}

// Sentinel is a sentinel with a master and a replica of its own; it alone is a quorum.
type Sentinel struct {
	server *Server
	nodes  []*Server // first the one that began as the master
}

// StartSentinel starts a master, a replica in step with it, and a sentinel that knows both. They end with the test.
// Password, TLS and Config are for the two; the sentinel speaks TLS, too, but asks for no password.
func StartSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	conf := configure(opts)
	master := start(t, conf)
	conf.master = master
	replica := start(t, conf)
	s := &Sentinel{
		server: start(t, config{tls: conf.tls, sentinelOf: master}),
		nodes:  []*Server{master, replica},
	}
	s.server.Do(t, append([]any{"SENTINEL", "DEBUG"}, sentinelTimings...)...)
	await(t, "the sentinel to know the replica", func(ctx context.Context) error {
		reply, err := s.server.do(ctx, "SENTINEL", "REPLICAS", masterName)
		if err != nil {
			return err
		}
		if replicas, _ := reply.([]any); len(replicas) != 1 {
			return fmt.Errorf("%d replicas", len(replicas))
		}
		return nil
	})
	return s
}

// sentinelLines is the configuration of a sentinel.
func (s *Server) sentinelLines() []string {
	m := s.conf.sentinelOf
	lines := []string{
		fmt.Sprintf("sentinel monitor %s %s %d 1", masterName, host, m.port),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, nodeTimeout),
		// Twice this long after a failover the sentinel begins none by itself.
		fmt.Sprintf("sentinel failover-timeout %s %d", masterName, 2*nodeTimeout),
	}
	if p := m.conf.password; p != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", masterName, p))
	}
	if s.conf.tls {
		lines = append(lines, "tls-replication yes") // for its own connections to the two as well
	}
	return lines
}

// Addr returns the sentinel's address.
func (s *Sentinel) Addr() string { return s.server.Addr() }

// MasterName returns the name under which the sentinel knows the master.
func (s *Sentinel) MasterName() string { return masterName }

// Options returns new options of a client that asks the sentinel for the master; see [Server.Options].
func (s *Sentinel) Options() *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName:    masterName,
		SentinelAddrs: []string{s.Addr()},
		Password:      s.nodes[0].conf.password,
		TLSConfig:     s.nodes[0].tlsConfig(),
	}
}

// Client returns a client that follows the master. It is closed when the test ends.
func (s *Sentinel) Client(t testing.TB) *redis.Client {
	t.Helper()
	return closing(t, redis.NewFailoverClient(s.Options()))
}

// Master returns the server that the sentinel calls the master.
func (s *Sentinel) Master(t testing.TB) *Server {
	t.Helper()
	reply := s.server.Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	i := s.index(reply)
	if i < 0 {
		t.Fatalf("redistest: the sentinel calls %v the master", reply)
	}
	return s.nodes[i]
}

// Replica returns the other one.
func (s *Sentinel) Replica(t testing.TB) *Server {
	t.Helper()
	if s.Master(t) == s.nodes[0] {
		return s.nodes[1]
	}
	return s.nodes[0]
}

// index returns which of the nodes an address is of, as the sentinel writes it; -1 for neither.
func (s *Sentinel) index(reply any) int {
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return -1
	}
	for i, n := range s.nodes {
		if net.JoinHostPort(fmt.Sprint(pair[0]), fmt.Sprint(pair[1])) == net.JoinHostPort(host, strconv.Itoa(n.port)) {
			return i
		}
	}
	return -1
}

// Failover has the sentinel swap master and replica, which both live on. It waits until that is done and the old master
// is in step, and returns the new one.
func (s *Sentinel) Failover(t testing.TB) *Server {
	t.Helper()
	old, next := s.Master(t), s.Replica(t)
	await(t, "the sentinel to swap master and replica", func(ctx context.Context) error {
		reply, err := s.server.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if err != nil {
			return err
		}
		if i := s.index(reply); i >= 0 && s.nodes[i] == next {
			return nil
		}
		// INPROG while it is at it; NOGOODSLAVE as long as it knows too little of the replica. It may also begin, find that
		// out, and give up: then it is to be told again.
		if _, err = s.server.do(ctx, "SENTINEL", "FAILOVER", masterName); err == nil {
			err = errors.New("it has begun")
		}
		return err
	})
	s.awaitMaster(t, next)
	old.awaitSync(t)
	return next
}

// awaitMaster waits until the sentinel calls that server the master, it is one, and the failover is over. After
// [Server.Kill] of the master that takes about two seconds, or five when there has just been another failover.
func (s *Sentinel) awaitMaster(t testing.TB, next *Server) {
	t.Helper()
	await(t, fmt.Sprintf("%s to be the master", next), func(ctx context.Context) error {
		reply, err := s.server.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if err != nil {
			return err
		}
		if i := s.index(reply); i < 0 || s.nodes[i] != next {
			return fmt.Errorf("the sentinel says %v", reply)
		}
		info, err := next.info(ctx, "replication")
		if err != nil {
			return err
		}
		if info["role"] != "master" {
			return fmt.Errorf("its role is %s", info["role"])
		}
		state, err := s.server.do(ctx, "SENTINEL", "MASTER", masterName)
		if err == nil && strings.Contains(fmt.Sprint(state), "failover_in_progress") {
			err = fmt.Errorf("the failover is not over")
		}
		return err
	})
}
