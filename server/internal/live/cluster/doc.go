// Package cluster lets several servers be one: any node takes a publisher, and any node serves a
// viewer.
//
//	live.Hub  ── Claim, Want, Lease ──▶ Node ── Claim, Renew, Lookup, Watch ──▶ Directory (Redis)
//	live.Peers ◀─ Lost, Pull, Wanted ── Node
//	server     ── Get, Load ───────────▶ RemoteHLS ─┬▶ Node: who is the owner?
//	                                                ├▶ Objects ── HTTP ──▶ the owner's server
//	                                                └▶ Segments
//	live.Hub  ── Save, LoadState ─────▶ Segments ──▶ Redis
//
// The node with a stream's publisher owns the stream. A [Directory] records the owner and numbers
// the ownerships: an epoch is greater than all earlier epochs of the stream. directory.go states
// what every engine promises, and event.go has the messages between nodes. redis.go is the only
// engine so far.
//
// A [Node] is this server. It makes these parts; each uses only later ones: pull.go pulls the
// streams that viewers want here, finder.go finds the owner of a stream, lease.go keeps this node's
// leases, owner.go remembers other nodes' streams, peers.go knows which nodes are alive, and
// client.go calls the directory and knows whether it answers. A Node calls its hub without holding
// a lock; the hub calls the Node with its own lock held.
//
// HLS is not pulled. A [RemoteHLS] (remotehls.go) sends a player's request to the owner. [Objects]
// (objects.go) fetch each object once for all waiting requests. [Segments] (segments.go) store
// recent segments in Redis for the players of a dead node (segments_redis.go). Neither of them
// knows Nodes.
//
// The package knows no routes and no media: see packages server and live. It is large because it
// combines four things with different failures: Redis, this node's leases, answers of other nodes,
// and the store that outlives a node.
package cluster
