// Package relay hands live streams from their publishers to their viewers.
//
//	POST ─▶ publishBody ─┬▶ Publisher ─▶ broadcast.Ring ─▶ fanout ─▶ viewers, other nodes      FLV, or bytes
//	RTMP ─▶ RTMPConn ────┤                    │
//	node ─▶ Hub.Pull ────┘                    ├▶ rtmpRendition ─▶ Ring ─▶ fanout ─▶ viewers     RTMP
//	                                          └▶ mp4Rendition ─▶ Ring ─▶ fanout ─▶ viewers      MP4
//	                                                               └▶ fragmentReader ─▶ hlsWindow ─▶ requests
//
// A [Hub] knows the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes. A stream of FLV is
// fed by one publisher after the other: handover.go says when the next one comes, and feed.go applies what package
// flvstream knows about the tags. A rendition is one form of a stream: it is made
// once, while it has viewers, and shared by all of them. All writes to viewers start in fanout.go: the fanout's
// goroutine writes to plain TCP viewers that keep up, by vector.writev in socket_linux.go. Every other viewer has a
// goroutine of its own: a TCP viewer until it has caught up, one of TLS or HTTP/2 to its end.
//
// HLS has no viewers here, only requests: an hlsWindow reads the fragments of MP4, keeps them in a hls.Window, and
// requests wait for what it adds. hlsbegin.go chooses its times. hlsstore.go saves what the window lists where other
// nodes find it, and begins a window behind what another node has listed.
//
// In a cluster (cluster.go) the node that has a stream's publisher owns it, by a [Lease]: only then it records the
// stream, makes HLS of it, and sends it to other nodes ([Hub.WatchPeer]), which get nothing while the lease is not
// current. Where there are viewers alone, [Hub.Pull] feeds the stream from its owner, as a publisher does, over one
// connection for all of them (pull.go). When the ownership is lost ([Hub.Lost]) the stream and its viewers stay, and
// wait for what is pulled. Package cluster decides who owns what; this one only obeys ([Cluster]).
//
// A protocol that publishes calls [Hub.Open], [Publisher.Run] with a function that calls WriteTag or ReadBody until
// [Publisher.Context] ends, and Done. HTTP's way is publish.go and body.go. RTMP's is rtmp.go, which makes tags of
// messages. Package ingest reads the connections. A protocol that watches calls Hub.admit, which
// takes a place of the viewers' limit and waits for the stream. Then it puts what it sends first into viewer.pending,
// what tells of the end into viewer.ending, and what reads from the client into viewer.hear, and calls serveConn; or it
// gives the place back by viewer.decline.
//
// A further form of a stream needs a row in the table kinds (rendition.go) and a maker. A conversion (conversion.go)
// reads the stream's ring and gives the maker each tag; mp4Rendition and rtmpRendition are the makers that there are.
// Beyond that, rendition.policy says whether its viewers may lose frames, stream.format whether a stream can be had in
// it, and newCursor where a viewer begins. What is made of fragments of MP4 needs a fragmentReader alone.
//
// The package is as large as it is because it holds three ways to read a publisher and one to pull from another node,
// the change of publishers and of owners, two ways to write to viewers, and the making of MP4 and HLS. It knows nothing
// of routes and of who may publish or watch: see package server.
package relay
