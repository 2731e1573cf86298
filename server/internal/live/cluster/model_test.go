package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/live"
)

// Redis behaves like memory for any sequence of requests. Both keep their promises, even if data
// are lost. An epoch is greater than every earlier one, and belongs to one node. A replaced owner
// does not become the owner again unless the data were lost, and never after the later owner has
// renewed.
func TestModel(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 6
	}
	d := openServer(t, redistest.Shared(t))
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			checkModel(t, d, fmt.Sprint("s", seed), uint64(seed))
		})
	}
}

func checkModel(t *testing.T, d *Redis, stream string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 25))
	var least uint64
	m := newMemory(d.lease)
	m.clock = func() uint64 { return least }

	nodes := []string{"http://a:1", "http://b:1", "http://c:1"}
	// The epochs that each node has got. A node may not know of later ones.
	believed := make(map[string][]uint64)
	granted := make(map[uint64]string)
	var last uint64   // the greatest epoch
	var renewed Owner // the greatest epoch renewed or claimed since the data were lost
	var log []string  // the events so far
	defer func() {
		if t.Failed() {
			t.Log(log)
		}
	}()
	for step := range 400 {
		node := nodes[r.IntN(len(nodes))]
		switch op := r.IntN(20); {
		case op < 6:
			c := Claim{Stream: stream, Node: node, ID: fmt.Sprint(node, step/(1+r.IntN(3))),
				Takeover: []live.Takeover{always, stalled, never, never}[r.IntN(4)]}
			if mine := believed[node]; len(mine) > 0 && r.IntN(2) == 0 {
				c.Seen = mine[len(mine)-1]
			}
			log = append(log, fmt.Sprintf("%d: %+v", step, c))
			epoch, err := d.Claim(t.Context(), c)
			least = epoch
			same, other := m.Claim(t.Context(), c)
			var taken, alike *TakenError
			if errors.As(err, &taken) != errors.As(other, &alike) || taken != nil &&
				*taken != *alike || taken == nil && err != nil {
				t.Fatalf("step %d: %v, want %v", step, err, other)
			}
			if err != nil {
				break
			}
			if epoch == same && granted[epoch] == node {
				break // the same claim as before
			}
			if epoch != same || epoch <= last {
				t.Fatalf("step %d: epoch %d, want %d, and one after %d", step, epoch, same, last)
			}
			last, renewed = epoch, Owner{node, epoch}
			granted[epoch] = node
			believed[node] = append(believed[node], epoch)
		case op < 16 && len(believed[node]) > 0:
			mine := believed[node]
			o := Ownership{Stream: stream, Epoch: mine[len(mine)-1-min(len(mine)-1,
				r.IntN(3)*r.IntN(2))]}
			o.Silent = []time.Duration{0, live.StalledAfter / 100, 10 * time.Minute}[r.IntN(3)]
			o.Away, o.GiveUp = r.IntN(3) == 0, r.IntN(8) == 0
			log = append(log, fmt.Sprintf("%d: %s %+v", step, node, o))
			errs, err := d.Renew(t.Context(), node, o)
			others, _ := m.Renew(t.Context(), node, o)
			if err != nil || errs[0] != others[0] {
				t.Fatalf("step %d: %v, %v, want %v", step, errs, err, others)
			}
			if errs[0] == nil && !o.GiveUp {
				if o.Epoch < renewed.Epoch {
					t.Fatalf("step %d: %d is taken for the owner, and %v has renewed", step,
						o.Epoch, renewed)
				}
				renewed = Owner{node, o.Epoch}
			}
		case op == 16: // the lease ends
			log = append(log, fmt.Sprintf("%d: end", step))
			if e := m.streams[stream]; e != nil {
				e.until = time.Now().Add(-time.Minute)
				d.rdb.HSet(t.Context(), d.key(stream), "until", e.until.UnixMilli())
			}
		case op == 17:
			log = append(log, fmt.Sprintf("%d: wipe", step))
			m.wipe()
			d.rdb.Del(t.Context(), d.key(stream))
			renewed = Owner{}
		}
		got, err := d.Lookup(t.Context(), stream)
		want, other := m.Lookup(t.Context(), stream)
		if got != want || err != other {
			t.Fatalf("step %d: the owner is %v, %v; want %v, %v", step, got, err, want, other)
		}
		if err == nil && granted[got.Epoch] != got.Node {
			t.Fatalf("step %d: the owner is %v, and the epoch was that of %s", step, got,
				granted[got.Epoch])
		}
	}
}

