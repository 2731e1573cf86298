package cluster

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// askAgain is the interval at which the puller asks the hub whether a stream without an owner
	// is still wanted.
	askAgain = time.Second
	// pullPause is the pause before the second attempt to read a stream from its owner. The first
	// attempt may come too early, because this node may know the owner before the publisher has
	// sent anything.
	pullPause = 50 * time.Millisecond
)

// A puller reads streams from the nodes that own them, for the viewers at this node. Reading a
// stream from another node is called a pull. The methods of a puller may be called from any
// goroutine.
type puller struct {
	hub       Hub // set before viewers come
	finder    *ownerFinder
	owners    *ownerTable
	source    live.Owner // settings of a pull; Node and Epoch are empty
	self      string
	leaseTime time.Duration
	log       *slog.Logger

	ctx     context.Context
	stop    context.CancelFunc // mu must be held to call it
	running sync.WaitGroup

	mu    lock.Mutex
	pulls map[string]bool // the wanted streams; true while the stream is being pulled
}

func (p *puller) close() {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.running.Wait()
}

func (p *puller) count() (pulled int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, now := range p.pulls {
		if now {
			pulled++
		}
	}
	return pulled
}

// startPull starts to pull a stream, unless p already pulls it or is closed.
func (p *puller) startPull(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, pulled := p.pulls[name]; !pulled && p.ctx.Err() == nil {
		p.pulls[name] = false
		p.running.Go(func() { p.pull(name) })
	}
}

// stillWanted reports whether the caller must continue to read a stream from its owner. It returns
// false in three cases:
//   - Viewers no longer want the stream.
//   - p is closed.
//   - startPull has started another goroutine that reads the stream.
func (p *puller) stillWanted(name string) bool {
	p.mu.Lock()
	delete(p.pulls, name) // from now on startPull may start another pull of the stream
	p.mu.Unlock()
	if !p.hub.Wanted(name) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, begun := p.pulls[name]; begun || p.ctx.Err() != nil {
		return false
	}
	p.pulls[name] = false
	return true
}

// pull reads a stream from the node that owns it. When the stream or the connection ends, pull
// pauses and tries again. It returns when viewers no longer want the stream, or when p is closed.
func (p *puller) pull(name string) {
	wait := pullPause
	warned := false
	for p.stillWanted(name) {
		ctx, cancel := context.WithTimeout(p.ctx, askAgain)
		owner, err := p.finder.awaitOwner(ctx, name)
		cancel()
		if err != nil {
			continue
		}
		changed := p.owners.changed(name)
		begun := time.Now()
		if owner.Node != p.self { // otherwise the hub will soon know that this node is the owner
			err = p.pullFrom(name, owner)
			if err != nil {
				p.log.Debug("pulling ended", "stream", name, "node", owner.Node, "epoch",
					owner.Epoch, "err", err)
				p.owners.forget(name, owner.Epoch)
			}
		}
		longest := p.leaseTime / attempts
		switch {
		case time.Since(begun) > p.leaseTime:
			wait, warned = pullPause, false
		case err != nil && wait == longest && !warned && p.ctx.Err() == nil:
			// Pulls have failed for some time.
			warned = true
			p.log.Warn("a stream cannot be pulled from its owner", "stream", name, "node",
				owner.Node, "err", err)
		}
		pause, cancel := context.WithTimeout(p.ctx, wait/2+rand.N(wait))
		select {
		case <-changed: // there may be a new owner, so try at once
			wait = pullPause
		case <-pause.Done():
			wait = min(2*wait, longest)
		}
		cancel()
	}
}

// pullFrom reads a stream from the node that owns it. It returns when the stream or the connection
// ends, or when the stream has a newer owner, with a greater epoch.
func (p *puller) pullFrom(name string, owner Owner) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	p.setPulled(name, true)
	defer p.setPulled(name, false)
	p.running.Go(func() { p.follow(ctx, name, owner.Epoch, cancel) })
	source := p.source
	source.Node, source.Epoch = owner.Node, owner.Epoch
	return p.hub.Pull(ctx, name, source)
}

func (p *puller) setPulled(name string, pulled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulls[name] = pulled
}

// follow calls the function stop when the stream has an owner with a greater epoch than the given
// one. It returns when ctx ends.
func (p *puller) follow(ctx context.Context, name string, epoch uint64, stop func()) {
	for ctx.Err() == nil {
		changed := p.owners.changed(name)
		o, err := p.finder.Owner(ctx, name)
		if err == nil && o.Epoch > epoch {
			stop()
		}
		var again <-chan time.Time
		// Ask again if Owner cannot notice a change, or if there is no owner: after an outage, an
		// owner whose lease has expired renews it without an event.
		if err != nil || !p.finder.client.Reachable() {
			again = time.After(p.leaseTime/attempts/2 + rand.N(p.leaseTime/attempts))
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
}
