// Package cluster lets several servers be one: any node takes a publisher, and any node serves a viewer.
//
//	live.Hub  ── Claim, Want, Lease ──▶ Node ── Claim, Renew, Lookup, Watch ──▶ Directory (Redis)
//	live.Peers ◀─ Lost, Pull, Wanted ── Node
//	server     ── Get, Load ───────────▶ RemoteHLS ─┬▶ Node: who is the owner?
//	                                                ├▶ Objects ── HTTP ──▶ the owner's server
//	                                                └▶ Segments
//	live.Hub  ── Save, LoadState ─────▶ Segments ──▶ Redis
//
// The node that has a stream's publisher owns the stream. A [Directory] says which node that is, and numbers the
// ownerships: an epoch is greater than all before it. directory.go has what every engine promises, and event.go what
// nodes tell each other through it. redis.go is the only engine so far.
//
// A [Node] is this server. It makes these parts, of which each uses those behind it: pull.go has the hub get from other nodes
// what viewers want here, finder.go finds the owner of a stream, lease.go keeps what this node owns, owner.go knows what
// other nodes own, peers.go knows which nodes are alive, and client.go calls the directory and knows whether it answers. A
// Node calls its hub while it holds no lock; the hub calls the Node with its own lock held.
//
// HLS is not pulled: a player's request goes to the owner, by a [RemoteHLS] (remotehls.go). [Objects] (objects.go) fetch each
// thing once for all who wait. [Segments] (segments.go) keep what players still want after their stream's node has died, in
// Redis (segments_redis.go). Neither of them knows Nodes.
//
// The package knows no routes and no media: see packages server and live. It is as large as it is because it holds four
// things that fail in their own ways: Redis, this node's ownerships, answers of other nodes, and what outlives a node.
package cluster
