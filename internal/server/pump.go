package server

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// inspectEvery is how often the viewers that are not keeping up are looked at. Lag is allowed by the second.
const inspectEvery = 250 * time.Millisecond

// A pump writes to the healthy viewers of an outlet, all of them from one goroutine: a viewer's share of the work is
// one system call that does not wait, and waking a goroutine for it would cost a quarter more. A viewer whose socket is
// full is driven by a goroutine of its own until it has caught up; meanwhile the pump watches how far behind it is.
//
// The goroutine runs while there are viewers. Where they are few, whoever feeds the stream writes to them instead, because
// waking the pump would cost as much as writing to one of them.
type pump struct {
	out   *outlet
	count atomic.Int32 // viewers that belong to this pump

	// As of the last inspection.
	lag    atomic.Int64 // of the viewer that is furthest behind, in nanoseconds
	behind atomic.Int32 // viewers that were over their allowance and have not caught up

	blocked atomic.Int32 // viewers driven by goroutines of their own at present

	mu      sync.Mutex
	inbox   []message
	running bool
	wake    chan struct{} // has room for one signal: there is something in inbox
	news    chan struct{} // likewise: there is something in the ring

	// driving is held by the goroutine while it works, and by whoever works in its place. It guards the rest.
	driving sync.Mutex
	healthy []*viewer // driven by the pump
	away    []*viewer // driven by others
	vec     *vector
	spare   []message
}

// A message tells a pump about a viewer.
type message struct {
	about *viewer
	what  event
}

type event uint8

const (
	joins   event = iota // the viewer is new, and driven by a goroutine of its own
	returns              // it has caught up, and is the pump's to drive
	leaves               // it is finished
	hangsUp              // it has ended, and is still among those that the pump drives, or was
)

func newPump(o *outlet) *pump {
	return &pump{out: o, wake: make(chan struct{}, 1), news: make(chan struct{}, 1)}
}

// tell leaves a message, and starts the pump if it is not running.
func (p *pump) tell(m message) {
	p.mu.Lock()
	p.inbox = append(p.inbox, m)
	start := !p.running
	p.running = true
	p.mu.Unlock()
	if start {
		go p.run()
		return
	}
	signal(p.wake)
}

func (p *pump) run() {
	for resting := false; !resting; resting = p.rest() {
		p.serve()
	}
}

// rest ends the goroutine's work, unless somebody has left a message since.
func (p *pump) rest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = len(p.inbox) > 0
	return !p.running
}

// serve works until there are neither viewers nor messages.
func (p *pump) serve() {
	p.driving.Lock()
	defer p.driving.Unlock()
	defer p.contain()
	p.vec = vectors.Get().(*vector)
	defer p.putVector()
	tick := time.NewTimer(inspectEvery)
	defer tick.Stop()
	for ticking := true; p.listen(); {
		if !ticking && len(p.away) > 0 {
			tick.Reset(inspectEvery)
			ticking = true
		}
		switch p.await(tick.C) {
		case published:
			p.round()
		case timeToInspect:
			p.inspect()
			ticking = false
		}
	}
}

// An occasion is why the goroutine goes on.
type occasion uint8

const (
	published     occasion = iota // there is something in the ring
	addressed                     // there is something in the inbox
	timeToInspect                 // the viewers that are away
)

// await waits for something to do. Meanwhile others may work in the goroutine's place.
func (p *pump) await(tick <-chan time.Time) occasion {
	p.driving.Unlock()
	defer p.driving.Lock()
	select {
	case <-p.news:
		return published
	case <-p.wake:
		return addressed
	case <-tick:
		return timeToInspect
	}
}

// fewViewers is the largest number of viewers that whoever feeds the stream writes to. Writing to that many takes about
// 150 µs, during which nothing is read from the publisher.
const fewViewers = 16

