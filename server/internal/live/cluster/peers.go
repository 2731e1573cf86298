package cluster

import (
	"maps"
	"slices"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// peerRounds is how many rounds of renewal a node may be silent before it counts as dead. These are
// the rounds of three leases.
const peerRounds = 3 * attempts

const (
	// maxPeers limits the list of other nodes, because the operator's page sends a request to each
	// of them. A Secret remembers twice as many nodes.
	maxPeers = maxKnown / 2
	// maxUnproven limits the nodes that have not proved to know the secret. The limit is needed
	// because everyone who can publish in Redis can invent nodes.
	maxUnproven = 32
)

// A peerTable records which other nodes are alive. Its methods may be called from any goroutine.
type peerTable struct {
	secret *Secret

	mu lock.Mutex
	// Counts the rounds of renewal in which the directory was reachable. Other rounds do not count,
	// because no node can be heard in them.
	round int64
	nodes map[string]int64 // for each node, the round in which it was last heard; at most maxPeers
}

// markAlive records an announcement that node is alive. If there are too many nodes that have not
// proved to know the secret, a new node replaces one of these.
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

// nextRound begins a round. It is called only while the directory is reachable. It forgets the
// nodes that have been silent for too long.
func (p *peerTable) nextRound() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	maps.DeleteFunc(p.nodes, func(_ string, heard int64) bool { return p.round-heard > peerRounds })
}

// list returns the addresses of the nodes that are alive, sorted.
func (p *peerTable) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.nodes))
}

func (p *peerTable) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.nodes)
}
