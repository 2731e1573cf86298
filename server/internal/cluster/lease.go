package cluster

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay"
)

// A lease is this node's ownership of a stream. It implements [relay.Lease].
type lease struct {
	n       *Node
	name    string
	claimed chan struct{} // closed when the first try to claim it has ended

	epoch     atomic.Uint64 // 0 until it is claimed; then it stays
	ended     atomic.Bool   // lost to another node, or released; set under n.mu
	changed   atomic.Bool   // its publisher is away, or back, and the directory is to be told
	attempted atomic.Int64  // when the last attempt began to renew it that has ended, by clock
}

// started is the origin of clock.
var started = time.Now()

// clock returns a monotonic time in nanoseconds.
func clock(t time.Time) int64 { return int64(t.Sub(started)) }

// errTaken refuses publishers of a stream that has another owner.
var errTaken = refuse.New(http.StatusConflict, "this name has a publisher already, at another node")

// Claim implements [relay.Cluster].
func (n *Node) Claim(ctx context.Context, name string) (relay.Lease, error) {
	for {
		n.mu.Lock()
		if n.draining {
			n.mu.Unlock()
			return nil, refuse.ErrShutdown
		}
		l := n.leases[name]
		if left, changed := n.stays(name); l == nil && left > 0 {
			n.mu.Unlock()
			select {
			case <-time.After(left):
			case <-changed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			continue
		}
		if l == nil {
			l = &lease{n: n, name: name, claimed: make(chan struct{})}
			n.leases[name] = l
			n.mu.Unlock()
			return n.claimFirst(l)
		}
		n.mu.Unlock()
		select {
		case <-l.claimed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if l.Held() {
			return l, nil
		}
	}
}

// stays returns for how long a stream is left to another node that has just claimed it, and what is closed when that
// changes. Under another rule than TakeoverAlways it would be left alone for longer. n.mu is held.
func (n *Node) stays(name string) (left time.Duration, changed <-chan struct{}) {
	r := n.owners[name]
	if r == nil || n.cfg.Takeover != relay.TakeoverAlways || r.owner.Node == "" || r.owner.Node == n.cfg.Self {
		return 0, nil
	}
	return relay.LeastStay - time.Since(r.came), r.changed
}

// claimFirst claims l for a publisher that waits for it.
func (n *Node) claimFirst(l *lease) (relay.Lease, error) {
	var taken bool
	_ = n.ask(func(ctx context.Context) (err error) { taken, err = n.claim(ctx, l); return err })
	n.mu.Lock()
	defer n.mu.Unlock()
	if taken {
		n.remove(l)
	}
	close(l.claimed) // waiters take l if it is still held
	if taken {
		return nil, errTaken
	}
	n.record(l.name).change() // it may have no epoch
	return l, nil
}

// claim claims l, which has no epoch. It reports whether another node keeps the stream; after another error it is not known.
func (n *Node) claim(ctx context.Context, l *lease) (taken bool, err error) {
	begun := time.Now()
	n.mu.Lock()
	var seen uint64
	if r := n.owners[l.name]; r != nil {
		seen = r.seen
	}
	n.mu.Unlock()
	epoch, err := n.cfg.Directory.Claim(ctx, Claim{Stream: l.name, Node: n.cfg.Self, Seen: seen, Takeover: n.cfg.Takeover})
	n.answered(err)
	if other, taken := errors.AsType[*TakenError](err); taken {
		n.counters.refused.Add(1)
		n.learn(l.name, other.Owner, begun)
		return true, err
	}
	if err != nil {
		return false, err
	}
	n.counters.claims.Add(1)
	l.attempted.Store(clock(begun))
	l.epoch.Store(epoch)
	n.learn(l.name, Owner{Node: n.cfg.Self, Epoch: epoch}, begun)
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.ended.Load() { // meanwhile
		n.giveUp(l)
	}
	return false, nil
}

// Epoch implements [relay.Lease].
func (l *lease) Epoch() uint64 { return l.epoch.Load() }

// Current implements [relay.Lease]. An attempt that got no answer counts as well: while the directory cannot be reached no
// other node can become the owner.
func (l *lease) Current() bool {
	return l.Held() && l.epoch.Load() != 0 && clock(time.Now())-l.attempted.Load() <= int64(l.n.cfg.Lease)
}

// Held implements [relay.Lease].
func (l *lease) Held() bool { return !l.ended.Load() }

// Tell implements [relay.Lease].
func (l *lease) Tell() {
	l.changed.Store(true)
	l.n.tellSoon()
}

// Release implements [relay.Lease].
func (l *lease) Release() {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	l.n.leave(l)
}

// leave ends the ownership of l, if it is held. n.mu is held.
func (n *Node) leave(l *lease) {
	if n.remove(l) && l.epoch.Load() != 0 {
		n.giveUp(l)
	}
}

// remove takes l from those that are renewed, and reports whether it was held. n.mu is held.
func (n *Node) remove(l *lease) bool {
	held := !l.ended.Swap(true)
	if held {
		delete(n.leases, l.name)
	}
	return held
}

// giveUp has the directory told soon that l is not owned any more. n.mu is held.
func (n *Node) giveUp(l *lease) {
	n.leaving[l] = time.Now()
	n.tellSoon()
}

// tellSoon has the directory told before the next round of what was released, and what has changed.
func (n *Node) tellSoon() {
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// renew runs until n ends.
func (n *Node) renew() {
	ticker := time.NewTicker(n.cfg.Lease / attempts)
	defer ticker.Stop()
	for n.ctx.Err() == nil {
		begun := time.Now()
		n.nextRound()
		n.attempt(n.ctx, true)
		n.claimLate(begun.Add(n.cfg.Lease / attempts))
		for waiting := true; waiting; {
			select {
			case <-ticker.C:
				waiting = false
			case <-n.news:
				if n.Reachable() { // if not, the next round has to do
					n.attempt(n.ctx, false)
				}
			case <-n.ctx.Done():
				return
			}
		}
	}
}

// attempt gives up what has been released, and renews all other leases, or those that have changed.
func (n *Node) attempt(ctx context.Context, all bool) {
	begun := time.Now()
	var tried []*lease
	var owned []Ownership
	n.mu.Lock()
	draining := n.draining
	for l := range n.leaving {
		tried = append(tried, l)
		owned = append(owned, Ownership{Stream: l.name, Epoch: l.epoch.Load(), GiveUp: true})
	}
	for _, l := range n.leases {
		changed := l.changed.Swap(false)
		if epoch := l.epoch.Load(); (all || changed) && epoch != 0 {
			tried = append(tried, l)
			owned = append(owned, Ownership{Stream: l.name, Epoch: epoch})
		}
	}
	n.mu.Unlock()
	for i := range owned {
		if o := &owned[i]; !o.GiveUp {
			o.Silent, o.Away = n.hub.Silent(o.Stream)
			o.Away = o.Away || draining
		}
	}
	if !all && len(owned) == 0 {
		return
	}
	ctx, cancel := n.call(ctx)
	defer cancel()
	errs, err := n.cfg.Directory.Renew(ctx, n.cfg.Self, owned...)
	for _, each := range errs {
		if err == nil && !errors.Is(each, ErrLost) {
			err = each
		}
	}
	n.answered(err)
	for i, l := range tried {
		lost := errors.Is(errs[i], ErrLost)
		switch {
		case owned[i].GiveUp:
			n.mu.Lock()
			// A lease ends by itself.
			if errs[i] == nil || lost || time.Since(n.leaving[l]) > n.cfg.Lease {
				delete(n.leaving, l)
			}
			n.mu.Unlock()
		case lost:
			n.lose(l)
		default:
			if errs[i] != nil {
				n.counters.failures.Add(1)
			}
			l.attempted.Store(clock(begun))
		}
	}
}

// claimLate claims the leases that were given out while the directory could not be reached, until the deadline at most.
func (n *Node) claimLate(deadline time.Time) {
	n.mu.Lock()
	var late []*lease
	for _, l := range n.leases {
		select {
		case <-l.claimed:
			if l.epoch.Load() == 0 && !n.draining {
				late = append(late, l)
			}
		default: // it is being claimed
		}
	}
	n.mu.Unlock()
	ctx, cancel := context.WithDeadline(n.ctx, deadline)
	defer cancel()
	for _, l := range late {
		if taken, err := n.claim(ctx, l); taken {
			n.lose(l)
		} else if err != nil {
			return
		}
	}
}

// lose is called when another node has become the owner.
func (n *Node) lose(l *lease) {
	n.mu.Lock()
	held := n.remove(l)
	n.mu.Unlock()
	if held {
		n.counters.lost.Add(1)
		n.hub.Lost(l.name, l.epoch.Load())
	}
}
