package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace/server/internal/relay"
)

const (
	// askAgain is how often the hub is asked whether a stream is wanted that has no owner.
	askAgain = time.Second
	// pullPause is before the second try to pull a stream: an owner is known before its publisher has sent something.
	pullPause = 50 * time.Millisecond
)

// Want implements [relay.Cluster].
func (n *Node) Want(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, pulled := n.pulls[name]; !pulled && n.ctx.Err() == nil {
		n.pulls[name] = false
		n.running.Go(func() { n.pull(name) })
	}
}

// wanted reports whether the pull of a stream goes on. If not, n.pulls does not have it any more.
func (n *Node) wanted(name string) bool {
	n.mu.Lock()
	delete(n.pulls, name) // Want, which may be called from now on, begins another one
	n.mu.Unlock()
	if !n.hub.Wanted(name) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, begun := n.pulls[name]; begun || n.ctx.Err() != nil {
		return false
	}
	n.pulls[name] = false
	return true
}

// pull runs until the stream is not wanted any more, or n ends.
func (n *Node) pull(name string) {
	wait := pullPause
	warned := false
	for n.wanted(name) {
		ctx, cancel := context.WithTimeout(n.ctx, askAgain)
		owner, err := n.awaitOwner(ctx, name)
		cancel()
		if err != nil {
			continue
		}
		changed := n.changed(name)
		begun := time.Now()
		if owner.Node != n.cfg.Self { // else the hub is about to know
			err = n.pullFrom(name, owner)
			if err != nil {
				n.cfg.Log.Debug("pulling ended", "stream", name, "node", owner.Node, "epoch", owner.Epoch, "err", err)
				n.forget(name, owner.Epoch)
			}
		}
		longest := n.cfg.Lease / attempts
		switch {
		case time.Since(begun) > n.cfg.Lease:
			wait, warned = pullPause, false
		case err != nil && wait == longest && !warned && n.ctx.Err() == nil: // it goes on for more than a moment
			warned = true
			n.cfg.Log.Warn("a stream cannot be pulled from its owner", "stream", name, "node", owner.Node, "err", err)
		}
		pause, cancel := context.WithTimeout(n.ctx, wait/2+rand.N(wait))
		select {
		case <-changed: // another owner, at once
			wait = pullPause
		case <-pause.Done():
			wait = min(2*wait, longest)
		}
		cancel()
	}
}

// pullFrom pulls until there is an owner with a greater epoch, or the pull ends by itself.
func (n *Node) pullFrom(name string, from Owner) error {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	n.setPulled(name, true)
	defer n.setPulled(name, false)
	n.running.Go(func() { n.follow(ctx, name, from.Epoch, cancel) })
	return n.hub.Pull(ctx, name, relay.Source{Node: from.Node, Epoch: from.Epoch, Proof: n.cfg.Secret, TLS: n.cfg.TLS})
}

func (n *Node) setPulled(name string, pulled bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pulls[name] = pulled
}

// follow calls stop when the stream has an owner with a greater epoch. It ends with ctx.
func (n *Node) follow(ctx context.Context, name string, epoch uint64, stop func()) {
	for ctx.Err() == nil {
		changed := n.changed(name)
		if o, err := n.Owner(ctx, name); err == nil && o.Epoch > epoch {
			stop()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
