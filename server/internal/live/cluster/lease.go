package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A lease is this node's ownership of a stream. It implements [live.Lease].
type lease struct {
	t       *leaseTable
	name    string
	id      string        // see Claim.ID
	claimed chan struct{} // closed when the first attempt to claim the lease has ended

	epoch     atomic.Uint64 // 0 until the directory has granted the claim; then it does not change
	ended     atomic.Bool   // lost to another node, or released; t.mu is held to set it
	changed   atomic.Bool   // the publisher has left or returned, and the directory must be told
	attempted atomic.Int64  // when the claim or the last completed renewal began; see clock
}

var startTime = time.Now()

// clock returns the number of nanoseconds from startTime to the time t, by the monotonic clock.
func clock(t time.Time) int64 { return int64(t.Sub(startTime)) }

var errTaken = refuse.New(http.StatusConflict, "this name has a publisher already, at another node")

// A Hub is the part of [live.Peers] that a Node uses. A Node holds no lock when it calls a method,
// so the methods may call the Node.
type Hub interface {
	Lost(name string, epoch uint64)
	Silent(name string) (silent time.Duration, away bool)
	Wanted(name string) bool
	Pull(ctx context.Context, name string, from live.Owner) error
}

var _ Hub = live.Peers{}

// A leaseTable keeps this node's leases. Its methods may be called from any goroutine.
type leaseTable struct {
	client   *directoryClient
	owners   *ownerTable
	peers    *peerTable
	hub      Hub // set before renew starts
	self     string
	takeover live.Takeover
	news     chan struct{} // holds an element if a lease was released or has changed

	claims, refused, lost, failures atomic.Int64

	// mu is never held for long. If both mutexes are needed, mu is locked before ownerTable.mu.
	mu       lock.Mutex
	draining bool
	leases   map[string]*lease // leases that are held or being claimed
	// Released leases, each with the time of its release. A lease stays here until the cluster's
	// directory has recorded the release, or until the lease has expired.
	leaving map[*lease]time.Time
}

