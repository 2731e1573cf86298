package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A fault is a kind of failure. The function begin makes it happen and returns a function that ends
// it, or nil if it cannot happen now.
type fault struct {
	name   string
	ofNode bool // a node ends, and nothing else happens
	begin  func(w *world, d *disruption) (end func())
}

// A disruption is one failure of a kind.
type disruption struct {
	random *rand.Rand
	busy   *busySet
}

// A busySet has the names of the hosts that a fault affects, so that two faults do not undo each
// other.
type busySet struct {
	mu    sync.Mutex
	names []string
}

// take adds names to the set. It returns nil if the set has one of them.
func (b *busySet) take(names ...string) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		if slices.Contains(b.names, name) {
			return nil
		}
	}
	b.names = append(b.names, names...)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.names = slices.DeleteFunc(b.names, func(n string) bool { return slices.Contains(names, n) })
	}
}

// node chooses a node that no fault affects. leave is nil if there is none.
func (d *disruption) node(w *world) (n *Node, leave func()) {
	n = w.nodes[d.random.IntN(len(w.nodes))]
	leave = d.busy.take(n.host.name)
	if leave == nil {
		return nil, nil
	}
	over, overItself := w.disturb(n.host.name), w.disturb(n.host.name+itself)
	release := leave
	return n, func() { over(); overItself(); release() }
}

func onNode(f func(w *world, d *disruption, n *Node) (end func())) func(*world,
	*disruption) func() {
	return func(w *world, d *disruption) func() {
		n, leave := d.node(w)
		if n == nil {
			return nil
		}
		end := f(w, d, n)
		return func() { end(); leave() }
	}
}

func onRedis(f func(w *world, d *disruption) (end func())) func(*world, *disruption) func() {
	return func(w *world, d *disruption) func() {
		leave := d.busy.take("redis")
		if leave == nil {
			return nil
		}
		over := w.disturb("redis")
		end := f(w, d)
		return func() { end(); over(); leave() }
	}
}

func (w *world) restart(n *Node) {
	w.check.nodeStarted(n.host.name)
	if err := n.Start(); err != nil {
		w.check.fail("%s does not start: %v", n.host.name, err)
	}
}

// cut cuts the links between two hosts: both, or one of them.
func (d *disruption) cut(w *world, a, b string) (mend func()) {
	there, back := true, true
	switch d.random.IntN(4) {
	case 0:
		there = false
	case 1:
		back = false
	}
	w.book.addf("world", "cut %s to %s: %v, back: %v", a, b, there, back)
	w.net.Cut(a, b, there)
	w.net.Cut(b, a, back)
	return func() {
		w.net.Cut(a, b, false)
		w.net.Cut(b, a, false)
	}
}

