package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// Redis does what memory does, whatever nodes ask for in whatever order; and what both promise holds, data that are lost or
// not: an epoch is greater than every one before, and of one node; an owner that was replaced is not taken for the owner
// again unless the data were lost, and never after the later owner has renewed.
func TestModel(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 6
	}
	d := openServer(t, redistest.Shared(t).Options())
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { checkModel(t, d, fmt.Sprint("s", seed), uint64(seed)) })
	}
}

func checkModel(t *testing.T, d *Redis, stream string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 25))
	var least uint64
	m := newMemory(d.lease)
	m.clock = func() uint64 { return least }

	nodes := []string{"http://a:1", "http://b:1", "http://c:1"}
	believed := make(map[string][]uint64) // the epochs that each node was given: it may not know that others came later
	granted := make(map[uint64]string)
	var last uint64   // the greatest epoch
	var renewed Owner // the greatest that was renewed, or claimed, since the data were lost
	var log []string  // of what has happened
	defer func() {
		if t.Failed() {
			t.Log(log)
		}
	}()
	for step := range 400 {
		node := nodes[r.IntN(len(nodes))]
		switch op := r.IntN(20); {
		case op < 6:
			c := Claim{Stream: stream, Node: node, Rule: []Rule{Always, Stalled, Never, Never}[r.IntN(4)]}
			if mine := believed[node]; len(mine) > 0 && r.IntN(2) == 0 {
				c.Seen = mine[len(mine)-1]
			}
			log = append(log, fmt.Sprintf("%d: %+v", step, c))
			epoch, err := d.Claim(t.Context(), c)
			least = epoch
			same, other := m.Claim(t.Context(), c)
			var taken, alike *TakenError
			if errors.As(err, &taken) != errors.As(other, &alike) || taken != nil && *taken != *alike || taken == nil && err != nil {
				t.Fatalf("step %d: %v, want %v", step, err, other)
			}
			if err != nil {
				break
			}
			if epoch != same || epoch <= last {
				t.Fatalf("step %d: epoch %d, want %d, and one after %d", step, epoch, same, last)
			}
			last, renewed = epoch, Owner{node, epoch}
			granted[epoch] = node
			believed[node] = append(believed[node], epoch)
		case op < 16 && len(believed[node]) > 0:
			mine := believed[node]
			o := Ownership{Stream: stream, Epoch: mine[len(mine)-1-min(len(mine)-1, r.IntN(3)*r.IntN(2))]}
			o.Silent, o.Away, o.GiveUp = time.Duration(r.IntN(3))*10*time.Minute, r.IntN(3) == 0, r.IntN(8) == 0
			log = append(log, fmt.Sprintf("%d: %s %+v", step, node, o))
			errs, err := d.Renew(t.Context(), node, o)
			others, _ := m.Renew(t.Context(), node, o)
			if err != nil || errs[0] != others[0] {
				t.Fatalf("step %d: %v, %v, want %v", step, errs, err, others)
			}
			if errs[0] == nil && !o.GiveUp {
				if o.Epoch < renewed.Epoch {
					t.Fatalf("step %d: %d is taken for the owner, and %v has renewed", step, o.Epoch, renewed)
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
			t.Fatalf("step %d: the owner is %v, and the epoch was that of %s", step, got, granted[got.Epoch])
		}
	}
}
