package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const nodeC = "http://c:1"

// inBubble runs f with a directory in memory. Time advances when all goroutines wait.
func inBubble(t *testing.T, f func(t *testing.T, d *memory)) {
	synctest.Test(t, func(t *testing.T) { f(t, newMemory(testLease)) })
}

// passes advances the time by d, and checks f at each step.
func passes(t *testing.T, d time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(testLease / 30) {
		if synctest.Wait(); !f() {
			t.Fatalf("not so: %s, %v before the end", what, time.Until(end))
		}
	}
}

func TestLeaseIsRenewedAndReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, never, testLease), join(t, d, nodeB, never, testLease)
		l := a.claim(t, "s")
		if l.Epoch() == 0 || a.claim(t, "s") != l {
			t.Errorf("epoch %d, or another lease", l.Epoch())
		}
		passes(t, 10*testLease, "the lease is held", func() bool {
			o, err := d.Lookup(t.Context(), "s")
			return err == nil && o == Owner{nodeA, l.Epoch()} && l.Current() && l.Held()
		})
		var refused *refuse.Refusal
		if _, err := b.Claim(t.Context(), "s"); !errors.As(err, &refused) ||
			refused.Status != http.StatusConflict {
			t.Errorf("claiming a stream of another node: %v, want status 409", err)
		}
		l.Release()
		l.Release()
		if l.Held() || l.Current() {
			t.Error("it is held after its release")
		}
		synctest.Wait()
		if next := b.claim(t, "s"); next.Epoch() <= l.Epoch() {
			t.Errorf("epoch %d after %d", next.Epoch(), l.Epoch())
		}
		if got := b.Stats(); got.Claims != 1 || got.Refused != 1 || got.Owned != 1 {
			t.Errorf("%+v, want one claim, one refusal and one owned stream", got)
		}
		if got := a.Stats(); got.Owned != 0 || got.Lost != 0 || len(a.hub.losses()) != 0 {
			t.Errorf("%+v, lost %v, want nothing owned and nothing lost", got, a.hub.losses())
		}
	})
}

// Publishers of one name that connect to a node at the same time get the same lease. If the claim
// is refused, each gets an error.
func TestClaimsAtOneNode(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, never, testLease), join(t, d, nodeB, never, testLease)
		a.net.set(func(context.Context) error { time.Sleep(testLease / 10); return nil })
		b.net.set(func(context.Context) error { time.Sleep(testLease / 9); return nil })
		var all sync.WaitGroup
		var leases [10]live.Lease
		var errs [10]error
		for i := range leases {
			all.Go(func() { leases[i], _ = a.Claim(t.Context(), "s") })
			all.Go(func() { _, errs[i] = b.Claim(t.Context(), "s") })
		}
		all.Wait()
		for i := range leases {
			if leases[i] == nil || leases[i] != leases[0] || errs[i] == nil {
				t.Errorf("two claims at one node: lease %v, error %v, want one lease and one "+
					"error", leases[i], errs[i])
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a.net.set(hang)
		all.Go(func() { _, _ = a.Claim(t.Context(), "t") })
		synctest.Wait()
		if _, err := a.Claim(ctx, "t"); err != context.Canceled {
			t.Errorf("waiting for a claim whose context ended: %v, want context.Canceled", err)
		}
		all.Wait()
		a.Drain()
		if _, err := a.Claim(t.Context(), "u"); err != refuse.ErrShutdown {
			t.Errorf("claiming while the node shuts down: %v, want ErrShutdown", err)
		}
	})
}

// While the directory is unreachable, owners continue, and nodes use what they remember. When it is
// back without its data, the cluster works as before.
func TestDirectoryAway(t *testing.T) {
	for name, state := range map[string]func(context.Context) error{"refuses": unreachable,
		"hangs": hang} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, d *memory) {
				a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, never, testLease)
				time.Sleep(testLease) // until the nodes know each other
				l := a.claim(t, "s")
				gone := a.claim(t, "gone")
				owner := Owner{nodeA, l.Epoch()}
				if o, err := b.Owner(t.Context(), "s"); err != nil || o != owner {
					t.Fatalf("the owner while the directory is away: %v, %v, want as before", o,
						err)
				}
				a.net.set(state)
				b.net.set(state)
				passes(t, 20*testLease, "the owner is current", l.Current)
				if a.Reachable() || b.Reachable() || len(b.Peers()) != 1 {
					t.Errorf("reachable %v and %v, peers %v, want no directory and one peer",
						a.Reachable(), b.Reachable(), b.Peers())
				}
				if o, err := b.Owner(t.Context(), "s"); err != nil || o != owner {
					t.Errorf("the owner, asked of its peer: %v, %v, want as before", o, err)
				}
				if o, err := b.Owner(t.Context(), "other"); err == nil ||
					errors.Is(err, ErrNoOwner) {
					t.Errorf("the owner of a stream that the peer does not have: %v, %v, want "+
						"an error that is not ErrNoOwner", o, err)
				}
				late := b.claim(t, "late")
				if late.Epoch() != 0 || late.Current() || !late.Held() {
					t.Errorf("a claim without the directory: epoch %d, current %v, want 0, "+
						"false, and a held lease", late.Epoch(), late.Current())
				}
				if o, err := b.Owner(t.Context(), "late"); err != nil || o != (Owner{nodeB, 0}) {
					t.Errorf("the owner of that claim: %v, %v, want epoch 0", o, err)
				}
				gone.Release()
				never := b.claim(t, "never")
				never.Release()
				d.wipe()
				a.net.set(nil)
				b.net.set(nil)
				time.Sleep(testLease)
				synctest.Wait()
				if !a.Reachable() || !b.Reachable() || !late.Current() || late.Epoch() == 0 {
					t.Errorf("reachable %v and %v, epoch %d, want the claim in the directory",
						a.Reachable(), b.Reachable(), late.Epoch())
				}
				for name, want := range map[string]Owner{"s": owner, "late": {nodeB, late.Epoch()},
					"gone": {}, "never": {}} {
					if got, _ := d.Lookup(t.Context(), name); got != want {
						t.Errorf("%s: %v, want %v", name, got, want)
					}
				}
				if a.Stats().Lost+b.Stats().Lost != 0 || a.Stats().Failures == 0 ||
					a.sizes().leaving+b.sizes().leaving != 0 {
					t.Errorf("%+v, %+v, want failures and no lost stream", a.Stats(), b.Stats())
				}
			})
		})
	}
}

