package cluster

import (
	"maps"
	"slices"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// peerRounds is for how many rounds a node that is not heard is taken for alive: three leases.
const peerRounds = 3 * attempts

const (
	// maxPeers bounds the list of nodes, all of which a page asks. A Secret knows twice as many.
	maxPeers = maxKnown / 2
	// maxUnproven limits the nodes without a proof: everyone who can publish in Redis can invent
	// nodes.
	maxUnproven = 32
)

// A peerTable knows which other nodes are alive. Its methods are for any goroutine.
type peerTable struct {
	secret *Secret

	mu lock.Mutex
	// Counts renewals before which the directory was reachable: peers do not age while it is not.
	round int64
	nodes map[string]int64 // the round in which each was heard last; at most maxPeers
}

// markAlive notes that a node says to be alive. One that has not proved to be a node gives way to a
// new one if there are too many of such.
func (p *peerTable) markAlive(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.nodes[node]; !known {
		unproven, last := 0, ""
		for peer := range p.nodes {
			if !p.secret.Proven(peer) {
				unproven, last = unproven+1, peer
			}
		}
		switch {
		case unproven >= maxUnproven:
			delete(p.nodes, last)
		case len(p.nodes) >= maxPeers:
			return
		}
	}
	p.nodes[node] = p.round
}

// nextRound begins a round in which the directory is reachable, and forgets the nodes that are
// gone.
func (p *peerTable) nextRound() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	maps.DeleteFunc(p.nodes, func(_ string, heard int64) bool { return p.round-heard > peerRounds })
}

// list returns the addresses of the nodes.
func (p *peerTable) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.nodes))
}

// count returns how many nodes are alive.
func (p *peerTable) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.nodes)
}
