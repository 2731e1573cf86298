// Package cluster makes several servers act as one. Any node accepts a publisher, and any node
// serves a viewer.
//
// The node with a stream's publisher owns the stream. A [Directory] records the owner of each
// stream. Each ownership has a number, the epoch, which is greater than all earlier epochs of the
// stream. The only Directory so far is in redis.go.
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
// HLS is not pulled. Instead a [RemoteHLS] sends a player's request to the owner of the stream.
// [Objects] fetches each HLS object once for all waiting requests. [Segments] stores recent
// segments in Redis, so that they outlive their node. Objects and Segments do not depend on Node.
//
// The package knows nothing about routes (package server) or media (package live).
//
// A third of the code serves the HLS of other nodes' streams, because players may ask any node.
package cluster