var faults = []fault{
	{"a node is killed", true, onNode(func(w *world, _ *disruption, n *Node) func() {
		n.Kill()
		return func() { w.restart(n) }
	})},
	{"a node loses its power", true, onNode(func(w *world, _ *disruption, n *Node) func() {
		n.PowerOff()
		return func() {
			n.host.PowerOn()
			w.restart(n)
		}
	})},
	{"a node is suspended", false, onNode(func(w *world, _ *disruption, n *Node) func() {
		p, over := n.Process(), w.disturb("redis")
		p.Pause(true)
		return func() { p.Pause(false); over() }
	})},
	{"a node shuts down", true, onNode(func(w *world, _ *disruption, n *Node) func() {
		n.Stop()
		return func() { w.restart(n) }
	})},
	{"a node is upgraded", true, onNode(func(w *world, _ *disruption, n *Node) func() {
		n.Stop()
		w.restart(n)
		return func() {}
	})},
	{"two nodes lose each other", false, func(w *world, d *disruption) func() {
		a := d.random.IntN(len(w.names))
		b := (a + 1 + d.random.IntN(len(w.names)-1)) % len(w.names)
		leave := d.busy.take("between nodes")
		if leave == nil {
			return nil
		}
		overA, overB := w.disturb(w.names[a]), w.disturb(w.names[b])
		over := w.disturb("between nodes")
		mend := d.cut(w, w.names[a], w.names[b])
		return func() { mend(); overA(); overB(); over(); leave() }
	}},
	{"connections between two nodes break", false, func(w *world, d *disruption) func() {
		a := d.random.IntN(len(w.names))
		w.net.Reset(w.names[a], w.names[(a+1)%len(w.names)])
		return w.disturb("between nodes")
	}},
	{"connections of a client break", false, func(w *world, d *disruption) func() {
		client := []string{"encoder", "player"}[d.random.IntN(2)]
		w.net.Reset(client, w.names[d.random.IntN(len(w.names))])
		return func() {}
	}},
	{"a link is slow", false, func(w *world, d *disruption) func() {
		a := d.random.IntN(len(w.names))
		from, to := w.names[a], w.names[(a+1)%len(w.names)]
		over := w.disturb("between nodes")
		w.net.Slow(from, to, time.Duration(50+d.random.IntN(400))*time.Millisecond)
		return func() { w.net.Slow(from, to, 2*time.Millisecond); over() }
	}},
	{"a node loses Redis", false, func(w *world, d *disruption) func() {
		node := w.names[d.random.IntN(len(w.names))]
		leave := d.busy.take(node + " to redis")
		if leave == nil {
			return nil
		}
		over, overStore := w.disturb(node), w.disturb("redis")
		mend := d.cut(w, node, "redis")
		return func() { mend(); over(); overStore(); leave() }
	}},
	{"Redis is unreachable", false, onRedis(func(w *world, _ *disruption) func() {
		w.redis.Stop()
		return w.redis.Start
	})},
	{"Redis restarts empty", false, onRedis(func(w *world, d *disruption) func() {
		w.redis.Stop()
		w.redis.Wipe()
		w.check.dataLost()
		wait := time.Duration(d.random.IntN(2000)) * time.Millisecond
		time.Sleep(wait)
		w.redis.Start()
		return func() {}
	})},
	{"Redis fails over", false, onRedis(func(w *world, d *disruption) func() {
		w.redis.Stop()
		time.Sleep(time.Duration(d.random.IntN(2000)) * time.Millisecond)
		back := w.redis.FailOver(time.Duration(d.random.IntN(2000))*time.Millisecond,
			time.Duration(d.random.IntN(2000)-1000)*time.Millisecond)
		w.check.dataLost()
		w.check.clockWentBack(back)
		w.redis.Start()
		return func() {}
	})},
	{"Redis is slow", false, onRedis(func(w *world, d *disruption) func() {
		w.redis.SetDelay(time.Duration(20+d.random.IntN(1200)) * time.Millisecond)
		return func() { w.redis.SetDelay(0) }
	})},
	{"events are lost", false, onRedis(func(w *world, _ *disruption) func() {
		w.redis.SetLossy(true)
		return func() {
			w.redis.SetLossy(false)
			w.redis.DropSubscribers() // as Redis does with subscribers that are too slow
		}
	})},
}

// disrupt lets faults happen until a time after the start of the history.
func (w *world) disrupt(random *rand.Rand, until time.Duration) {
	var running sync.WaitGroup
	busy := new(busySet)
	end := w.book.start.Add(until)
	for {
		left := time.Until(end)
		if left < time.Second {
			break
		}
		f := &faults[random.IntN(len(faults))]
		lasts := time.Duration(300+random.IntN(8000)) * time.Millisecond
		if random.IntN(5) == 0 {
			lasts += lease // other nodes then act without the lease
		}
		lasts = min(lasts, left-500*time.Millisecond)
		d := &disruption{rand.New(rand.NewPCG(random.Uint64(), 4)), busy}
		running.Go(func() {
			w.book.addf("world", "%s, for %v", f.name, lasts)
			over := func() {}
			if !f.ofNode {
				over = w.disturb("more than a node")
			}
			defer over()
			stop := f.begin(w, d)
			if stop == nil {
				w.book.addf("world", "%s: not now", f.name)
				return
			}
			w.mu.Lock()
			w.events[f.name]++
			w.mu.Unlock()
			time.Sleep(min(lasts, time.Until(end)))
			stop()
			w.book.addf("world", "%s: over", f.name)
		})
		time.Sleep(time.Duration(300+random.IntN(3000)) * time.Millisecond)
	}
	running.Wait()
	time.Sleep(time.Until(end))
}