// A stream that was accepted without the directory ends if it turns out to be another node's.
func TestLateClaimIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, never, testLease), join(t, d, nodeB, never, testLease)
		a.claim(t, "s")
		b.net.set(unreachable)
		l := b.claim(t, "s")
		time.Sleep(5 * testLease)
		b.net.set(nil)
		time.Sleep(testLease)
		if l.Held() || !slices.Equal(b.hub.losses(), []Event{{Stream: "s"}}) ||
			b.Stats().Lost != 1 {
			t.Errorf("held %v, lost %v", l.Held(), b.hub.losses())
		}
	})
}

// While the directory is away, a publisher moves from one node to another. The late claim of the
// node that it has left does not take the stream away from the other node.
func TestLateClaimYieldsToThePublisher(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		left, now := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		left.net.set(unreachable)
		l := left.claim(t, "s")
		left.hub.setAway(true)
		current := now.claim(t, "s")
		left.net.set(nil)
		time.Sleep(2 * testLease)
		if !current.Current() || l.Held() ||
			!slices.Equal(left.hub.losses(), []Event{{Stream: "s"}}) {
			t.Errorf("the publisher's node owns the stream: %v; the other node has held it: %v, lost %v",
				current.Current(), l.Held(), left.hub.losses())
		}
		// The lease of the other node has ended in the directory, and is renewed in time.
		left.net.set(unreachable)
		now.net.set(unreachable)
		l = left.claim(t, "s")
		time.Sleep(2 * testLease)
		left.net.set(nil)
		time.Sleep(testLease / 2)
		now.net.set(nil)
		time.Sleep(testLease)
		if !current.Current() || l.Held() || len(now.hub.losses()) > 0 {
			t.Errorf("the publisher's node owns the stream: %v; the other node has held it: %v, lost %v",
				current.Current(), l.Held(), now.hub.losses())
		}
		// Without another owner, the node gets the stream that waits for its publisher.
		current.Release()
		synctest.Wait()
		left.net.set(unreachable)
		l = left.claim(t, "s")
		left.net.set(nil)
		time.Sleep(2 * testLease)
		if !l.Current() {
			t.Error("the node does not own a stream that waits for its publisher")
		}
	})
}

// While the directory is away, a publisher moves from one node to another and back. The first node
// keeps the stream, although the directory has not been told yet that the publisher has returned.
func TestLateClaimYieldsToTheReturnedPublisher(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		first, other := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		l := first.claim(t, "s")
		first.hub.setAway(true)
		l.Tell()
		synctest.Wait()
		first.net.set(unreachable)
		other.net.set(unreachable)
		passing := other.claim(t, "s")
		other.hub.setAway(true)
		first.hub.setAway(false)
		l.Tell()
		other.net.set(nil)
		time.Sleep(testLease / 2)
		if !l.Held() || passing.Held() {
			t.Errorf("the publisher's node owns the stream: %v; the other node has held it: %v",
				l.Held(), passing.Held())
		}
		first.net.set(nil)
		time.Sleep(testLease)
		if !l.Current() {
			t.Error("the publisher's node has not kept the stream")
		}
	})
}

// The answer to a claim is lost, and the node repeats the claim. The directory then runs the first
// claim a second time. The node keeps the stream.
func TestClaimIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		m := join(t, d, nodeA, always, testLease)
		var claims []Claim
		m.net.claimed = func(c Claim) error {
			claims = append(claims, c)
			if len(claims) > 1 {
				return nil
			}
			return errDown
		}
		l := m.claim(t, "s")
		time.Sleep(testLease)
		epoch := l.Epoch()
		if len(claims) != 2 || epoch == 0 {
			t.Fatalf("%d claims, epoch %d, want a repeated claim", len(claims), epoch)
		}
		if again, err := d.Claim(t.Context(), claims[0]); again != epoch || err != nil {
			t.Errorf("the first claim is run late: %d, %v, want epoch %d", again, err, epoch)
		}
		time.Sleep(2 * testLease)
		if !l.Current() || len(m.hub.losses()) != 0 {
			t.Errorf("current %v, lost %v", l.Current(), m.hub.losses())
		}
	})
}