// Nodes claim, release and are stopped. They lose the directory and its events, and the directory
// loses its data. Each epoch belongs to one node, and is greater than those before. A lost lease is
// never held again. After all faults, each stream has at most one owner, the one in the directory,
// and every node finds it.
func TestNodesModel(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { checkNodes(t, uint64(seed)) })
		if t.Failed() {
			t.Fatalf("a failing seed: %d", seed)
		}
	}
}

func checkNodes(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 25))
	d := newMemory(testLease)
	var claims uint64 // a server's clock advances between two claims
	d.clock = func() uint64 { claims++; return uint64(time.Now().UnixMicro()) + claims }
	last := make(map[string]Owner)
	wiped := false // after that, restored data may be older
	d.watchers[-1] = func(e Event) {
		before := last[e.Stream]
		switch {
		case e.Stream == "" || e.Owner.Epoch == 0:
		case e.Owner.Epoch < before.Epoch && !wiped, e.Owner.Epoch == before.Epoch &&
			e.Owner != before:
			t.Errorf("%v was seen after %v: epochs go back, or two owners have one", e, before)
		case e.Owner.Epoch > before.Epoch:
			last[e.Stream] = e.Owner
		}
	}
	d.watched++
	var members []*member
	for i, rule := range []live.Takeover{always, stalled, never} {
		members = append(members, join(t, d, fmt.Sprintf("http://%c:1", 'a'+i), rule, testLease))
	}
	streams := []string{"s", "t"}
	leases := make(map[string][]live.Lease) // all leases so far, by stream
	ended := make(map[live.Lease]bool)
	for range 150 {
		m, name := members[r.IntN(len(members))], streams[r.IntN(len(streams))]
		switch r.IntN(12) {
		case 0, 1, 2:
			if l, err := m.Claim(t.Context(), name); err == nil &&
				!slices.Contains(leases[name], l) {
				leases[name] = append(leases[name], l)
			}
		case 3:
			if all := leases[name]; len(all) > 0 {
				all[r.IntN(len(all))].Release()
			}
		case 4:
			m.net.set([]func(context.Context) error{unreachable, hang, func(context.Context) error {
				time.Sleep(3 * testLease) // as if the process were stopped
				return nil
			}}[r.IntN(3)])
		case 5, 6:
			m.net.set(nil)
		case 7:
			m.net.setDeaf(r.IntN(2) == 0)
		case 8:
			if r.IntN(4) == 0 {
				d.wipe()
				d.mu.Lock() // in the order in which the watcher gets it
				wiped = true
				d.mu.Unlock()
			}
		default:
			time.Sleep(time.Duration(r.Int64N(int64(2 * testLease))))
		}
		for _, l := range slices.Concat(leases["s"], leases["t"]) {
			ended[l] = ended[l] || !l.Held()
			if ended[l] && (l.Held() || l.Current()) {
				t.Errorf("lease %d is held again", l.Epoch())
			}
		}
	}
	for _, m := range members {
		m.net.set(nil)
		m.net.setDeaf(false)
	}
	time.Sleep(6 * testLease)
	synctest.Wait()
	for _, name := range streams {
		o, err := d.Lookup(t.Context(), name)
		var held []live.Lease
		for _, l := range leases[name] {
			if l.Held() {
				held = append(held, l)
			}
		}
		if err == nil != (len(held) == 1) || len(held) > 1 || err == nil &&
			(held[0].Epoch() != o.Epoch || !held[0].Current()) {
			t.Errorf("%s has the owner %v, %v, and %d leases are held", name, o, err, len(held))
		}
		for _, m := range members {
			if got, err2 := m.Owner(t.Context(), name); got != o || err2 != err {
				t.Errorf("%s finds %v, %v; want %v, %v", m.cfg.Self, got, err2, o, err)
			}
		}
	}
}
