package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// MasterName is the name of the master in a sentinel's configuration.
const MasterName = "mymaster"

// sentinelTimings makes a sentinel react faster. The values are in milliseconds.
//
//   - Five ping periods must last longer than a second. A replica can be promoted only if its INFO
//     is at most five ping periods old, and a sentinel requests INFO only once a second while the
//     master is down.
//   - tilt-trigger and tilt-period prevent the state "tilt", in which a sentinel does nothing for
//     half a minute. A delay of two seconds on a busy machine can cause it.
var sentinelTimings = []any{
	"SENTINEL", "DEBUG",
	"info-period", 100, "ping-period", 500, "publish-period", 100, "ask-period", 100,
	"min-link-reconnect-period", 100, "tilt-trigger", 60000, "tilt-period", 1000,
}

// Sentinel is a sentinel with its own master and replica. Its quorum is 1.
type Sentinel struct {
	server          *Server
	master, replica *Server
}

// StartSentinel starts a master, a replica, and a sentinel for both, and waits until the replica is
// in sync with the master. All three are stopped when the test ends.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{master: Start(t)}
	s.replica = Start(t, Config(fmt.Sprintf("replicaof %s %d", host, s.master.port)))
	s.replica.awaitSync(t)
	s.server = start(t, config{sentinel: true, lines: []string{
		fmt.Sprintf("sentinel monitor %s %s %d 1", MasterName, host, s.master.port),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, nodeTimeout),
		// After a failover, the sentinel starts no other failover for twice this time.
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

// Addr returns the sentinel's address, host:port. A client also needs the name of the master, which
// is [MasterName].
func (s *Sentinel) Addr() string { return s.server.Addr() }

// Master returns the current master.
func (s *Sentinel) Master() *Server { return s.master }

// Promote makes the sentinel promote the replica, and waits until the sentinel reports the replica
// as the master. Both servers continue to run. Promote also works if the sentinel cannot reach the
// old master.
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
		// The error is INPROG during a failover. It is NOGOODSLAVE if the sentinel does not know
		// enough about the replica. If the sentinel finds only during the failover that it does not
		// know enough, the failover stops, and the command must be sent again.
		if _, err = s.server.do(ctx, "SENTINEL", "FAILOVER", MasterName); err == nil {
			err = errors.New("it has begun")
		}
		return err
	})
	s.master, s.replica = s.replica, s.master
}

// Failover makes the sentinel swap the roles of the master and the replica. It waits until the old
// master is in sync.
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
