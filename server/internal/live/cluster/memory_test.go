package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// A memory is a Directory in this process, and the model of the Redis scripts. Changes reach the
// watchers before a call returns.
type memory struct {
	lease time.Duration
	clock func() uint64 // the smallest epoch of a claim; nil: the time in microseconds

	mu       sync.Mutex
	streams  map[string]*entry
	watchers map[int]func(Event)
	watched  int
}

// An entry is a stream that has had an owner at some time.
type entry struct {
	owner Owner // Node is empty if the stream was released
	until time.Time
	heard time.Time
	away  bool
	id    string // of the claim
}

func newMemory(lease time.Duration) *memory {
	return &memory{lease: lease, streams: make(map[string]*entry),
		watchers: make(map[int]func(Event))}
}

// stored returns the entry of a stream. The caller puts a new entry to keep it.
func (m *memory) stored(stream string) *entry {
	if e := m.streams[stream]; e != nil {
		return e
	}
	return new(entry)
}

func (m *memory) publish(e Event) {
	for _, key := range slices.Sorted(maps.Keys(m.watchers)) {
		m.watchers[key](e)
	}
}

func (m *memory) Claim(_ context.Context, c Claim) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, e := time.Now(), m.stored(c.Stream)
	if c.ID != "" && e.id == c.ID {
		return e.owner.Epoch, nil
	}
	owned := e.owner.Node != "" && e.until.After(now)
	if owned && e.owner.Node != c.Node && !e.away &&
		(c.Takeover == never || c.Takeover == stalled && now.Sub(e.heard) < live.StalledAfter) {
		return 0, &TakenError{e.owner}
	}
	least := uint64(now.UnixMicro())
	if m.clock != nil {
		least = m.clock()
	}
	o := Owner{c.Node, max(least, e.owner.Epoch+1, c.Seen+1)}
	m.streams[c.Stream] = &entry{owner: o, until: now.Add(m.lease), heard: now, id: c.ID}
	m.publish(Event{c.Stream, o})
	return o.Epoch, nil
}

func (m *memory) Renew(_ context.Context, node string, owned ...Ownership) ([]error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publish(Event{Owner: Owner{Node: node}})
	errs := make([]error, len(owned))
	for i, o := range owned {
		errs[i] = m.renew(node, o)
	}
	return errs, nil
}

func (m *memory) renew(node string, o Ownership) error {
	now, e := time.Now(), m.stored(o.Stream)
	mine := Owner{node, o.Epoch}
	switch {
	case e.owner.Epoch > o.Epoch, e.owner.Epoch == o.Epoch && e.owner != mine:
		return ErrLost
	case o.GiveUp && e.owner != mine:
		return nil
	case o.GiveUp:
		e.owner.Node = ""
		m.publish(Event{o.Stream, Owner{Node: node}})
		return nil
	}
	m.streams[o.Stream] = &entry{owner: mine, until: now.Add(m.lease), heard: now.Add(-o.Silent),
		away: o.Away, id: e.id}
	if e.owner != mine {
		m.publish(Event{o.Stream, mine})
	}
	return nil
}

func (m *memory) Lookup(_ context.Context, stream string) (Owner, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.stored(stream); e.owner.Node != "" && e.until.After(time.Now()) {
		return e.owner, nil
	}
	return Owner{}, ErrNoOwner
}

func (m *memory) Watch(ctx context.Context, f func(Event)) {
	m.mu.Lock()
	key := m.watched
	m.watched++
	m.watchers[key] = f
	f(Event{})
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	delete(m.watchers, key)
	m.mu.Unlock()
}

// wipe deletes all data.
func (m *memory) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.streams)
}

// A network is the connection of one node to its directory.
type network struct {
	Directory

	mu    sync.Mutex
	state func(ctx context.Context) error // called before each call; nil: no effect
	// Called after each claim; an error means that the answer is lost. It may be nil.
	claimed func(Claim) error
	deaf    bool               // events are lost
	cut     context.CancelFunc // ends the watcher's connection
}

var errDown = errors.New("connection refused")

// unreachable is a state in which calls fail. In the state hang they get no answer.
func unreachable(context.Context) error { return errDown }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (w *network) set(state func(ctx context.Context) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
}

// setDeaf drops all events, or opens a new connection for them.
func (w *network) setDeaf(deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf = deaf; !deaf && w.cut != nil {
		w.cut()
	}
}

func (w *network) meet(ctx context.Context) error {
	w.mu.Lock()
	state := w.state
	w.mu.Unlock()
	if state == nil {
		return nil
	}
	return state(ctx)
}

func (w *network) Claim(ctx context.Context, c Claim) (uint64, error) {
	if err := w.meet(ctx); err != nil {
		return 0, err
	}
	epoch, err := w.Directory.Claim(ctx, c)
	if w.claimed != nil && err == nil {
		err = w.claimed(c)
	}
	return epoch, err
}

func (w *network) Renew(ctx context.Context, node string, owned ...Ownership) ([]error, error) {
	if err := w.meet(ctx); err != nil {
		return slices.Repeat([]error{err}, len(owned)), err
	}
	return w.Directory.Renew(ctx, node, owned...)
}

func (w *network) Lookup(ctx context.Context, stream string) (Owner, error) {
	if err := w.meet(ctx); err != nil {
		return Owner{}, err
	}
	return w.Directory.Lookup(ctx, stream)
}

func (w *network) Watch(ctx context.Context, f func(Event)) {
	for ctx.Err() == nil {
		connection, cut := context.WithCancel(ctx)
		w.mu.Lock()
		w.cut = cut
		w.mu.Unlock()
		w.Directory.Watch(connection, func(e Event) {
			w.mu.Lock()
			deaf := w.deaf
			w.mu.Unlock()
			if !deaf {
				f(e)
			}
		})
		cut()
	}
}
