package soakcluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// events are what happened to the nodes.
type events struct {
	mu   sync.Mutex
	list []event
}

type event struct {
	at   time.Time
	node int
	what string
}

func (e *events) add(node int, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event{time.Now(), node, what})
}

// find returns the last event from one time to another to which f applies.
func (e *events) find(from, to time.Time, f func(event) bool) (ev event, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.list) - 1; i >= 0 && !e.list[i].at.Before(from); i-- {
		if ev := e.list[i]; !ev.at.After(to) && f(ev) {
			return ev, true
		}
	}
	return event{}, false
}

// failed reports whether one of the nodes failed or was replaced, from one time to another. The
// number -1 stands for an unknown node.
func (e *events) failed(from, to time.Time, nodes ...int) bool {
	_, ok := e.find(from, to, func(ev event) bool {
		if ev.what == "lost" {
			return false
		}
		for _, n := range nodes {
			if n == ev.node || n < 0 && ev.node != redisNode {
				return true
			}
		}
		return false
	})
	return ok
}

// redisNode is the number of Redis in events.
const redisNode = numNodes

// redisFailed reports whether Redis failed over since a certain time. A node that becomes the owner
// of a stream then may not learn what the playlist of the previous owner contains. Its players have
// to start again.
func (e *events) redisFailed(since time.Time) bool {
	_, ok := e.find(since, time.Now(), func(ev event) bool { return ev.node == redisNode })
	return ok
}

// fail kills and upgrades nodes and makes Redis fail over, until the run is nearly over or a fault
// is found.
func (r *run) fail(ctx context.Context) {
	rnd := rand.New(rand.NewPCG(r.cfg.Seed, 1))
	end := r.began.Add(r.cfg.For - rest)
	type failure struct {
		name  string
		every time.Duration
		next  time.Time
		run   func(n *node) error
	}
	first := func(every time.Duration) time.Time { return time.Now().Add(every) }
	all := []*failure{
		{"kills", r.cfg.Kill, first(r.cfg.Kill), func(n *node) error {
			return n.kill(ctx, time.Duration(rnd.Int64N(int64(3*time.Second))))
		}},
		{"upgrades", r.cfg.Upgrade, first(r.cfg.Upgrade),
			func(n *node) error { return n.upgrade(ctx) }},
		{"failovers of Redis", r.cfg.Failover, first(r.cfg.Failover),
			func(*node) error {
				defer r.events.add(redisNode, "failed over")
				r.events.add(redisNode, "fails over")
				return r.site.failover(ctx)
			}},
	}
	for ctx.Err() == nil && time.Now().Before(end) {
		for _, f := range all {
			if f.every == 0 || time.Now().Before(f.next) {
				continue
			}
			n := r.site.nodes[rnd.IntN(numNodes)]
			if err := f.run(n); err != nil && ctx.Err() == nil {
				r.faults.add("%s: %v", f.name, err)
			}
			r.done.add("failures", f.name, 1)
			f.next = time.Now().Add(f.every)
		}
		select {
		case <-r.faults.any:
			return
		default:
			sleep.For(ctx, 100*time.Millisecond)
		}
	}
}

// A gap is a number of tags that a viewer did not get.
type gap struct {
	since    time.Time // arrival of the last tag before the gap
	at       time.Time
	lost     uint64
	of       string
	from, to int // the nodes of the publisher and of the viewer; -1: unknown
}

// judgeGaps records a fault for each gap that neither a failure of a node explains nor a counter of
// the server.
func (r *run) judgeGaps() {
	for _, s := range r.streams {
		for _, g := range s.gaps {
			from := g.since.Add(-rest)
			_, counted := r.events.find(from, g.at.Add(3*time.Second),
				func(e event) bool { return e.what == "lost" })
			switch {
			case r.events.failed(from, g.at, g.from, g.to):
				r.done.add(g.of, "lost after a failure", int64(g.lost))
			case counted:
				r.done.add(g.of, "lost and counted", int64(g.lost))
			default:
				r.faults.add("%s", fmt.Sprintf("%s: stream %s, at node %d, published at %d: %d tags "+
					"were lost before %s", g.of, s.name, g.to, g.from, g.lost,
					g.at.UTC().Format("15:04:05.000")))
			}
		}
	}
}
