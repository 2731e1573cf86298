// Package live hands live streams from their publishers to their viewers.
//
//	web.Handler ─┬▶ Publisher ─▶ feed.Feed ─▶ rendition.Set ─┬▶ fanout ─▶ viewers, other nodes
//	rtmp.Conn ───┤                                           ├▶ rendition.FragmentReader ─▶ hlslive.Window ─▶ HLS ─▶ requests
//	Peers.Pull ──┘                                           └▶ rendition.FragmentReader ─▶ Recorder
//
// A [Hub] knows the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes.
// One publisher after the other may feed a stream of FLV: a registrar (handover.go) decides when
// the next one comes, and the stream sees each as a claim. Package feed makes frames of the tags,
// package rendition keeps the frames in each format, and package fanout writes them to viewers. A
// [Viewer] knows who watches; its transport, a [fanout.Viewer], knows how far the client has got.
//
// HLS has no viewers here, only requests. Package hlslive makes it; hls.go says which streams have
// HLS, and for how long.
//
// In a cluster (ownership.go, peers.go) the node with a stream's publisher owns the stream and has
// a [Lease]. Only the owner records the stream, makes its HLS, and sends it to other nodes, which
// get nothing while the lease is not current. A node that only has viewers feeds the stream with
// [Peers.Pull], over one connection to the owner (pull.go). When a node loses the ownership
// ([Peers.Lost]), its stream and viewers stay and wait for the pull. Package cluster decides who
// owns a stream; this package obeys ([Cluster]).
//
// Each protocol has its own package: web for HTTP, rtmp for RTMP. To publish, it calls [Hub.Open],
// [Publisher.Run] with a function that calls WriteTag or ReadBody until [Publisher.Lifetime] ends,
// and Answered. Package ingest reads the connections. To watch, it calls [Admission.Admit], which
// takes a place of the viewers' limit and waits for the stream. Then it calls [Viewer.Connect],
// appends the head of its response to the transport, and calls [Admission.Start] with a function
// that reads from the client. Or it gives the place back with [Viewer.Decline].
//
// The types call each other downwards: [HLS], [Peers], [Operator], [MemorySteps] and [Admission],
// which other packages call; then Publisher and registrar; Hub; stream, claim and Viewer. A stream
// and a claim know nothing above them.
//
// The package knows nothing of routes (package server) and of who may publish or watch (package
// access).
package live
