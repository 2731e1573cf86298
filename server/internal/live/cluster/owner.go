package cluster

import (
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// maxOwners limits the remembered streams, to 4 MB: viewers may request any name.
const maxOwners = 16384

// An ownerRecord is this node's knowledge of the owner of a stream.
type ownerRecord struct {
	owner Owner // the last known owner; Node is empty if there is none
	// The previous owner while there is none; it may still have the end of the stream's HLS.
	former  Owner
	came    time.Time // when an event said so; zero: it was there before
	seen    uint64    // the greatest epoch so far
	checked time.Time // when the owner was asked for, or heard of; zero: it has to be asked for
	// Closed when owner changes, and events that may have been missed are a change.
	changed chan struct{}
}

// An ownerTable remembers the owners of streams. Its methods may be called from any goroutine.
type ownerTable struct {
	self string // the address of this node

	mu      lock.Mutex
	records map[string]*ownerRecord // at most maxOwners
}

// record returns that of a stream. t.mu is held.
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

// forgetOne makes room for another record. Of a few it takes one of a stream without an owner, so
// that viewers who ask for any names do not have the others forgotten, which are needed when the
// directory is away. t.mu is held.
func (t *ownerTable) forgetOne() {
	var victim string
	tries := 0
	for name, r := range t.records { // in no order
		victim = name
		if tries++; r.owner.Node == "" || tries == 16 {
			break
		}
	}
	close(t.records[victim].changed)
	delete(t.records, victim)
}

// change wakes the goroutines that wait for a change of r. t.mu is held.
func (r *ownerRecord) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// setOwner records the owner of a stream: the directory's answer to a question asked at that time,
// or an event if asked is zero. An Owner{} means that there is none. It reports false if the table
// has more recent news.
func (t *ownerTable) setOwner(name string, o Owner, asked time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.record(name)
	if o.Epoch < r.seen && r.checked.After(asked) { // it is of before
		return false
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
	return true
}

// last returns the last known owner of a stream, or Owner{} if that is this node or there is none,
// and when that was learned. ok is false if nothing is known.
func (t *ownerTable) last(name string) (o Owner, checked time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[name]
	switch {
	case r == nil:
		return Owner{}, time.Time{}, false
	case r.owner.Node == "" || r.owner.Node == t.self: // which has released it, or ran before
		return Owner{}, r.checked, true
	}
	return r.owner, r.checked, true
}

// takeoverDelay returns how long to leave a stream to the node that just claimed it, and a channel
// closed on change.
func (t *ownerTable) takeoverDelay(name string) (left time.Duration, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[name]
	if r == nil || r.owner.Node == "" || r.owner.Node == t.self {
		return 0, nil
	}
	return live.LeastStay - time.Since(r.came), r.changed
}

// seen returns the greatest known epoch of a stream.
func (t *ownerTable) seen(name string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil {
		return r.seen
	}
	return 0
}

// wake wakes the goroutines that wait for a stream's owner to change.
func (t *ownerTable) wake(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record(name).change()
}

// ownerReleased takes note that a node owns a stream no more.
func (t *ownerTable) ownerReleased(name, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil && r.owner.Node == node {
		r.former, r.owner, r.checked = r.owner, Owner{}, time.Now()
		r.change()
	}
}

// missed is called when events may have been missed. The owners of streams must be looked up.
func (t *ownerTable) missed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		r.checked = time.Time{}
		r.change()
	}
}

// changed returns a channel that is closed when the owner of the stream changes.
func (t *ownerTable) changed(name string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record(name).changed
}

// formerOwner returns the node that had a stream before it had no owner, if it may still have the
// end of its HLS.
func (t *ownerTable) formerOwner(name string) (o Owner, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[name]
	if r == nil || r.owner.Node != "" || r.former.Node == "" || r.former.Node == t.self {
		return Owner{}, false
	}
	return r.former, true
}

// forget drops the result of Owner after it proved wrong. The owner will be looked up again.
func (t *ownerTable) forget(name string, epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil && r.owner.Epoch == epoch {
		r.checked = time.Time{}
	}
}

// forgetFormer says that the node that formerOwner returned has nothing left of the stream, or does
// not answer.
func (t *ownerTable) forgetFormer(name string, epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[name]; r != nil && r.former.Epoch == epoch {
		r.former = Owner{}
	}
}

// size returns how many streams are remembered.
func (t *ownerTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.records)
}
