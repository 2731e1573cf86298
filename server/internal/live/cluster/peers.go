package cluster

import (
	"maps"
	"slices"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// peerRounds is the number of renewal rounds for which a node may be silent before it counts as
// dead. These rounds take as long as three leases (see attempts).
const peerRounds = 3 * attempts

const (
	// maxPeers limits the list of other nodes. The limit is needed because the operator's page
	// sends a request to each node of the list.
	maxPeers = maxKnown / 2
	// maxUnproven limits the nodes that have not proved that they know the cluster's token. The
	// limit is needed because everyone who can publish in Redis can announce nodes that do not
	// exist.
	maxUnproven = 32
)

// A peerTable records which other nodes are alive. Its methods may be called from any goroutine.
type peerTable struct {
	secret *Secret

	mu lock.Mutex
	// round counts the renewals of this node's leases. If another node has been silent for too many
	// rounds, that node counts as dead.
	//
	// The nodes announce that they are alive through the cluster's directory. While the directory
	// cannot be reached, renewals are therefore not counted.
	round int64
	nodes map[string]int64 // for each node, the round in which it was last heard; at most maxPeers
}

// markAlive records that a node has announced that it is alive. If there are already maxUnproven
// nodes that have not proved that they know the cluster's token, the new node replaces one of them.
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

// nextRound counts a renewal of this node's leases, and forgets the nodes that have been silent for
// more than peerRounds renewals. It is called only while the cluster's directory can be reached.
func (p *peerTable) nextRound() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	maps.DeleteFunc(p.nodes, func(_ string, heard int64) bool { return p.round-heard > peerRounds })
}

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
