package redisbuf

import (
	"context"
	"time"
)

const (
	// failoverAddr is the address that go-redis uses for the master of a Sentinel. The Dialer
	// queries the Sentinel for the real address.
	failoverAddr = "FailoverClient"

	// followInterval is the time between two queries for the current master. There are queries only
	// while there are connections. A master that is cut off from the Sentinel does not know that it
	// was replaced. It still accepts writes, and loses them when it rejoins.
	followInterval = time.Second
)

// followMaster closes the connections to replaced masters, until ctx ends. Without it, a connection
// in constant use would stay with the old master.
func (n *node) followMaster(ctx context.Context) {
	t := time.NewTicker(followInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		checked := make(chan struct{})
		go func() { // a separate goroutine, because the user's Dialer may call runtime.Goexit
			defer close(checked)
			// A panic of the user's code, such as the Dialer, can be ignored here, because the next
			// call that makes a connection panics as well.
			defer func() { _ = recover() }()
			n.checkMaster(ctx)
		}()
		<-checked
	}
}

// checkMaster makes a connection to find out whether the Sentinel has chosen a new master. If the
// new connection is to a master, checkMaster marks the connections to all other addresses as
// replaced. A replaced connection is closed as soon as no call uses it.
//
// If the new connection is to a replica, checkMaster does nothing, because a go-redis client for
// replicas (ReplicaOnly) chooses a replica at random.
func (n *node) checkMaster(ctx context.Context) {
	n.mu.Lock()
	live := len(n.live)
	n.mu.Unlock()
	if live == 0 {
		return
	}
	ctx, cancel := n.dialContext(ctx)
	defer cancel()
	probe, err := n.connect(ctx)
	if err != nil {
		return
	}
	defer probe.close()
	master := probe.net.RemoteAddr()
	if master == nil || len(n.staleConns(master.String())) == 0 {
		return
	}
	if err := probe.handshake(ctx, n.opt); err != nil {
		return
	}
	role := newRoleCmd()
	if err := probe.run(ctx, role); err != nil || role.isReplica() {
		return
	}
	for _, c := range n.staleConns(master.String()) {
		c.replaced.Store(true)
	}
	n.closeExpired()
}

// staleConns returns the connections to addresses other than masterAddr. It omits connections that
// are already marked as replaced.
func (n *node) staleConns(masterAddr string) (stale []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.live {
		if !c.replaced.Load() && c.peer != "" && c.peer != masterAddr {
			stale = append(stale, c)
		}
	}
	return stale
}
