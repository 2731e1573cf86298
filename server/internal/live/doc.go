// Package live passes live streams from their publishers to their viewers.
//
//	web.Handler ─┬▶ Publisher ─▶ feed.Feed ─▶ rendition.Set ─┬▶ fanout ─▶ viewers, other nodes
//	rtmp.Conn ───┤                                           ├▶ rendition.FragmentReader ─▶ hlslive.Window ─▶ HLS ─▶ requests
//	Peers.Pull ──┘                                           └▶ rendition.FragmentReader ─▶ Recorder
//
// A [Hub] knows the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes.
// Package feed turns the tags into frames, package rendition keeps the frames in each format, and
// package fanout writes them to viewers. A [Viewer] describes a client that watches a stream. The
// viewer's transport, a [fanout.Viewer], holds the client's position in the stream.
//
// An FLV stream may have several publishers, one after another. A claim (claim.go) represents one
// publisher of a stream. A registrar (handover.go) decides which claim has the stream.
//
// HLS players are not viewers: they only send requests. Package hlslive makes the HLS playlists and
// segments. The file hls.go decides for which streams HLS is made, and for how long.
//
// In a cluster (ownership.go, peers.go) the node with a stream's publisher owns the stream and has
// a [Lease] for it. Only the owner records the stream, makes the stream's HLS, and sends the stream
// to other nodes. While the owner's lease is not current, the owner sends nothing to other nodes. A
// node that has only viewers of the stream reads the stream from the owner with [Peers.Pull], over
// one connection (pull.go). When a node loses the ownership ([Peers.Lost]), its viewers stay
// connected, and the node pulls the stream from the new owner. Package cluster determines the owner
// of a stream. This package calls package cluster through the interface [Cluster].
//
// Each protocol has its own package: web for HTTP, rtmp for RTMP. To publish, such a package calls
// [Hub.Open], [Publisher.Run] and [Publisher.Answered]. It passes Run a function that calls
// WriteTag or ReadBody until the context of [Publisher.Lifetime] ends. Package ingest reads the
// connections of publishers. To watch, the package calls [Admission.Admit], which reserves a place
// within the limits on viewers and waits for the stream. It then calls [Viewer.Connect], appends
// the head of its response to the transport, and calls [Admission.Start] with a function that reads
// from the client. If the package does not serve the viewer, it releases the place with
// [Viewer.Decline] instead.
//
// The types form four levels. Each type calls only types of lower levels. The highest level has
// [HLS], [Peers], [Operator], [MemorySteps] and [Admission], which other packages call. The second
// level has Publisher and registrar, the third has Hub, and the lowest has stream, claim and
// Viewer. A stream and a claim do not know the types above them.
//
// The package knows nothing about routes (package server) or about permissions to publish or watch
// (package access).
package live
