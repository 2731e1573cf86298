package cluster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
)

// wait is the time limit for events that are fast on an idle machine.
const wait = time.Minute

// eventually waits until f reports true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// The rules for a node that claims the stream of another node.
const always, stalled, never = live.TakeoverAlways, live.TakeoverStalled, live.TakeoverNever

// testLease is the lease of nodes in virtual time.
const testLease = 3 * time.Second

// A fakeHub records the calls of a Node.
type fakeHub struct {
	pulls chan *fakePull // each pull that begins waits until the test takes it, or until it is ended

	mu     sync.Mutex
	lost   []Event // Owner.Epoch is the epoch of the lease
	wanted map[string]bool
	away   bool
}

// A fakePull is a pull that runs until its result is sent to end.
type fakePull struct {
	name string
	from live.Owner
	end  chan error
	ctx  context.Context
}

func newFakeHub() *fakeHub {
	return &fakeHub{pulls: make(chan *fakePull), wanted: make(map[string]bool)}
}

func (h *fakeHub) Lost(name string, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = append(h.lost, Event{Stream: name, Owner: Owner{Epoch: epoch}})
}

func (h *fakeHub) Silent(string) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return 0, h.away
}

func (h *fakeHub) Wanted(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wanted[name]
}

func (h *fakeHub) setAway(away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = away
}

func (h *fakeHub) want(name string, wanted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted[name] = wanted
}

func (h *fakeHub) losses() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lost)
}

func (h *fakeHub) Pull(ctx context.Context, name string, from live.Owner) error {
	p := &fakePull{name, from, make(chan error), ctx}
	select {
	case h.pulls <- p:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-p.end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A member is a Node in a test, with its hub and its connection to the directory.
type member struct {
	*Node
	hub *fakeHub
	net *network
	log *nettest.LogBook
}

// join starts a Node with a takeover rule. The Node is closed when the test ends.
func join(t *testing.T, d Directory, self string, rule live.Takeover, lease time.Duration) *member {
	t.Helper()
	m := &member{hub: newFakeHub(), net: &network{Directory: d}, log: new(nettest.LogBook)}
	m.Node = NewNode(Config{
		Directory: m.net, Self: self, Secret: NewSecret("secret", self), Lease: lease,
		Takeover: rule, Log: slog.New(slog.NewTextHandler(m.log, nil)),
	})
	m.Start(m.hub)
	t.Cleanup(m.Close)
	return m
}

// claim claims a stream. The claim must succeed.
func (m *member) claim(t *testing.T, name string) live.Lease {
	t.Helper()
	l, err := m.Claim(t.Context(), name)
	if err != nil {
		t.Fatalf("claiming at %s: %v", m.cfg.Self, err)
	}
	return l
}

type sizes struct{ leaving, owners, pulls int }

// sizes returns the lengths of the Node's tables.
func (m *member) sizes() sizes {
	m.leases.mu.Lock()
	leaving := len(m.leases.leaving)
	m.leases.mu.Unlock()
	m.pulls.mu.Lock()
	defer m.pulls.mu.Unlock()
	return sizes{leaving, m.owners.size(), len(m.pulls.pulls)}
}
