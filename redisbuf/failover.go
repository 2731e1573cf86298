package redisbuf

import (
	"context"
	"time"
)

const (
	// failoverAddr is the address that go-redis uses for the master of a Sentinel. The Dialer
	// queries the Sentinel for the real address.
	failoverAddr = "FailoverClient"

	// followInterval is the interval of the queries to the Sentinel while there are connections.
	// The queries are needed because a master that was cut off does not know that it was replaced.
	// It accepts writes, and loses them when it rejoins.
	followInterval = time.Second
)

// followMaster closes the connections to masters that the Sentinel has replaced, until ctx ends.
// Without it, connections that are always in use would stay with an old master, because only the
// Sentinel knows that it was replaced.
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
		go func() { // in another goroutine, because the user's Dialer may end it
			defer close(checked)
			// The panic is not lost: a call that makes a connection panics as well, and so reports
			// the panic to the user.
			defer func() { _ = recover() }()
			n.checkMaster(ctx)
		}()
		<-checked
	}
}

// checkMaster makes a connection. If the connection leads to a new master, checkMaster marks the
// connections to other servers, and each is closed when no call uses it. If it leads to a replica,
// checkMaster does nothing, because a go-redis client for replicas (ReplicaOnly) chooses among them
// at random.
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

// staleConns returns the connections to servers other than master.
func (n *node) staleConns(master string) (stale []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.live {
		if a := c.net.RemoteAddr(); !c.replaced.Load() && a != nil && a.String() != master {
			stale = append(stale, c)
		}
	}
	return stale
}