// Another node claims the stream after this node, and the event of that comes before the answer to
// this node's claim. This node does not become the owner.
func TestClaimIsReplacedBeforeItsAnswer(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(t *testing.T, d *memory) {
			m := join(t, d, nodeA, always, testLease)
			var l live.Lease
			if late {
				m.net.set(unreachable)
				l = m.claim(t, "s")
			}
			m.net.claimed = func(c Claim) error {
				time.Sleep(time.Millisecond)
				if _, err := d.Claim(t.Context(), Claim{Stream: "s", Node: nodeB, ID: "later",
					Takeover: always}); err != nil {
					t.Error(err)
				}
				return nil
			}
			m.net.set(nil)
			if late {
				time.Sleep(testLease / 2)
				if l.Held() || len(m.hub.losses()) != 1 {
					t.Errorf("the late claim is held: %v, lost %v", l.Held(), m.hub.losses())
				}
			} else if _, err := m.Claim(t.Context(), "s"); err != errTaken {
				t.Errorf("%v, want that another node has the stream", err)
			}
			if o, err := m.Owner(t.Context(), "s"); o.Node != nodeB {
				t.Errorf("owner %v, %v, want %s", o, err, nodeB)
			}
		})
	}
}

// If a lease is released during a late claim, the claim is withdrawn.
func TestReleaseWhileClaimedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a := join(t, d, nodeA, never, testLease)
		a.net.set(unreachable)
		l := a.claim(t, "s")
		a.net.set(func(context.Context) error { time.Sleep(testLease / 20); return nil })
		// The lease is released before the claim begins, or during the claim.
		for a.Stats().Claims == 0 && l.Held() {
			time.Sleep(testLease / 100)
			if _, err := a.cfg.Directory.(*network).Directory.Lookup(t.Context(),
				"s"); err == nil || a.Reachable() {
				l.Release()
			}
		}
		time.Sleep(testLease / 2)
		if _, err := d.Lookup(t.Context(), "s"); err != ErrNoOwner || l.Held() {
			t.Errorf("after Release: %v, held %v, want ErrNoOwner", err, l.Held())
		}
	})
}

// A release that the directory does not answer is tried again, until the lease has expired there.
func TestFailedReleaseIsTriedAgain(t *testing.T) {
	for _, away := range []time.Duration{testLease / 10, 2 * testLease} {
		inBubble(t, func(t *testing.T, d *memory) {
			a := join(t, d, nodeA, never, testLease)
			l := a.claim(t, "s")
			a.net.set(unreachable)
			l.Release()
			time.Sleep(away)
			if _, err := d.Lookup(t.Context(), "s"); (err == ErrNoOwner) != (away > testLease) {
				t.Errorf("away for %v: %v before the directory is reached again", away, err)
			}
			a.net.set(nil)
			time.Sleep(testLease / 2)
			if _, err := d.Lookup(t.Context(), "s"); err != ErrNoOwner {
				t.Errorf("away for %v: %v later, want ErrNoOwner", away, err)
			}
			if n := a.sizes().leaving; n != 0 {
				t.Errorf("away for %v: %d releases are still tried", away, n)
			}
		})
	}
}

// An answer is older than what the table has if its call began before the table was told.
func TestOlderOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &ownerTable{self: nodeA, records: make(map[string]*ownerRecord)}
		begun := time.Now()
		time.Sleep(time.Second)
		older, newer := Owner{Node: nodeB, Epoch: 1}, Owner{Node: nodeC, Epoch: 2}
		var event time.Time
		for i, step := range []struct {
			o     Owner
			begun time.Time
			want  bool
		}{
			{newer, event, true},
			{older, event, false},
			{older, begun, false},
			{Owner{}, begun, false},
			{newer, begun, true},
			{older, time.Now().Add(time.Second), true}, // the directory has lost its data
			{newer, event, true},
			{Owner{}, time.Now().Add(2 * time.Second), true},
		} {
			time.Sleep(100 * time.Millisecond)
			before, _, _ := table.lastOwner("s")
			want := before
			if step.want {
				want = step.o
			}
			if got := table.setOwner("s", step.o, step.begun); got != step.want {
				t.Errorf("step %d: %v, want %v", i, got, step.want)
			}
			if got, _, _ := table.lastOwner("s"); got != want {
				t.Errorf("step %d: the owner is %+v, want %+v", i, got, want)
			}
		}
	})
}

// A node that was stopped for longer than a lease sends nothing until it knows whether it is still
// the owner.
func TestStoppedOwner(t *testing.T) {
	for name, state := range map[string]func(context.Context) error{
		"in the middle of an attempt": func(context.Context) error {
			time.Sleep(4 * testLease)
			return nil
		},
		"and the directory is away": func(context.Context) error {
			time.Sleep(4 * testLease)
			return errDown
		},
	} {
		for _, replaced := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", replaced ", replaced), func(t *testing.T) {
				inBubble(t, func(t *testing.T, d *memory) {
					a, b := join(t, d, nodeA, never, testLease), join(t, d, nodeB, never, testLease)
					l := a.claim(t, "s")
					time.Sleep(testLease)
					a.net.set(state)
					a.net.mu.Lock()
					a.net.deaf = true
					a.net.mu.Unlock()
					time.Sleep(2*testLease + testLease/2)
					if l.Current() || !l.Held() {
						t.Errorf("current %v, held %v", l.Current(), l.Held())
					}
					if replaced {
						b.claim(t, "s")
					}
					for range 5 {
						a.net.set(nil)
						time.Sleep(testLease)
					}
					if l.Held() == replaced || l.Current() == replaced ||
						len(a.hub.losses()) == 1 != replaced {
						t.Errorf("current %v, held %v, lost %v", l.Current(), l.Held(),
							a.hub.losses())
					}
				})
			})
		}
	}
}

