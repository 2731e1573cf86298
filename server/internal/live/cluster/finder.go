package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// absentFor is how long a node remembers that a stream has no owner.
const absentFor = 250 * time.Millisecond

// An ownerFinder finds the node that owns a stream. It looks among this node's leases, then in the
// table of other owners, and then in the cluster's directory. Concurrent callers that look for the
// same owner share one call to the directory. The methods may be called from any goroutine.
type ownerFinder struct {
	leases  *leaseTable
	owners  *ownerTable
	client  *directoryClient
	lookups singleflight.Group
	asked   atomic.Int64 // number of lookups in the directory
}

// cachedOwner returns the owner of a stream if the owner is known without a lookup in the cluster's
// directory. If the stream is known to have no owner, cachedOwner returns an Owner with an empty
// Node.
func (f *ownerFinder) cachedOwner(name string) (o Owner, ok bool) {
	if o, ok := f.leases.heldOwner(name); ok {
		return o, true
	}
	o, checked, ok := f.owners.lastOwner(name)
	switch {
	case !ok:
		return Owner{}, false
	case o.Node == "":
		return Owner{}, time.Since(checked) < absentFor
	}
	return o, time.Since(checked) < f.client.leaseTime || !f.client.Reachable()
}

// Owner returns the node that owns a stream, or ErrNoOwner. It remembers an owner for the duration
// of a lease before it asks the cluster's directory again. While the directory cannot be reached,
// Owner returns the last known owner. Any other error means that the owner is not known.
func (f *ownerFinder) Owner(ctx context.Context, name string) (Owner, error) {
	o, ok := f.cachedOwner(name)
	if !ok {
		answer := f.lookups.DoChan(name, func() (any, error) { return f.lookup(name) })
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

func (f *ownerFinder) lookup(name string) (Owner, error) {
	f.asked.Add(1)
	err := f.client.ask(func(ctx context.Context) error {
		callStart := time.Now()
		o, err := f.client.directory.Lookup(ctx, name)
		if !f.client.noteAnswer(err) {
			return err
		}
		f.leases.setOwner(name, o, callStart)
		return nil
	})
	if last, _ := f.cachedOwner(name); err == nil || last.Node != "" {
		return last, nil
	}
	return Owner{}, fmt.Errorf("it cannot be found out which node has this stream: %w", err)
}

// awaitOwner waits until a stream has an owner, and returns the owner. The owner may be this node.
// If ctx ends first, the error is the last error that the method Owner returned.
func (f *ownerFinder) awaitOwner(ctx context.Context, name string) (Owner, error) {
	var last error
	for {
		changed := f.owners.changed(name)
		o, err := f.Owner(ctx, name)
		if err == nil {
			return o, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		// The wait is limited, because the event that would end it may have been missed.
		pause, cancel := context.WithTimeout(ctx,
			f.client.leaseTime/attempts/2+rand.N(f.client.leaseTime/attempts))
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

func (f *ownerFinder) formerOwner(name string) (o Owner, ok bool) {
	return f.owners.formerOwner(name)
}

func (f *ownerFinder) forget(name string, epoch uint64) { f.owners.forget(name, epoch) }

func (f *ownerFinder) forgetFormer(name string, epoch uint64) { f.owners.forgetFormer(name, epoch) }
