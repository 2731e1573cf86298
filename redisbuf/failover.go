package redisbuf

import (
	"context"
	"time"
)

const (
	// failoverAddr is what go-redis gives as the address of a Sentinel's master: its Dialer asks where that is.
	failoverAddr = "FailoverClient"

	// followEvery is how often that is asked while there are connections, which costs a connection. A master that was cut off
	// does not know that it has been replaced: it accepts writes until then, and loses them when it rejoins.
	followEvery = time.Second
)

// keepFollowing leaves masters that the Sentinel has replaced, until ctx ends. Connections that are always in use would
// otherwise stay there: the Sentinel alone knows.
func (n *node) keepFollowing(ctx context.Context) {
	t := time.NewTicker(followEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		_ = apart(func() { n.follow(ctx) }) // a call in which the user's code panics as well tells who is to know
	}
}

// follow has the connections closed that do not lead where a new one does, as soon as their calls have ended. If there is
// no new one, or it leads to a replica, all stay: go-redis chooses among replicas by chance if it was made for them
// (ReplicaOnly).
func (n *node) follow(ctx context.Context) {
	if n.conns.Stat().TotalResources() == 0 {
		return
	}
	ctx, cancel := n.dialing(ctx)
	defer cancel()
	probe, err := n.connect(ctx)
	if err != nil {
		return
	}
	defer func() { _ = probe.conn.Close() }()
	master := probe.conn.RemoteAddr()
	if master == nil || len(n.strays(master.String())) == 0 {
		return
	}
	if err := probe.introduce(ctx, n.opt); err != nil {
		return
	}
	if replica, err := probe.isReplica(ctx); err != nil || replica {
		return
	}
	for _, c := range n.strays(master.String()) {
		c.left.Store(true)
	}
	n.clean()
}

// strays returns the connections that do not lead to master.
func (n *node) strays(master string) (strays []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.live {
		if a := c.conn.RemoteAddr(); !c.left.Load() && a != nil && a.String() != master {
			strays = append(strays, c)
		}
	}
	return strays
}