// A replaced owner learns it at once, or within the time of an attempt if the event was lost.
func TestReplacedOwner(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		inBubble(t, func(t *testing.T, d *memory) {
			a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
			l := a.claim(t, "s")
			time.Sleep(testLease)
			a.net.setDeaf(deaf)
			b.claim(t, "s")
			if deaf {
				time.Sleep(testLease / attempts)
			}
			synctest.Wait()
			if l.Held() || !slices.Equal(a.hub.losses(), []Event{{"s", Owner{"", l.Epoch()}}}) {
				t.Errorf("deaf %v: held %v, lost %v", deaf, l.Held(), a.hub.losses())
			}
			// Then the stream is claimed back.
			next := a.claim(t, "s")
			if next == l || !next.Current() {
				t.Error("no new lease")
			}
			l.Release() // has no effect
			time.Sleep(testLease)
			if o, err := d.Lookup(t.Context(), "s"); err != nil ||
				o != (Owner{nodeA, next.Epoch()}) || !next.Current() {
				t.Errorf("after the replacement: %v, %v, want the next epoch", o, err)
			}
		})
	}
}

// If the directory has lost its data, a node may restore an ownership that had ended without its
// knowledge. It gives up the stream when a node asks for a greater epoch, and can then claim the
// stream with an epoch that is greater still.
func TestNodeThatRestoredAnOldOwnership(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a := join(t, d, nodeA, always, testLease)
		l := a.claim(t, "s")
		later := l.Epoch() + uint64(time.Hour/time.Microsecond)
		a.NoteEpoch("other", later)
		a.NoteEpoch("s", l.Epoch())
		a.NoteEpoch("s", 0)
		if !l.Held() || len(a.hub.losses()) > 0 {
			t.Error("an owner with the latest epoch has given up its stream")
		}
		a.NoteEpoch("s", later)
		a.NoteEpoch("s", later)
		synctest.Wait()
		if l.Held() || !slices.Equal(a.hub.losses(), []Event{{"s", Owner{"", l.Epoch()}}}) {
			t.Errorf("held %v, lost %v", l.Held(), a.hub.losses())
		}
		if _, err := d.Lookup(t.Context(), "s"); err != ErrNoOwner {
			t.Errorf("the old ownership is still recorded: %v", err)
		}
		if next := a.claim(t, "s"); next.Epoch() <= later {
			t.Errorf("the next epoch is %d, want one after %d", next.Epoch(), later)
		}
	})
}

// A claim says whether the publisher is away.
func TestPublisherAway(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, never, testLease), join(t, d, nodeB, never, testLease)
		a.claim(t, "s")
		a.hub.setAway(true)
		time.Sleep(testLease / attempts)
		synctest.Wait()
		b.claim(t, "s")
	})
	inBubble(t, func(t *testing.T, d *memory) { // or at once if the hub says so
		a, b := join(t, d, nodeA, never, testLease), join(t, d, nodeB, never, testLease)
		l := a.claim(t, "s")
		for _, away := range []bool{true, false, true} {
			a.hub.setAway(away)
			l.Tell()
			synctest.Wait()
			d.mu.Lock()
			if got := d.streams["s"].away; got != away {
				t.Errorf("the directory says %v, want %v", got, away)
			}
			d.mu.Unlock()
		}
		b.claim(t, "s")
		l.Tell() // the lease is no longer held
		synctest.Wait()
		if o, err := d.Lookup(t.Context(), "s"); err != nil || o.Node != nodeB {
			t.Errorf("the owner is %v, %v, want the other node", o, err)
		}
	})
}

func TestPeers(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b, c := join(t, d, nodeA, never, testLease), join(t, d, nodeB, never, testLease),
			join(t, d, nodeC, never, testLease)
		time.Sleep(testLease / attempts)
		synctest.Wait()
		if got := a.Peers(); !slices.Equal(got, []string{nodeB, nodeC}) || a.Stats().Nodes != 3 {
			t.Errorf("peers %v, want both other nodes", got)
		}
		// A node that does not reach the directory is considered dead after some time.
		c.net.set(unreachable)
		passes(t, 3*testLease-testLease/attempts, "all are there",
			func() bool { return len(a.Peers()) == 2 })
		time.Sleep(testLease)
		synctest.Wait()
		if got := a.Peers(); !slices.Equal(got, []string{nodeB}) {
			t.Errorf("peers %v, want only the node that is left", got)
		}
		// If all nodes lack the directory, none is considered dead.
		c.net.set(nil)
		time.Sleep(testLease)
		for _, m := range []*member{a, b, c} {
			m.net.set(hang)
		}
		passes(t, 20*testLease, "all are there", func() bool { return len(a.Peers()) == 2 })
		for _, m := range []*member{a, b, c} {
			m.net.set(nil)
		}
		passes(t, 5*testLease, "all are there", func() bool { return len(a.Peers()) == 2 })
		for i := range maxPeers + 10 {
			a.handleEvent(Event{Owner: Owner{Node: fmt.Sprint("http://h:", i)}})
		}
		if got := len(a.Peers()); got > maxUnproven {
			t.Errorf("%d peers that have proved nothing, want at most %d", got, maxUnproven)
		}
		for i := range maxPeers + 10 {
			node := fmt.Sprint("http://real:", i)
			a.cfg.Secret.updateNode(node, func(n *knownNode) { n.proven = true })
			a.handleEvent(Event{Owner: Owner{Node: node}})
		}
		if got := len(a.Peers()); got != maxPeers {
			t.Errorf("%d peers, want %d", got, maxPeers)
		}
		for i := range 1000 {
			a.handleEvent(Event{Owner: Owner{Node: fmt.Sprint("http://h:", i)}})
		}
		proven := 0
		for _, peer := range a.Peers() {
			if strings.HasPrefix(peer, "http://real:") {
				proven++
			}
		}
		if proven < maxPeers-maxUnproven {
			t.Errorf("invented nodes have left %d of the real ones", proven)
		}
	})
}

