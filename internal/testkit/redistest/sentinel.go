package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// MasterName is the sentinel's name of its master.
const MasterName = "mymaster"

// sentinelTimings replace the sentinel's sense of time, in milliseconds: it is made for networks of
// machines. While a master is down, a replica is good for its place if its INFO is no older than
// five ping periods. It is asked for INFO each second, with any info-period: hence a ping period of
// more than a fifth of that. The last two keep the sentinel from doing nothing for half a minute
// ("tilt") because a busy machine has let it wait for two seconds.
var sentinelTimings = []any{
	"SENTINEL", "DEBUG",
	"info-period", 100, "ping-period", 500, "publish-period", 100, "ask-period", 100,
	"min-link-reconnect-period", 100, "tilt-trigger", 60000, "tilt-period", 1000,
}

// Sentinel is a sentinel with its own master and replica; it alone is a quorum.
type Sentinel struct {
	server          *Server
	master, replica *Server
}

// StartSentinel starts a master, a replica in step with it, and a sentinel that knows both. They
// end with the test.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{master: Start(t)}
	s.replica = Start(t, Config(fmt.Sprintf("replicaof %s %d", host, s.master.port)))
	s.replica.awaitSync(t)
	s.server = start(t, config{sentinel: true, lines: []string{
		fmt.Sprintf("sentinel monitor %s %s %d 1", MasterName, host, s.master.port),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, nodeTimeout),
		// For twice this time after a failover the sentinel starts none.
		fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, 2*nodeTimeout),
	}})
	s.server.Do(t, sentinelTimings...)
	await(t, "the sentinel to know the replica", func(ctx context.Context) error {
		reply, err := s.server.do(ctx, "SENTINEL", "REPLICAS", MasterName)
		if n := len(list(reply)); err == nil && n != 1 {
			err = fmt.Errorf("%d replicas", n)
		}
		return err
	})
	return s
}

// Addr returns the sentinel's address, host:port. It calls its master [MasterName].
func (s *Sentinel) Addr() string { return s.server.Addr() }

// Master returns the server that was last made the master.
func (s *Sentinel) Master() *Server { return s.master }

// Promote has the sentinel make the replica the master, which both live on, and waits until the
// sentinel calls it so. The old master may be one that cannot be told.
func (s *Sentinel) Promote(t testing.TB) {
	t.Helper()
	await(t, "the sentinel to call the replica the master", func(ctx context.Context) error {
		reply, err := s.server.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if err != nil {
			return err
		}
		if addr := list(reply); len(addr) == 2 && addr[1] == strconv.Itoa(s.replica.port) {
			return nil
		}
		// INPROG while it is at it; NOGOODSLAVE as long as it knows too little of the replica. It
		// may also begin, find that out, and give up: then it is to be told again.
		if _, err = s.server.do(ctx, "SENTINEL", "FAILOVER", MasterName); err == nil {
			err = errors.New("it has begun")
		}
		return err
	})
	s.master, s.replica = s.replica, s.master
}

// Failover has the sentinel swap master and replica, and waits until that is over and the old
// master is in step.
func (s *Sentinel) Failover(t testing.TB) {
	t.Helper()
	s.Promote(t)
	await(t, fmt.Sprintf("%s to be the master", s.master), func(ctx context.Context) error {
		info, err := s.master.fields(ctx, "INFO", "replication")
		if err == nil && info["role"] != "master" {
			err = fmt.Errorf("its role is %s", info["role"])
		}
		if err != nil {
			return err
		}
		state, err := s.server.do(ctx, "SENTINEL", "MASTER", MasterName)
		if err == nil && strings.Contains(fmt.Sprint(state), "failover_in_progress") {
			err = errors.New("the failover is not over")
		}
		return err
	})
	s.replica.awaitSync(t)
}
