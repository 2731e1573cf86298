// Package live passes live streams from their publishers to their viewers.
//
//	web.Handler ─┬▶ Publisher ─▶ feed.Feed ─▶ rendition.Set ─┬▶ fanout ─▶ viewers, other nodes
//	rtmp.Conn ───┤                                           ├▶ rendition.FragmentReader ─▶ hlslive.Window ─▶ HLS ─▶ requests
//	Peers.Pull ──┘                                           └▶ rendition.FragmentReader ─▶ Recorder
//
// A [Hub] holds the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes.
// Package feed turns the tags into frames, package rendition keeps the frames in each format, and
// package fanout writes them to viewers. A [Viewer] is a client that watches a stream. Its
// transport, a [fanout.Viewer], holds its position in the stream.
//
// An FLV stream may have several publishers, one after another. A claim (claim.go) represents one
// publisher. A registrar (handover.go) decides which claim has the stream.
//
// HLS players are not viewers: they only send requests. Package hlslive makes the HLS playlists and
// segments. The file hls.go decides for which streams, and for how long.
//
// In a cluster (ownership.go, peers.go) the node with a stream's publisher owns the stream and has
// a [Lease] for it. Only the owner records the stream, makes its HLS, and sends it to other nodes.
// A node that has only viewers reads the stream from the owner with [Peers.Pull] (pull.go). When a
// node loses the ownership ([Peers.Lost]), its viewers stay connected, and the node pulls the
// stream from the new owner. The interface [Cluster], which package cluster implements, determines
// the owner.
//
// Packages web (HTTP) and rtmp call this package. To publish, they call [Hub.Open], [Publisher.Run]
// and [Publisher.Answered]. They pass Run a function that calls WriteTag or ReadBody until the
// context of [Publisher.Lifetime] ends. To watch, they call [Admission.Admit] and [Viewer.Connect],
// append the head of the response to the transport, and call [Admission.Start].
//
// The types form four levels. Each type calls only types of lower levels. The highest level has
// [HLS], [Peers], [Operator], [MemorySteps] and [Admission], which other packages call. The second
// level has Publisher and registrar, the third has Hub, and the lowest has stream, claim and
// Viewer.
//
// The package knows nothing about routes (package server) or permissions (package access).
//
// A quarter of the code changes the publisher of a stream, at this node or to another node:
// handover.go, pull.go, ownership.go, peers.go and claim.go.
package live