// claim makes this node the owner of a stream; see [live.Cluster.Claim].
func (t *leaseTable) claim(ctx context.Context, name string) (live.Lease, error) {
	for {
		t.mu.Lock()
		if t.draining {
			t.mu.Unlock()
			return nil, refuse.ErrShutdown
		}
		l := t.leases[name]
		if delay, changed := t.takeoverDelay(name); l == nil && delay > 0 {
			t.mu.Unlock()
			select {
			case <-time.After(delay):
			case <-changed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			continue
		}
		if l == nil {
			l = &lease{t: t, name: name, id: rand.Text(), claimed: make(chan struct{})}
			t.leases[name] = l
			t.mu.Unlock()
			return t.claimFirst(l)
		}
		t.mu.Unlock()
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

// takeoverDelay returns how long this node must wait before it claims a stream that another node
// has just claimed. If there is no need to wait, delay is 0 or less. changed is closed when the
// stream's owner changes.
//
// Only TakeoverAlways needs the delay. With TakeoverStalled and TakeoverNever, the cluster's
// directory refuses a claim that must not replace the owner.
func (t *leaseTable) takeoverDelay(name string) (delay time.Duration, changed <-chan struct{}) {
	if t.takeover != live.TakeoverAlways {
		return 0, nil
	}
	return t.owners.takeoverDelay(name)
}

// claimFirst claims l for a publisher that waits for the result. If the cluster's directory does
// not answer, claimFirst returns l without an epoch. If another node owns the stream and keeps it,
// the error is errTaken.
func (t *leaseTable) claimFirst(l *lease) (live.Lease, error) {
	var taken bool
	_ = t.client.ask(func(ctx context.Context) (err error) {
		taken, err = t.request(ctx, l, t.takeover)
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if taken {
		t.remove(l)
	}
	close(l.claimed) // waiters use l if it is still held
	if taken {
		return nil, errTaken
	}
	t.owners.wake(l.name) // needed if l has no epoch, because request has not called setOwner
	return l, nil
}

// request claims the stream of l in the cluster's directory, and stores the granted epoch in l. The
// epoch of l must be 0. takeover says whether the claim replaces another node. If another node owns
// the stream and keeps it, or has replaced this node before the answer arrived, taken is true. If
// taken is false, an error means that the directory cannot be reached.
func (t *leaseTable) request(ctx context.Context, l *lease, takeover live.Takeover) (taken bool,
	err error) {
	begun := time.Now()
	epoch, err := t.client.directory.Claim(ctx, Claim{
		Stream: l.name, Node: t.self, ID: l.id, Seen: t.owners.seen(l.name), Takeover: takeover})
	t.client.noteAnswer(err)
	if other, taken := errors.AsType[*TakenError](err); taken {
		t.refused.Add(1)
		t.setOwner(l.name, other.Owner, begun)
		return true, err
	}
	if err != nil {
		return false, err
	}
	t.claims.Add(1)
	l.attempted.Store(clock(begun))
	l.epoch.Store(epoch)
	if !t.setOwner(l.name, Owner{Node: t.self, Epoch: epoch}, begun) {
		// An event of a later claim has come before the answer. It has not ended l, because l had no
		// epoch.
		if other, _, _ := t.owners.lastOwner(l.name); other.Epoch > epoch {
			return true, nil
		}
		t.revoke(l)
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.ended.Load() { // l was released during the claim
		t.giveUp(l)
	}
	return false, nil
}

// setOwner records that o is the owner of a stream. If o is another node, and o.Epoch is greater
// than the epoch of this node's lease, this node loses its lease.
//
// If a call to the cluster's directory returned o, callStart is the time at which the call began.
// If an Event announced o, callStart is zero. If this node already knows a more recent owner,
// setOwner does nothing and returns false.
func (t *leaseTable) setOwner(name string, o Owner, callStart time.Time) bool {
	if !t.owners.setOwner(name, o, callStart) {
		return false
	}
	t.mu.Lock()
	l := t.leases[name]
	t.mu.Unlock()
	if l == nil || o.Node == t.self {
		return true
	}
	if epoch := l.epoch.Load(); epoch != 0 && epoch < o.Epoch {
		t.revoke(l)
	}
	return true
}

// noteEpoch gives up this node's lease of a stream if its epoch is lower than the given one; see
// [Node.NoteEpoch].
func (t *leaseTable) noteEpoch(name string, epoch uint64) {
	t.mu.Lock()
	l := t.leases[name]
	var mine uint64
	if l != nil {
		mine = l.epoch.Load()
	}
	lost := mine != 0 && mine < epoch
	if lost {
		t.owners.noteEpoch(name, epoch)
		t.leave(l)
	}
	t.mu.Unlock()
	if lost {
		t.lost.Add(1)
		t.hub.Lost(name, mine)
	}
}

// heldOwner reports whether this node has a lease of a stream. If so, heldOwner also returns this
// node as the owner. The Epoch of this Owner is 0 if the cluster's directory has not granted the
// lease yet.
func (t *leaseTable) heldOwner(name string) (o Owner, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.leases[name]; l != nil {
		select {
		case <-l.claimed:
			return Owner{Node: t.self, Epoch: l.epoch.Load()}, true
		default:
		}
	}
	return Owner{}, false
}

// Epoch returns the epoch of the lease, or 0 if the cluster's directory has not granted the lease
// yet; see [live.Lease].
func (l *lease) Epoch() uint64 { return l.epoch.Load() }

// Current reports whether this node was known to be the owner of the stream a moment ago; see
// [live.Lease]. The lease must be held and have an epoch. Its claim or its last completed renewal
// must have begun within the last leaseTime.
//
// A renewal counts even if the cluster's directory did not answer, because no other node can become
// the owner without the directory.
func (l *lease) Current() bool {
	return l.Held() && l.epoch.Load() != 0 &&
		clock(time.Now())-l.attempted.Load() <= int64(l.t.client.leaseTime)
}

// Held reports whether this node has neither lost nor released the stream.
func (l *lease) Held() bool { return !l.ended.Load() }

// Tell announces to the cluster that the publisher has left or returned.
func (l *lease) Tell() {
	l.changed.Store(true)
	l.t.wakeRenewer()
}

// Release gives up the ownership of the stream, unless it was lost or released before.
func (l *lease) Release() {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.leave(l)
}

// leave releases l, unless l was lost or released before. The caller must hold t.mu.
func (t *leaseTable) leave(l *lease) {
	if t.remove(l) && l.epoch.Load() != 0 {
		t.giveUp(l)
	}
}

// remove ends l, so that l is not renewed any more. It returns false if l was lost or released
// before. The caller must hold t.mu.
func (t *leaseTable) remove(l *lease) bool {
	held := !l.ended.Swap(true)
	if held {
		delete(t.leases, l.name)
	}
	return held
}

// giveUp hands l to the goroutine of renew, which reports the release to the cluster's directory.
// The caller must hold t.mu.
func (t *leaseTable) giveUp(l *lease) {
	t.leaving[l] = time.Now()
	t.wakeRenewer()
}

// wakeRenewer wakes the goroutine of renew. The goroutine then reports released and changed leases
// to the cluster's directory at once, without waiting for the next regular renewal.
func (t *leaseTable) wakeRenewer() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// renew renews all leases in regular rounds until the node ends. A lease lasts for three rounds
// (see attempts). Between two rounds, renew reports released and changed leases to the cluster's
// directory.
func (t *leaseTable) renew() {
	ticker := time.NewTicker(t.client.leaseTime / attempts)
	defer ticker.Stop()
	for t.client.ctx.Err() == nil {
		begun := time.Now()
		if t.client.Reachable() {
			t.peers.nextRound()
		}
		t.renewOnce(t.client.ctx, true)
		t.claimLate(begun.Add(t.client.leaseTime / attempts))
		for waiting := true; waiting; {
			select {
			case <-ticker.C:
				waiting = false
			case <-t.news:
				if t.client.Reachable() { // otherwise the next round reports them
					t.renewOnce(t.client.ctx, false)
				}
			case <-t.client.ctx.Done():
				return
			}
		}
	}
}

// renewOnce reports released leases to the cluster's directory, and renews leases. If renewAll is
// false, renewOnce renews only the leases for which lease.Tell was called since the last renewal.
func (t *leaseTable) renewOnce(ctx context.Context, renewAll bool) {
	begun := time.Now()
	var tried []*lease
	var owned []Ownership
	t.mu.Lock()
	draining := t.draining
	for l := range t.leaving {
		tried = append(tried, l)
		owned = append(owned, Ownership{Stream: l.name, Epoch: l.epoch.Load(), GiveUp: true})
	}
	for _, l := range t.leases {
		changed := l.changed.Swap(false)
		if epoch := l.epoch.Load(); (renewAll || changed) && epoch != 0 {
			tried = append(tried, l)
			owned = append(owned, Ownership{Stream: l.name, Epoch: epoch})
		}
	}
	t.mu.Unlock()
	for i := range owned {
		if o := &owned[i]; !o.GiveUp {
			o.Silent, o.Away = t.hub.Silent(o.Stream)
			o.Away = o.Away || draining
		}
	}
	if !renewAll && len(owned) == 0 {
		return
	}
	ctx, cancel := t.client.call(ctx)
	defer cancel()
	errs, err := t.client.directory.Renew(ctx, t.self, owned...)
	for _, each := range errs {
		if err == nil && !errors.Is(each, ErrLost) {
			err = each
		}
	}
	t.client.noteAnswer(err)
	for i, l := range tried {
		lost := errors.Is(errs[i], ErrLost)
		switch {
		case owned[i].GiveUp:
			t.mu.Lock()
			// If the cluster's directory cannot be reached, the release is tried again for
			// leaseTime. After this time, the lease has expired in the directory.
			if errs[i] == nil || lost || time.Since(t.leaving[l]) > t.client.leaseTime {
				delete(t.leaving, l)
			}
			t.mu.Unlock()
		case lost:
			t.revoke(l)
		default:
			if errs[i] != nil {
				t.failures.Add(1)
			}
			l.attempted.Store(clock(begun))
		}
	}
}

// claimLate claims the leases that could not be claimed when their publishers connected, because
// the cluster's directory could not be reached. It stops at the deadline, or if the directory fails
// again.
//
// In the meantime, a publisher may have moved from this node to another one. If this node's
// publisher has left or is silent, the claim therefore does not replace another node. See also
// mayClaimIdle.
func (t *leaseTable) claimLate(deadline time.Time) {
	t.mu.Lock()
	var late []*lease
	for _, l := range t.leases {
		select {
		case <-l.claimed:
			if l.epoch.Load() == 0 && !t.draining {
				late = append(late, l)
			}
		default: // the lease is being claimed
		}
	}
	t.mu.Unlock()
	ctx, cancel := context.WithDeadline(t.client.ctx, deadline)
	defer cancel()
	for _, l := range late {
		takeover := t.takeover
		if silent, away := t.hub.Silent(l.name); away || silent >= live.StalledAfter {
			takeover = live.TakeoverNever
			if ok, err := t.mayClaimIdle(ctx, l, away); err != nil {
				return
			} else if !ok {
				continue
			}
		}
		if taken, err := t.request(ctx, l, takeover); taken {
			t.revoke(l)
		} else if err != nil {
			return
		}
	}
}

// mayClaimIdle reports whether this node may claim the stream of l, whose publisher is silent or, if
// away is set, has left. An error means that the cluster's directory cannot be reached.
//
// Another node may have the publisher now:
//   - The directory may say that the owner has no publisher, although the publisher has returned to
//     it. A claim would then replace the owner. If this node's publisher has left, mayClaimIdle
//     therefore revokes l instead.
//   - The lease of the other node may have expired while the directory did not answer. As long as
//     the directory records no owner, this node therefore waits for the duration of a lease, in
//     which the other node renews its lease.
func (t *leaseTable) mayClaimIdle(ctx context.Context, l *lease, away bool) (bool, error) {
	begun := time.Now()
	o, err := t.client.directory.Lookup(ctx, l.name)
	switch {
	case !t.client.noteAnswer(err):
		return false, err
	case err != nil:
		return t.client.answeredFor() >= t.client.leaseTime, nil
	case away && o.Node != t.self:
		t.setOwner(l.name, o, begun)
		t.revoke(l)
		return false, nil
	}
	return true, nil
}

// revoke ends l and calls Hub.Lost. It is called when another node has become the owner of the
// stream.
func (t *leaseTable) revoke(l *lease) {
	t.mu.Lock()
	held := t.remove(l)
	t.mu.Unlock()
	if held {
		t.lost.Add(1)
		t.hub.Lost(l.name, l.epoch.Load())
	}
}

func (t *leaseTable) drain() {
	t.mu.Lock()
	t.draining = true
	t.mu.Unlock()
}

func (t *leaseTable) releaseAll() {
	t.mu.Lock()
	for _, l := range t.leases {
		t.leave(l)
	}
	t.mu.Unlock()
	t.renewOnce(context.Background(), false)
}

func (t *leaseTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.leases)
}