// roundHere is round in the caller's goroutine. It returns false, and has done nothing, if that would keep the caller too
// long, or if the pump is at work or at rest.
func (p *pump) roundHere() bool {
	if p.count.Load() > fewViewers || !p.driving.TryLock() {
		return false
	}
	defer p.driving.Unlock()
	if p.vec == nil {
		return false
	}
	defer p.contain()
	before := len(p.away)
	p.round()
	if before == 0 && len(p.away) > 0 {
		signal(p.wake) // they have to be inspected from time to time
	}
	return true
}

// listen does what the messages say. It returns false when there is nobody left.
func (p *pump) listen() bool {
	p.mu.Lock()
	if len(p.inbox) == 0 && len(p.healthy)+len(p.away) == 0 {
		p.mu.Unlock()
		return false
	}
	list := p.inbox
	p.inbox = p.spare[:0]
	p.mu.Unlock()

	sweep := false
	for _, m := range list {
		switch m.what {
		case joins:
			p.away = append(p.away, m.about)
		case returns:
			p.away = without(p.away, m.about)
			if p.send(m.about) {
				p.healthy = append(p.healthy, m.about)
			}
		case leaves:
			p.away = without(p.away, m.about)
		case hangsUp:
			sweep = true
		}
	}
	clear(list)
	p.spare = list[:0]
	p.blocked.Store(int32(len(p.away)))
	if sweep {
		p.keep(func(v *viewer) bool { return !v.over() || p.drop(v) })
	}
	p.vec.flush(p.out)
	return true
}

// round sends what is new to every healthy viewer.
func (p *pump) round() {
	p.keep(p.send)
	p.blocked.Store(int32(len(p.away)))
	p.vec.flush(p.out)
}

// keep calls f for every healthy viewer, and strikes off the list those for which f returns false.
func (p *pump) keep(f func(*viewer) bool) {
	n := 0
	for i, v := range p.healthy {
		if f(v) {
			if n != i {
				p.healthy[n] = v
			}
			n++
		}
	}
	clear(p.healthy[n:])
	p.healthy = p.healthy[:n]
}

// send sends to a viewer what is new. It returns false if v is no longer the pump's to drive: it is finished, or it cannot
// take all of it now.
func (p *pump) send(v *viewer) bool {
	switch v.step(p.vec) {
	case caughtUp:
		return true
	case full:
		v.wait(now())
		p.away = append(p.away, v)
		go v.chase()
		return false
	default:
		return p.drop(v)
	}
}

// drop finishes a healthy viewer. It returns false, for keep.
func (p *pump) drop(v *viewer) bool {
	v.finish()
	return false
}

// inspect looks at the viewers that are not keeping up.
func (p *pump) inspect() {
	at, head := now(), p.out.ring.Stats().Published
	worst, behind := int64(0), int32(0)
	for _, v := range p.away {
		worst = max(worst, v.inspect(at, head))
		if v.behind.Load() {
			behind++
		}
	}
	p.lag.Store(worst)
	p.behind.Store(behind)
}

func (p *pump) putVector() {
	p.vec.flush(p.out)
	vectors.Put(p.vec)
	p.vec = nil // at rest
}

// contain keeps a mistake in here from taking other streams down: this pump's viewers are disconnected, and the next
// one that joins finds the pump as new.
func (p *pump) contain() {
	cause := recover()
	if cause == nil {
		return
	}
	p.out.stream.log.Error("pump failed, its viewers are disconnected", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	for _, v := range p.away {
		v.end(broken)
	}
	for _, v := range p.healthy {
		if !slices.Contains(p.away, v) { // or it was given to a goroutine of its own in the round that failed
			v.abandon()
		}
	}
	p.healthy, p.away, p.spare = nil, nil, nil
}

// without returns list without v, in another order.
func without(list []*viewer, v *viewer) []*viewer {
	for i := range list {
		if list[i] == v {
			last := len(list) - 1
			list[i], list[last] = list[last], nil
			return list[:last]
		}
	}
	return list
}
