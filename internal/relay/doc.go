// Package relay hands live streams from their publishers to their viewers.
//
//	connection ─▶ Publisher ─▶ broadcast.Ring ─▶ fanout ─▶ viewers       FLV, or bytes as they come
//	                               └▶ mp4Rendition ─▶ Ring ─▶ fanout ─▶ viewers       fragmented MP4
//
// A [Hub] knows the streams by name. A [Publisher] feeds one stream with FLV tags or with bytes. A rendition is one
// form of a stream: it is made once, while it has viewers, and shared by all of them. A fanout is the only writer of
// viewers that keep up; a viewer that does not has a goroutine of its own until it has caught up. The system call of a
// plain TCP viewer is vector.writev, in socket_linux.go.
//
// A protocol that publishes calls [Hub.Open] and then WriteTag or ReadBody; HTTP's way is publish.go and body.go. A
// form of a stream has a format (rendition.go), a case in stream.enter, and a type that reads the stream's ring, as
// mp4Rendition does. A protocol that watches puts its head into viewer.pending and calls serveConn, as [Hub.Watch]
// does.
//
// The package is as large as it is because it holds two ways to read a publisher, two to write to viewers, and the
// making of MP4. It knows nothing of routes and of who may publish or watch: see package server.
package relay
