// Package server is the streaming server behind `millrace serve`: publishers send a stream in the body of a request, and
// any number of viewers receive it in the responses to theirs.
//
//	POST /live/NAME ──▶ ingest ──▶ Ring ──▶ pump ──writev──▶ viewer    GET /live/NAME
//	                               │  ▲      └──writev──▶ viewer
//	                               │  └─ one cursor per viewer        (a viewer that does not keep up
//	                               └──▶ muxer ──▶ Ring ──▶ pump ──▶ …   gets a goroutine of its own)
//	                                    GET /live/NAME.mp4
//
// A stream is one [broadcast.Ring] that holds the publisher's own blocks. A pump is one goroutine that writes to all
// healthy viewers of a ring. New frames are announced at most once in the latency bound. For each viewer the pump then
// takes what lies between the viewer's cursor and the head, and hands it to the kernel in one system call that never
// waits. A viewer whose socket is full is handed to a goroutine of its own until it has caught up, so that nobody waits
// for anybody.
package server
