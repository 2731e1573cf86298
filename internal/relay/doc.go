// Package relay hands live streams from their publishers to their viewers.
//
//	connection ─▶ Publisher ─▶ broadcast.Ring ─▶ fanout ─▶ viewers       FLV, or bytes as they come
//	                               └▶ mp4Rendition ─▶ Ring ─▶ fanout ─▶ viewers       fragmented MP4
//
// A [Hub] knows the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes. A stream of FLV is
// fed by one publisher after the other: handover.go says when the next one comes, feed.go has what is known of the
// stream, and a continuation fits the next publisher's tags to it. A rendition is one form of a stream: it is made
// once, while it has viewers, and shared by all of them. All writes to viewers start in fanout.go: the fanout's
// goroutine writes to plain TCP viewers that keep up, by vector.writev in socket_linux.go. Every other viewer has a
// goroutine of its own: a TCP viewer until it has caught up, one of TLS or HTTP/2 to its end.
//
// A protocol that publishes calls [Hub.Open] and then WriteTag or ReadBody, stops when [Publisher.Context] ends, and
// calls Close; HTTP's way is publish.go and body.go. A further form of a stream needs a format and its extension
// (rendition.go), its cases in stream.format and stream.enter, which take each extension but .flv for MP4, and a
// type that reads the stream's ring, as mp4Rendition does. A protocol that watches follows [Hub.Watch]: it takes a
// place of the viewers' limit and gives it back, waits for the stream, puts its head into viewer.pending, and calls
// serveConn.
//
// The package is as large as it is because it holds two ways to read a publisher, the change of publishers, two ways to
// write to viewers, and the making of MP4. It knows nothing of routes and of who may publish or watch: see package server.
package relay
