package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// absentFor is how long it is remembered that a stream has no owner. An event tells earlier.
const absentFor = 250 * time.Millisecond

// An ownerFinder finds the owner of a stream: among this node's leases, in the table of other
// owners, or in the directory, which it asks once for all callers. Its methods may be called from
// any goroutine.
type ownerFinder struct {
	leases  *leaseTable
	owners  *ownerTable
	client  *directoryClient
	lookups singleflight.Group
	asked   atomic.Int64 // questions to the directory
}

// cached returns the owner of a stream if it is known without the directory. An Owner without Node
// means that there is none.
func (f *ownerFinder) cached(name string) (o Owner, ok bool) {
	if o, ok := f.leases.held(name); ok {
		return o, true
	}
	o, checked, ok := f.owners.last(name)
	switch {
	case !ok:
		return Owner{}, false
	case o.Node == "":
		return Owner{}, time.Since(checked) < absentFor
	}
	return o, time.Since(checked) < f.client.leaseTime || !f.client.Reachable()
}

// Owner returns the owner of a stream, or ErrNoOwner. Answers younger than a lease come from
// memory. While the directory cannot be reached, it returns the last known owner; any other error
// means that no owner is known.
func (f *ownerFinder) Owner(ctx context.Context, name string) (Owner, error) {
	o, ok := f.cached(name)
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

// lookup asks the directory.
func (f *ownerFinder) lookup(name string) (Owner, error) {
	f.asked.Add(1)
	err := f.client.ask(func(ctx context.Context) error {
		asked := time.Now()
		o, err := f.client.directory.Lookup(ctx, name)
		if !f.client.answered(err) {
			return err
		}
		f.leases.setOwner(name, o, asked)
		return nil
	})
	if last, _ := f.cached(name); err == nil || last.Node != "" {
		return last, nil
	}
	return Owner{}, fmt.Errorf("it cannot be found out which node has this stream: %w", err)
}

// awaitOwner waits until a stream has an owner, and returns it as Owner does; it may be this node.
// When ctx ends, the error is the last one of Owner.
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
		// An event may have been missed.
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

// formerOwner returns the node that had a stream before it had no owner, if it may still have the
// end of its HLS.
func (f *ownerFinder) formerOwner(name string) (o Owner,
	ok bool) {
	return f.owners.formerOwner(name)
}

// forget drops the result of Owner after it proved wrong. The owner will be looked up again.
func (f *ownerFinder) forget(name string, epoch uint64) { f.owners.forget(name, epoch) }

// forgetFormer says that the node that formerOwner returned has nothing left of the stream, or does
// not answer.
func (f *ownerFinder) forgetFormer(name string, epoch uint64) { f.owners.forgetFormer(name, epoch) }
