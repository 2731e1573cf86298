package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace/internal/relay"
)

const (
	// askAgain is how often the hub is asked whether a stream is wanted that has no owner.
	askAgain = time.Second
	// pullPause is before the second try to pull a stream: an owner is known before its publisher has sent something.
	pullPause = 50 * time.Millisecond
)

// A pull gets a stream from its owner as long as it is wanted. The fields below name are under the Node's mu.
type pull struct {
	name   string
	again  bool   // it was wanted again since the hub was asked
	epoch  uint64 // of the ownership that it is pulled from; 0: of none
	cancel context.CancelFunc
}

// Want implements [relay.Cluster].
func (n *Node) Want(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	p := n.pulls[name]
	if p == nil {
		p = &pull{name: name}
		n.pulls[name] = p
		n.running.Go(func() { n.pull(p) })
	}
	p.again = true
}

// wanted reports whether p goes on. If not, p is not among n.pulls any more.
func (n *Node) wanted(p *pull) bool {
	for n.ctx.Err() == nil {
		n.mu.Lock()
		p.again = false
		n.mu.Unlock()
		if n.hub.Wanted(p.name) {
			return true
		}
		n.mu.Lock()
		if !p.again {
			delete(n.pulls, p.name)
			n.mu.Unlock()
			return false
		}
		n.mu.Unlock()
	}
	return false
}

// pull runs until the stream is not wanted any more, or n ends.
func (n *Node) pull(p *pull) {
	wait := pullPause
	warned := false
	for n.wanted(p) {
		ctx, cancel := context.WithTimeout(n.ctx, askAgain)
		owner, err := n.AwaitOwner(ctx, p.name)
		cancel()
		if err != nil {
			continue
		}
		changed := n.changed(p.name)
		begun := time.Now()
		if owner.Node != n.cfg.Self { // else the hub is about to know
			err = n.pullFrom(p, owner)
			if err != nil {
				n.log.Debug("pulling ended", "stream", p.name, "node", owner.Node, "epoch", owner.Epoch, "err", err)
				n.Forget(p.name, owner.Epoch)
			}
		}
		longest := n.cfg.Lease / attempts
		switch {
		case time.Since(begun) > n.cfg.Lease:
			wait, warned = pullPause, false
		case err != nil && wait == longest && !warned && n.ctx.Err() == nil: // it goes on for more than a moment
			warned = true
			n.log.Warn("a stream cannot be pulled from its owner", "stream", p.name, "node", owner.Node, "err", err)
		}
		again := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-changed: // another owner, at once
			wait = pullPause
		case <-again.C:
			wait = min(2*wait, longest)
		case <-n.ctx.Done():
		}
		again.Stop()
	}
}

// pullFrom pulls until there is an owner with a greater epoch, or the pull ends by itself.
func (n *Node) pullFrom(p *pull, from Owner) error {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	n.mu.Lock()
	p.epoch, p.cancel = from.Epoch, cancel
	if n.record(p.name).owner.Epoch > from.Epoch {
		cancel()
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		p.epoch, p.cancel = 0, nil
		n.mu.Unlock()
	}()
	return n.hub.Pull(ctx, p.name, relay.Source{Node: from.Node, Epoch: from.Epoch, Header: n.Header()})
}
