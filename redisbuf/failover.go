package redisbuf

import (
	"context"
	"time"
)

const (
	// failoverAddr is go-redis' address for the master of a Sentinel; the Dialer asks the Sentinel.
	failoverAddr = "FailoverClient"

	// followInterval is how often the Sentinel is asked while there are connections. A master that
	// was cut off does not know that it was replaced: it accepts writes, and loses them when it
	// rejoins.
	followInterval = time.Second
)

// followMaster leaves masters that the Sentinel has replaced, until ctx ends. Without it,
// connections that are always in use would stay there: only the Sentinel knows.
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
		go func() { // another goroutine, because the user's Dialer may end it
			defer close(checked)
			// A call that makes a connection panics as well, and tells the user.
			defer func() { _ = recover() }()
			n.checkMaster(ctx)
		}()
		<-checked
	}
}

// checkMaster makes a connection. If that leads to another master, it marks the connections that do
// not: each is closed when no call uses it. A replica is ignored: go-redis chooses among replicas
// by chance if it was made for them (ReplicaOnly).
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

// staleConns returns the connections that do not lead to master.
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
