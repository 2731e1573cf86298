package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// maxOwners bounds what is remembered of streams: 4 MB. Viewers may ask for any names.
	maxOwners = 16384
	// absentFor is how long it is remembered that a stream has no owner. An event tells earlier.
	absentFor = 250 * time.Millisecond
)

// An ownerRecord is what this node knows of the owner of a stream.
type ownerRecord struct {
	owner   Owner         // the last known; Node is empty if there is none
	former  Owner         // while there is none: the one before, if it may have the end of its HLS
	came    time.Time     // when an event said so; zero: it was there before
	seen    uint64        // the greatest epoch so far
	checked time.Time     // when the owner was asked for, or heard of; zero: it has to be asked for
	changed chan struct{} // closed when owner changes, and events that may have been missed are a change
}

// record returns that of a stream. n.mu is held.
func (n *Node) record(name string) *ownerRecord {
	r := n.owners[name]
	if r == nil {
		if len(n.owners) >= maxOwners {
			n.forgetOne()
		}
		r = &ownerRecord{changed: make(chan struct{})}
		n.owners[name] = r
	}
	return r
}

// forgetOne makes room for another record. Of a few it takes one of a stream without an owner, so that viewers who ask for
// any names do not have the others forgotten, which are needed when the directory is away. n.mu is held.
func (n *Node) forgetOne() {
	var victim string
	tries := 0
	for name, r := range n.owners { // in no order
		victim = name
		if tries++; r.owner.Node == "" || tries == 16 {
			break
		}
	}
	close(n.owners[victim].changed)
	delete(n.owners, victim)
}

// change wakes those that wait for r to change. n.mu is held.
func (r *ownerRecord) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// learn takes note of a stream's owner: what the directory answered to a question asked at that time, which is zero for an
// event. The owner is Owner{} if the answer was that there is none.
func (n *Node) learn(name string, o Owner, asked time.Time) {
	n.mu.Lock()
	r := n.record(name)
	if o.Epoch < r.seen && r.checked.After(asked) { // it is of before
		n.mu.Unlock()
		return
	}
	r.seen, r.checked = max(r.seen, o.Epoch), time.Now()
	if r.owner != o {
		r.former = r.owner
		r.owner, r.came = o, time.Time{}
		if asked.IsZero() {
			r.came = r.checked
		}
		r.change()
	}
	l := n.leases[name]
	n.mu.Unlock()
	if l == nil || o.Node == n.cfg.Self {
		return
	}
	if epoch := l.epoch.Load(); epoch != 0 && epoch < o.Epoch {
		n.lose(l)
	}
}

// gaveUp takes note that a node owns a stream no more.
func (n *Node) gaveUp(name, node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.owners[name]; r != nil && r.owner.Node == node {
		r.former, r.owner, r.checked = r.owner, Owner{}, time.Now()
		r.change()
	}
}

// missed is called when events may have been missed. The owners of streams must be looked up.
func (n *Node) missed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.owners {
		r.checked = time.Time{}
		r.change()
	}
}

// known returns the owner of a stream if the directory need not be asked. An Owner without Node says that there is none.
func (n *Node) known(name string) (o Owner, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.leases[name]; l != nil {
		select {
		case <-l.claimed:
			return Owner{Node: n.cfg.Self, Epoch: l.epoch.Load()}, true
		default:
		}
	}
	r := n.owners[name]
	switch {
	case r == nil:
		return Owner{}, false
	case r.owner.Node == "" || r.owner.Node == n.cfg.Self: // which has released it, or ran before
		return Owner{}, time.Since(r.checked) < absentFor
	}
	return r.owner, time.Since(r.checked) < n.cfg.Lease || !n.Reachable()
}

// Owner returns the owner of a stream, or ErrNoOwner. What it knows for less than a lease it does not look up again. While the
// directory cannot be reached it returns the last owner that it knows of; another error says that it knows of none.
func (n *Node) Owner(ctx context.Context, name string) (Owner, error) {
	o, ok := n.known(name)
	if !ok {
		answer := n.lookups.DoChan(name, func() (any, error) { return n.lookup(name) })
		select {
		case <-ctx.Done():
			return Owner{}, ctx.Err()
		case a := <-answer:
			if a.Err != nil {
				return Owner{}, a.Err
			}
			o = a.Val.(Owner)
		}
	}
	if o.Node == "" {
		return Owner{}, ErrNoOwner
	}
	return o, nil
}

// lookup asks the directory.
func (n *Node) lookup(name string) (Owner, error) {
	n.counters.lookups.Add(1)
	err := n.ask(func(ctx context.Context) error {
		asked := time.Now()
		o, err := n.cfg.Directory.Lookup(ctx, name)
		if !n.answered(err) {
			return err
		}
		n.learn(name, o, asked)
		return nil
	})
	if last, _ := n.known(name); err == nil || last.Node != "" {
		return last, nil
	}
	return Owner{}, fmt.Errorf("it cannot be found out which node has this stream: %w", err)
}

// awaitOwner returns the owner of a stream as Owner does, which may be this node, as soon as there is one. When ctx ends
// the error is what Owner returned last.
func (n *Node) awaitOwner(ctx context.Context, name string) (Owner, error) {
	var last error
	for {
		changed := n.changed(name)
		o, err := n.Owner(ctx, name)
		if err == nil {
			return o, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		// An event may have been missed.
		pause, cancel := context.WithTimeout(ctx, n.cfg.Lease/attempts/2+rand.N(n.cfg.Lease/attempts))
		select {
		case <-changed:
		case <-pause.Done():
		}
		cancel()
		if ctx.Err() != nil {
			return Owner{}, last
		}
	}
}

// changed returns a channel that is closed when the owner of the stream changes.
func (n *Node) changed(name string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.record(name).changed
}

// formerOwner returns the node that had a stream before it had no owner, if it may still have the
// end of its HLS.
func (n *Node) formerOwner(name string) (o Owner, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.owners[name]
	if r == nil || r.owner.Node != "" || r.former.Node == "" || r.former.Node == n.cfg.Self {
		return Owner{}, false
	}
	return r.former, true
}

// forget says that what Owner returned turned out to be wrong. The owner will be looked up.
func (n *Node) forget(name string, epoch uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.owners[name]; r != nil && r.owner.Epoch == epoch {
		r.checked = time.Time{}
	}
}

// forgetFormer says that the node that formerOwner returned has nothing left of the stream, or does
// not answer.
func (n *Node) forgetFormer(name string, epoch uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.owners[name]; r != nil && r.former.Epoch == epoch {
		r.former = Owner{}
	}
}