func TestOwner(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		c := join(t, d, nodeC, always, testLease)
		synctest.Wait()
		lookups := func(m *member, want int64, name string, owner Owner, expected error) {
			t.Helper()
			before := m.Stats().Lookups
			o, err := m.Owner(t.Context(), name)
			if got := m.Stats().Lookups - before; got != want || o != owner || err != expected {
				t.Errorf("%d lookups, want %d; %v, %v; want %v, %v", got, want, o, err, owner,
					expected)
			}
		}
		lookups(c, 1, "s", Owner{}, ErrNoOwner)
		lookups(c, 0, "s", Owner{}, ErrNoOwner)
		time.Sleep(absentFor)
		lookups(c, 1, "s", Owner{}, ErrNoOwner)
		l := a.claim(t, "s")
		owner := Owner{nodeA, l.Epoch()}
		synctest.Wait()
		lookups(a, 0, "s", owner, nil)
		lookups(c, 0, "s", owner, nil) // known from the event
		time.Sleep(testLease)
		lookups(c, 1, "s", owner, nil)
		lookups(c, 0, "s", owner, nil)
		c.finder.forget("s", owner.Epoch-1)
		c.finder.forget("other", 1)
		lookups(c, 0, "s", owner, nil)
		c.finder.forget("s", owner.Epoch)
		lookups(c, 1, "s", owner, nil)
		moved := b.claim(t, "s")
		synctest.Wait()
		lookups(c, 0, "s", Owner{nodeB, moved.Epoch()}, nil)
		c.handleEvent(Event{"s", owner}) // an event that arrives late
		lookups(c, 0, "s", Owner{nodeB, moved.Epoch()}, nil)
		c.handleEvent(Event{"s", Owner{Node: nodeA}}) // the same
		lookups(c, 0, "s", Owner{nodeB, moved.Epoch()}, nil)
		moved.Release()
		lookups(b, 0, "s", Owner{}, ErrNoOwner)
		synctest.Wait()
		lookups(c, 0, "s", Owner{}, ErrNoOwner)
		if s := a.Stats(); s.Lost != 1 {
			t.Errorf("%+v, want one lost stream", s)
		}
		for i := range maxOwners + 10 {
			_, _ = c.Owner(t.Context(), fmt.Sprint(i))
		}
		if got := c.sizes().owners; got != maxOwners {
			t.Errorf("%d owners are remembered", got)
		}
	})
}

// Simultaneous lookups of one name become one request. A lookup ends when no caller waits for it.
func TestLookupsCollapse(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		synctest.Wait()
		l := a.claim(t, "s")
		b.finder.forget("s", l.Epoch())
		b.net.set(func(context.Context) error { time.Sleep(testLease / 10); return nil })
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if i == 0 {
					if _, err := b.Owner(ctx, "s"); err != context.Canceled {
						t.Errorf("a lookup whose context ended: %v, want context.Canceled", err)
					}
				} else if o, err := b.Owner(t.Context(), "s"); err != nil || o.Node != nodeA {
					t.Errorf("the shared lookup: %v, %v, want the owner", o, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if got := b.Stats().Lookups; got != 1 {
			t.Errorf("%d lookups, want 1", got)
		}
	})
}

