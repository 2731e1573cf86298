package cluster

import (
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// maxOwners limits the number of streams in an ownerTable. With this limit, the table needs at most
// about 4 MB. The limit is needed because viewers may request any name.
const maxOwners = 16384

// An ownerRecord is what this node knows about the owner of a stream.
type ownerRecord struct {
	owner Owner // the last known owner; Node is "" if there is no owner
	// The previous owner. If the stream has no owner now, former may still have the last HLS
	// segments of the stream.
	former  Owner
	came    time.Time // when an event announced owner; zero if no event announced it
	seen    uint64    // the greatest epoch so far
	checked time.Time // when owner was last looked up or announced; zero: look it up again
	// Closed and replaced when owner changes, or when events may have been missed.
	changed chan struct{}
}

// An ownerTable remembers the owners of streams. Its methods may be called from any goroutine.
type ownerTable struct {
	self string

	mu      lock.Mutex
	records map[string]*ownerRecord // at most maxOwners
}

// record returns the record of a stream, and adds the record if necessary. The caller must hold
// t.mu.
func (t *ownerTable) record(name string) *ownerRecord {
	r := t.records[name]
	if r == nil {
		if len(t.records) >= maxOwners {
			t.forgetOne()
		}
		r = &ownerRecord{changed: make(chan struct{})}
		t.records[name] = r
	}
	return r
}

// forgetOne removes one record from the table to make room for a new record. It looks at only some
// of the records, and prefers the record of a stream without an owner. Viewers may request
// arbitrary names. The records of such names must not displace the records of streams with an
// owner, which are needed while the cluster's directory cannot be reached. The caller must hold
// t.mu.
func (t *ownerTable) forgetOne() {
	var victim string
	tries := 0
	for name, r := range t.records { // the order is random
		victim = name
		if tries++; r.owner.Node == "" || tries == 16 {
			break
		}
	}
	close(t.records[victim].changed)
	delete(t.records, victim)
}

// change wakes the goroutines that wait for a change of r. The caller must hold ownerTable.mu.
func (r *ownerRecord) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// setOwner records that o is the owner of a stream. If there is no owner, o is Owner{}.
//
// If a call to the cluster's directory returned o, callStart is the time at which the call began.
// If an Event announced o, callStart is zero. If the table already has a more recent owner,
// setOwner changes nothing and returns false.
func (t *ownerTable) setOwner(name string, o Owner, callStart time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.record(name)
	if o.Epoch < r.seen && r.checked.After(callStart) { // o is older than the record
		return false
	}
	r.seen, r.checked = max(r.seen, o.Epoch), time.Now()
	if r.owner != o {
		r.former = r.owner
		r.owner, r.came = o, time.Time{}
		if callStart.IsZero() {
			r.came = r.checked
		}
		r.change()
	}
	return true
}

// lastOwner returns the last known owner of a stream, and the time at which this node last learned
// the owner. If the stream has no owner, or if this node is the owner, the result is Owner{}. ok is
// false if nothing is known.
func (t *ownerTable) lastOwner(name string) (o Owner, checked time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[name]
	switch {
	case r == nil:
		return Owner{}, time.Time{}, false
	case r.owner.Node == "" || r.owner.Node == t.self: // no owner, or an old record of this node
		return Owner{}, r.checked, true
	}
	return r.owner, r.checked, true
}

// takeoverDelay returns how long this node must wait before it claims a stream that another node
// has just claimed. If there is no need to wait, delay is 0 or less. changed is closed when the
// stream's owner changes.
func (t *ownerTable) takeoverDelay(name string) (delay time.Duration, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[name]
	if r == nil || r.owner.Node == "" || r.owner.Node == t.self {
		return 0, nil
	}
	return live.LeastStay - time.Since(r.came), r.changed
}

func (t *ownerTable) seen(name string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil {
		return r.seen
	}
	return 0
}

// noteEpoch records that a stream had an owner with the given epoch. The next claim of this node
// then gets a greater epoch.
func (t *ownerTable) noteEpoch(name string, epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.record(name)
	r.seen = max(r.seen, epoch)
}

func (t *ownerTable) wake(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record(name).change()
}

func (t *ownerTable) ownerReleased(name, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil && r.owner.Node == node {
		r.former, r.owner, r.checked = r.owner, Owner{}, time.Now()
		r.change()
	}
}

// noteMissed makes this node look up the owner of each stream again. It is called when this node
// may have missed events.
func (t *ownerTable) noteMissed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		r.checked = time.Time{}
		r.change()
	}
}

// changed returns a channel that is closed when the owner of the stream changes, or when events may
// have been missed.
func (t *ownerTable) changed(name string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record(name).changed
}

// formerOwner returns the last owner of a stream that has no owner now. That node may still have
// the last HLS segments of the stream. If no such node is known, ok is false.
func (t *ownerTable) formerOwner(name string) (o Owner, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[name]
	if r == nil || r.owner.Node != "" || r.former.Node == "" || r.former.Node == t.self {
		return Owner{}, false
	}
	return r.former, true
}

// forget makes this node look up the owner of a stream again, if the last known owner still has the
// given epoch. It is called after a request to that owner has failed.
func (t *ownerTable) forget(name string, epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil && r.owner.Epoch == epoch {
		r.checked = time.Time{}
	}
}

// forgetFormer removes the former owner of a stream from the table, if the former owner still has
// the given epoch. It is called after a request to the former owner has failed.
func (t *ownerTable) forgetFormer(name string, epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil && r.former.Epoch == epoch {
		r.former = Owner{}
	}
}

func (t *ownerTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.records)
}
