// Package live passes live streams from their publishers to their viewers.
//
//	web.Handler ─┬▶ Publisher ─▶ feed.Feed ─▶ rendition.Set ─┬▶ fanout ─▶ viewers, other nodes
//	rtmp.Conn ───┤                                           ├▶ rendition.FragmentReader ─▶ hlslive.Window ─▶ HLS ─▶ requests
//	Peers.Pull ──┘                                           └▶ rendition.FragmentReader ─▶ Recorder
//
// A [Hub] knows the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes.
// Package feed turns the tags into frames, package rendition keeps the frames in each format, and
// package fanout writes them to viewers. A [Viewer] knows who watches. Its transport, a
// [fanout.Viewer], knows the client's position in the stream.
//
// A stream of FLV may have one publisher after another. A claim (claim.go) represents one publisher
// of a stream. A registrar (handover.go) decides which claim has the stream.
//
// For HLS, this package has no viewers but only requests. Package hlslive makes the HLS. The file
// hls.go decides which streams have HLS, and for how long.
//
// In a cluster (ownership.go, peers.go) the node with a stream's publisher owns the stream and has
// a [Lease]. Only the owner records the stream, makes its HLS, and sends it to other nodes. While
// its lease is not current, it sends nothing to other nodes. A node that has only viewers of the
// stream gets it from the owner with [Peers.Pull], over one connection (pull.go). When a node loses
// the ownership ([Peers.Lost]), its stream and viewers stay and wait for the pull. Package cluster
// determines the owner of a stream, and this package asks it through the interface [Cluster].
//
// Each protocol has its own package: web for HTTP, rtmp for RTMP. To publish, such a package calls
// [Hub.Open], [Publisher.Run] and Answered. It passes Run a function that calls WriteTag or
// ReadBody until [Publisher.Lifetime] ends. Package ingest reads the connections. To watch, the
// package calls [Admission.Admit], which reserves a place within the limits on viewers and waits
// for the stream. It then calls [Viewer.Connect], appends the head of its response to the
// transport, and calls [Admission.Start] with a function that reads from the client. If it will not
// serve the viewer, it releases the place with [Viewer.Decline] instead.
//
// The types form four levels. Each type calls only types of lower levels. The highest level has
// [HLS], [Peers], [Operator], [MemorySteps] and [Admission], which other packages call. Then follow
// Publisher and registrar, then Hub, and last stream, claim and Viewer. A stream and a claim do not
// know the types above them.
//
// The package knows nothing about routes (package server) or about permissions to publish or watch
// (package access).
package live