func TestAwaitOwner(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(a, b *member) // called while b waits
		then   func(a, b *member)
		at     func(a, b *member) *member
		within time.Duration
	}{
		{name: "there is one", before: func(a, b *member) { a.claim(t, "s") }},
		{name: "there is one soon", then: func(a, b *member) { a.claim(t, "s") }},
		{name: "the event is lost", before: func(a, b *member) { b.net.setDeaf(true) },
			then: func(a, b *member) { a.claim(t, "s") }, within: testLease},
		{name: "the event is lost, and its connection comes back",
			before: func(a, b *member) { b.net.setDeaf(true) },
			then:   func(a, b *member) { a.claim(t, "s"); b.net.setDeaf(false) }},
		{name: "the directory is away", before: func(a, b *member) {
			b.net.setDeaf(true)
			b.net.set(hang)
			a.claim(t, "s")
		},
			then: func(a, b *member) { b.net.set(nil) }, within: 2 * testLease},
		{name: "here", then: func(a, b *member) { b.claim(t, "s") },
			at: func(a, b *member) *member { return b }},
		{name: "here, and the directory is away",
			before: func(a, b *member) { b.net.set(unreachable) },
			then:   func(a, b *member) { b.claim(t, "s") },
			at:     func(a, b *member) *member { return b }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, d *memory) {
				a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
				time.Sleep(testLease)
				if tt.before != nil {
					tt.before(a, b)
				}
				want := a
				if tt.at != nil {
					want = tt.at(a, b)
				}
				found := make(chan Owner)
				go func() {
					o, err := b.finder.awaitOwner(t.Context(), "s")
					if err != nil {
						t.Error(err)
					}
					found <- o
				}()
				time.Sleep(testLease / 10)
				begun := time.Now()
				if tt.then != nil {
					tt.then(a, b)
				}
				if o := <-found; o.Node != want.cfg.Self {
					t.Errorf("the awaited owner is %v, want %v", o, want.cfg.Self)
				}
				if took := time.Since(begun); took > tt.within {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
	inBubble(t, func(t *testing.T, d *memory) {
		a := join(t, d, nodeA, always, testLease)
		await := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), testLease)
			defer cancel()
			_, err := a.finder.awaitOwner(ctx, "s")
			return err
		}
		if err := await(); err != ErrNoOwner {
			t.Error(err)
		}
		a.net.set(unreachable)
		if err := await(); !errors.Is(err, errDown) {
			t.Error(err)
		}
		a.net.set(hang)
		if err := await(); err == nil || !strings.Contains(err.Error(), "found out") {
			t.Error(err)
		}
	})
}

// nextPull returns the next pull that the hub is told to begin, if it begins within a time.
func (m *member) nextPull(t *testing.T, within time.Duration) *fakePull {
	t.Helper()
	select {
	case p := <-m.hub.pulls:
		return p
	case <-time.After(within):
		t.Fatalf("no pull within %v", within)
		return nil
	}
}

func TestPull(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		edge := join(t, d, nodeC, always, testLease)
		time.Sleep(testLease)
		check := func(p *fakePull, node string, l live.Lease) {
			t.Helper()
			if p.name != "s" || p.from.Node != node || p.from.Epoch != l.Epoch() ||
				p.from.Proof != live.Proof(edge.cfg.Secret) {
				t.Errorf("pulled %s from %+v, want s from its owner, with a proof", p.name, p.from)
			}
		}
		edge.Want("unwanted")
		edge.hub.want("s", true)
		edge.Want("s")
		edge.Want("s")
		time.Sleep(5 * testLease)
		l := a.claim(t, "s")
		p := edge.nextPull(t, pullPause)
		check(p, nodeA, l)
		synctest.Wait()
		if got := edge.Stats().Pulled; got != 1 || edge.sizes().pulls != 1 {
			t.Errorf("%d pulls, want 1", got)
		}
		// The owner does not know yet that it is the owner: the pull is retried repeatedly, with
		// pauses.
		begun := time.Now()
		for range 20 {
			p.end <- &refuse.Refusal{Status: http.StatusMisdirectedRequest}
			p = edge.nextPull(t, testLease)
			check(p, nodeA, l)
		}
		if took := time.Since(begun); took < 10*testLease/attempts/2 {
			t.Errorf("20 tries in %v", took)
		}
		// Another owner is pulled from at once.
		moved := b.claim(t, "s")
		old := p
		p = edge.nextPull(t, pullPause*2)
		check(p, nodeB, moved)
		if old.ctx.Err() == nil {
			t.Error("the pull from the old owner continues")
		}
		// The event is lost. The change is noticed when events arrive again.
		edge.net.setDeaf(true)
		l = a.claim(t, "s")
		synctest.Wait()
		edge.net.setDeaf(false)
		p = edge.nextPull(t, pullPause*2)
		check(p, nodeA, l)
		moved = b.claim(t, "s")
		p = edge.nextPull(t, pullPause*2)
		check(p, nodeB, moved)
		// The directory is unreachable, and the owner is reachable again.
		for _, m := range []*member{a, b, edge} {
			m.net.set(unreachable)
		}
		time.Sleep(5 * testLease)
		p.end <- errors.New("reset")
		p = edge.nextPull(t, testLease)
		check(p, nodeB, moved)
		for _, m := range []*member{a, b, edge} {
			m.net.set(nil)
		}
		// The publisher connects to this node.
		own := edge.claim(t, "s")
		<-p.ctx.Done()
		edge.hub.want("s", false)
		time.Sleep(testLease)
		if edge.sizes().pulls != 0 || !own.Current() {
			t.Errorf("%+v, want no pull and a current claim", edge.sizes())
		}
		own.Release()
		synctest.Wait()
		// The stream is no longer wanted, and then it is wanted again.
		edge.hub.want("s", true)
		edge.Want("s")
		l = a.claim(t, "s")
		p = edge.nextPull(t, testLease)
		check(p, nodeA, l)
		edge.hub.want("s", false)
		p.end <- nil
		time.Sleep(testLease)
		if got := edge.sizes().pulls; got != 0 {
			t.Errorf("%d pulls are left, want 0", got)
		}
		edge.hub.want("s", true)
		edge.Want("s")
		check(edge.nextPull(t, pullPause), nodeA, l)
	})
}

