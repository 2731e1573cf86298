// Package cluster makes several servers act as one. Any node accepts a publisher, and any node
// serves a viewer.
//
// The node with a stream's publisher owns the stream. A [Directory] records the owner of each
// stream. Each time that a node becomes the owner of a stream, the Directory gives this ownership a
// number, which is called the epoch. The epoch is greater than all earlier epochs of the stream.
// directory.go has the contract of a Directory, and event.go has the messages between nodes.
// redis.go has the only Directory so far.
//
// This diagram shows which type calls which:
//
//	live.Hub ──▶ Node ──▶ Directory (Redis)
//	live.Hub ◀── Node, through live.Peers
//	server   ──▶ RemoteHLS ─┬▶ Node: which node is the owner?
//	                        ├▶ Objects ── HTTP ──▶ the owner's server
//	                        └▶ Segments
//	live.Hub ──▶ Segments ──▶ Redis
//
// A [Node] is this server as a member of the cluster. It consists of the following parts. Each part
// uses only parts that come later in this list:
//   - pull.go pulls a stream from its owner if this node's viewers want the stream.
//   - finder.go finds the owner of a stream.
//   - lease.go keeps this node's leases. A lease is the ownership of a stream for a limited time.
//   - owner.go remembers the owners of other nodes' streams.
//   - peers.go records which nodes are alive.
//   - client.go calls the Directory, and records whether it answers.
//
// The hub holds its own lock when it calls the Node. To avoid a deadlock, the Node holds no lock
// when it calls the hub.
//
// HLS is not pulled. Instead a [RemoteHLS] (remotehls.go) sends a player's request to the owner of
// the stream. [Objects] (objects.go) fetches each HLS object once for all waiting requests.
// [Segments] (segments.go) stores recent segments in Redis (segments_redis.go), so that players can
// still get them after their node has died. Objects and Segments do not depend on Node.
//
// The package knows nothing about routes or media; see packages server and live. It is large
// because it combines four things that fail in different ways: Redis, this node's leases, the
// answers of other nodes, and the store of segments, which outlives a node.
package cluster
