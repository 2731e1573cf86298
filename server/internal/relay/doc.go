// Package relay hands live streams from their publishers to their viewers.
//
//	POST ─▶ publishBody ─┬▶ Publisher ─▶ broadcast.Ring ─▶ fanout ─▶ viewers, other nodes            FLV, or bytes
//	RTMP ─▶ RTMPConn ────┤                    │
//	node ─▶ Peers.Pull ──┘                    ├▶ convert.RTMP ─▶ Ring ─▶ fanout ─▶ viewers           RTMP
//	                                          └▶ convert.MP4 ──▶ Ring ─▶ fanout ─▶ viewers           MP4
//	                                                               └▶ fragmentReader ─▶ hlslive.Window ─▶ requests
//
// A [Hub] knows the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes. One publisher after the
// other may feed a stream of FLV: handover.go says when the next one comes, and feed.go applies what package flvstream
// knows about the tags. A rendition is one form of a stream: it is made once, while it has viewers, and all of them share
// it. Package fanout writes a rendition to its viewers. A viewer (viewer.go) knows who watches; its transport, a
// [fanout.Viewer], knows how far the client has got.
//
// HLS has no viewers here, only requests. Package hlslive makes it; hls.go says which streams have HLS, and for how long.
//
// In a cluster (ownership.go, peers.go) the node that has a stream's publisher owns it, by a [Lease]: only then it records the
// stream, makes HLS of it, and sends it to other nodes ([Peers.Watch]), which get nothing while the lease is not
// current. Where there are viewers alone, [Peers.Pull] feeds the stream from its owner, as a publisher does, over one
// connection for all of them (pull.go). When the ownership is lost ([Peers.Lost]) the stream and its viewers stay, and
// wait for what is pulled. Package cluster decides who owns what; this one only obeys ([Cluster]).
//
// A protocol that publishes calls [Hub.Open], [Publisher.Run] with a function that calls WriteTag or ReadBody until
// [Publisher.Context] ends, and Done. For HTTP that is publish.go and body.go, for RTMP rtmp.go, which makes tags of
// messages. Package ingest reads the connections. A protocol that watches calls Hub.admit, which takes a place of the
// viewers' limit and waits for the stream. Then it calls viewer.connect, appends the head of its response to the transport,
// calls viewer.enter, and starts the transport with a function that reads from the client. Or it gives the place back by
// viewer.decline.
//
// A further form of a stream needs a format (rendition.go) and a conversion (package convert). Beyond that,
// rendition.policy says whether its viewers may lose frames, stream.format whether a stream can be had in it, and
// newCursor where a viewer begins. What is made of fragments of MP4 needs a fragmentReader alone.
//
// Above the Hub stand the types that other packages call: [HTTP], [RTMP], [HLS], [Peers], [Operator], and [MemorySteps]. Each has the
// Hub, and the Hub knows none of them.
//
// It knows nothing of routes and of who may publish or watch: see package server.
package relay