// pullInAnOutage starts two nodes, b and edge. The node edge pulls the stream s from a third node,
// and then loses the directory and its events.
func pullInAnOutage(t *testing.T, d *memory) (b, edge *member, p *fakePull) {
	t.Helper()
	a := join(t, d, nodeA, always, testLease)
	b, edge = join(t, d, nodeB, always, testLease), join(t, d, nodeC, always, testLease)
	a.claim(t, "s")
	edge.hub.want("s", true)
	edge.Want("s")
	p = edge.nextPull(t, testLease)
	edge.net.set(unreachable)
	edge.net.setDeaf(true)
	return b, edge, p
}

// The owner of a stream changes while a node does not reach the directory. The node notices it soon
// after the directory is back, even if the events come back before the answers.
func TestOwnerThatChangedInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		b, edge, p := pullInAnOutage(t, d)
		time.Sleep(2 * testLease)
		l := b.claim(t, "s")
		time.Sleep(testLease)
		edge.net.setDeaf(false)
		time.Sleep(testLease / 10)
		edge.net.set(nil)
		time.Sleep(testLease)
		if p.ctx.Err() == nil {
			t.Fatal("the node still reads from the owner before")
		}
		if p := edge.nextPull(t, testLease); p.from.Node != nodeB || p.from.Epoch != l.Epoch() {
			t.Errorf("the node reads from %s, epoch %d", p.from.Node, p.from.Epoch)
		}
	})
}

// In an outage, the lease of a stream's new owner expires. A node that asks for the owner before
// the lease is renewed notices the owner soon afterwards.
func TestOwnerWhoseLeaseExpiredInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		b, edge, p := pullInAnOutage(t, d)
		b.claim(t, "s")
		b.net.set(unreachable)
		time.Sleep(2 * testLease)
		edge.net.setDeaf(false)
		edge.net.set(nil)
		time.Sleep(testLease)
		b.net.set(nil)
		time.Sleep(testLease)
		if p.ctx.Err() == nil {
			t.Error("the node still reads from the owner before")
		}
	})
}

// The last owner of a stream is remembered until another node owns it, or until the last owner has
// nothing left.
func TestFormerOwner(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		former := func(want live.Lease) {
			t.Helper()
			switch o, ok := b.finder.formerOwner("s"); {
			case want == nil && ok:
				t.Errorf("the former owner is %v, want none", o)
			case want != nil && (o.Node != nodeA || o.Epoch != want.Epoch()):
				t.Errorf("%v, want epoch %d", o, want.Epoch())
			}
		}
		former(nil)
		l := a.claim(t, "s")
		b.hub.want("s", true)
		b.Want("s")
		p := b.nextPull(t, testLease)
		former(nil)
		l.Release()
		synctest.Wait()
		former(l)
		p.end <- errors.New("the stream has ended at its owner")
		time.Sleep(10 * testLease)
		former(l)
		b.finder.forget("s", l.Epoch())
		b.finder.forgetFormer("s", l.Epoch()+1)
		former(l)
		later := a.claim(t, "s")
		synctest.Wait()
		former(nil)
		later.Release()
		synctest.Wait()
		b.finder.forgetFormer("s", l.Epoch())
		former(later)
		b.finder.forgetFormer("s", later.Epoch())
		former(nil)
	})
}

// If a stream is wanted just when its pull ends, it is pulled again.
func TestWantWhilePullEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, edge := join(t, d, nodeA, always, testLease), join(t, d, nodeC, always, testLease)
		a.claim(t, "s")
		var asked int
		edge.Node.pulls.hub = wantedHub{edge.hub, func() bool {
			if asked++; asked == 1 {
				edge.Want("s")
				return false
			}
			return asked == 2
		}}
		edge.Want("s")
		p := edge.nextPull(t, pullPause)
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		p.end <- nil
		time.Sleep(testLease)
		synctest.Wait()
		if asked != 3 || edge.sizes().pulls != 0 {
			t.Errorf("asked %d times, and %d pulls", asked, edge.sizes().pulls)
		}
	})
}

type wantedHub struct {
	*fakeHub
	wanted func() bool
}

func (h wantedHub) Wanted(string) bool { return h.wanted() }

// An unreachable owner is logged once, and again if it fails after it was reachable.
func TestPullThatFailsIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, edge := join(t, d, nodeA, always, testLease), join(t, d, nodeC, always, testLease)
		a.claim(t, "s")
		edge.hub.want("s", true)
		edge.Want("s")
		warnings := func() int { return strings.Count(edge.log.String(), "cannot be pulled") }
		for want, fails := range []int{2, 30, 30} { // two failures do not last long enough
			for range fails {
				edge.nextPull(t, testLease).end <- errors.New("refused by the test")
			}
			if synctest.Wait(); warnings() != want {
				t.Fatalf("%d warnings, want %d: %s", warnings(), want, edge.log)
			}
			p := edge.nextPull(t, testLease)
			time.Sleep(2 * testLease)
			p.end <- errors.New("reset")
		}
		if got := edge.log.String(); !strings.Contains(got, "stream=s node="+nodeA+
			` err="refused by the test"`) {
			t.Error(got)
		}
		edge.hub.want("s", false)
	})
}

