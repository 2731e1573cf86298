// Package cluster makes several servers act as one. Any node accepts a publisher, and any node
// serves a viewer.
//
//	live.Hub  ── Claim, Want, Lease ──▶ Node ── Claim, Renew, Lookup, Watch ──▶ Directory (Redis)
//	live.Peers ◀─ Lost, Pull, Wanted ── Node
//	server     ── Get, Load ───────────▶ RemoteHLS ─┬▶ Node: who is the owner?
//	                                                ├▶ Objects ── HTTP ──▶ the owner's server
//	                                                └▶ Segments
//	live.Hub  ── Save, LoadState ─────▶ Segments ──▶ Redis
//
// The node with a stream's publisher owns the stream. A [Directory] records the owner and numbers
// the ownerships of a stream. The number is called the epoch. It is greater than all earlier epochs
// of the stream. directory.go has the contract of every kind of directory, and event.go has the
// messages between nodes. redis.go has the only kind of directory so far.
//
// A [Node] is this server as a member of the cluster. It consists of the following parts. Each part
// uses only parts that come later in this list. pull.go pulls the streams that viewers want here.
// finder.go finds the owner of a stream. lease.go keeps this node's leases. owner.go remembers the
// owners of other nodes' streams. peers.go records which nodes are alive. client.go calls the
// directory and records whether it answers. The hub holds its own lock when it calls the Node. A
// Node therefore holds no lock when it calls its hub.
//
// HLS is not pulled. Instead a [RemoteHLS] (remotehls.go) sends a player's request to the owner.
// [Objects] (objects.go) fetches each object once for all waiting requests. [Segments]
// (segments.go) stores recent segments in Redis for the players of a dead node (segments_redis.go).
// Objects and Segments do not depend on Node.
//
// The package knows nothing about routes or media; see packages server and live. It is large
// because it combines four things that fail in different ways: Redis, this node's leases, the
// answers of other nodes, and the store of segments, which outlives a node.
package cluster