// A directory that never answers is logged once, at the beginning.
func TestDirectoryIsNeverThere(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		m := &member{hub: newFakeHub(), net: &network{Directory: d}, log: new(nettest.LogBook)}
		m.net.set(unreachable)
		m.Node = NewNode(Config{
			Directory: m.net, Self: nodeA, Lease: testLease,
			Log: slog.New(slog.NewTextHandler(m.log, nil))})
		m.Start(m.hub)
		defer m.Close()
		time.Sleep(10 * testLease)
		m.net.set(nil)
		time.Sleep(testLease)
		got := m.log.String()
		if strings.Count(got, "does not answer") != 1 ||
			strings.Count(got, "directory answers") != 1 {
			t.Error(got)
		}
	})
}

// Each new reason of an outage is logged, and each only once.
func TestReasonsOfAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		m := &member{hub: newFakeHub(), net: &network{Directory: d}, log: new(nettest.LogBook)}
		m.Node = NewNode(Config{
			Directory: m.net, Self: nodeA, Lease: testLease,
			Log: slog.New(slog.NewTextHandler(m.log, nil))})
		m.Start(m.hub)
		defer m.Close()
		noAuth := func(context.Context) error {
			return errors.New("NOAUTH Authentication required.")
		}
		for _, state := range []func(context.Context) error{nil, unreachable, noAuth, unreachable,
			noAuth, nil} {
			m.net.set(state)
			time.Sleep(5 * testLease)
		}
		got := m.log.String()
		if strings.Count(got, "does not answer") != 2 || strings.Count(got, "NOAUTH") != 1 ||
			strings.Count(got, "directory answers") != 2 {
			t.Error(got)
		}
	})
}

// Close releases the streams of a node, and its goroutines end.
func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a := join(t, d, nodeA, always, testLease)
		l := a.claim(t, "s")
		a.hub.want("t", true)
		a.Want("t")
		time.Sleep(testLease)
		a.Close()
		if _, err := d.Lookup(t.Context(), "s"); err != ErrNoOwner || l.Held() {
			t.Errorf("after Close: %v, held %v, want ErrNoOwner", err, l.Held())
		}
		a.Want("t")
	})
}

// Two publishers at two nodes that both reconnect at once replace each other at most once in
// live.LeastStay.
func TestTwoNodesClaimInTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		const lasts = 10 * live.LeastStay
		a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		time.Sleep(testLease) // until the nodes know each other
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var all sync.WaitGroup
		for _, m := range []*member{a, b} {
			all.Go(func() {
				for ctx.Err() == nil {
					l, err := m.Claim(ctx, "s")
					for err == nil && l.Held() && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		all.Wait()
		n := a.Stats().Claims + b.Stats().Claims
		if most := int64(lasts/live.LeastStay) + 2; n < most/2 || n > most {
			t.Errorf("%d claims in %v", n, lasts)
		}
		// A stream that its owner has released can be claimed at once.
		time.Sleep(live.LeastStay)
		a.claim(t, "t").Release()
		synctest.Wait()
		if begun := time.Now(); b.claim(t, "t") == nil || time.Since(begun) > 0 {
			t.Errorf("waited %v for a stream without an owner", time.Since(begun))
		}
	})
}

// Viewers request many streams at once. The number of concurrent lookups is limited, so that there
// are connections for renewals, and many requests do not look like an outage of the directory.
func TestManyLookups(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		l := a.claim(t, "s")
		b.claim(t, "there")
		var asking, most atomic.Int64
		a.net.set(func(context.Context) error {
			most.Store(max(most.Load(), asking.Add(1)))
			time.Sleep(testLease / 30)
			asking.Add(-1)
			return nil
		})
		var all sync.WaitGroup
		var answered atomic.Int64
		for i := range 1000 {
			all.Go(func() {
				if _, err := a.Owner(t.Context(), fmt.Sprint("x", i)); err == ErrNoOwner {
					answered.Add(1)
				}
			})
		}
		time.Sleep(testLease / 100)
		if !a.Reachable() || !l.Current() {
			t.Errorf("reachable %v, current %v", a.Reachable(), l.Current())
		}
		all.Wait()
		if !a.Reachable() || !l.Current() || answered.Load() < maxAsking ||
			most.Load() > maxAsking+1 {
			t.Errorf("reachable %v, current %v, %d answers, %d at a time", a.Reachable(),
				l.Current(), answered.Load(), most.Load())
		}
		if o, err := a.Owner(t.Context(), "there"); err != nil || o.Node != nodeB {
			t.Errorf("the owner after many lookups: %v, %v, want the other node", o, err)
		}
	})
}

// Viewers request invented names. Names with owners are still remembered for an outage of the
// directory.
func TestInventedNamesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, d *memory) {
		a, b := join(t, d, nodeA, always, testLease), join(t, d, nodeB, always, testLease)
		const streams = 100
		time.Sleep(testLease) // until the nodes know each other
		for i := range streams {
			b.claim(t, fmt.Sprint("s", i))
		}
		for i := range 2 * maxOwners {
			_, _ = a.Owner(t.Context(), fmt.Sprint("x", i))
		}
		a.net.set(unreachable)
		time.Sleep(testLease)
		for i := range streams {
			if o, err := a.Owner(t.Context(), fmt.Sprint("s", i)); err != nil || o.Node != nodeB {
				t.Fatalf("s%d: %v, %v, want the other node", i, o, err)
			}
		}
		if got := a.sizes().owners; got != maxOwners {
			t.Errorf("%d owners are kept, want %d", got, maxOwners)
		}
	})
}
