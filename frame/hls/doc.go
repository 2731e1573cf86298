// Package hls keeps the newest part of a live stream as HLS: parts, segments and the playlists that list them. It
// copies no media. It is written after draft-pantos-hls-rfc8216bis.
//
// A [Window] takes the fragments of MP4 that package mp4 makes. Some fragments are a part, the parts up to a key frame
// are a segment, and the newest segments are the window.
//
//	Init        EXT-X-MAP    1z-i0.mp4
//	Add ─┐
//	Add ─┼───── EXT-X-PART   1z-70.0.m4s ─┐
//	Add ─┘                                ├── EXTINF   1z-70.m4s
//	Add ─┐                                │
//	Add ─┴───── EXT-X-PART   1z-70.1.m4s ─┘
//	Add         EXT-X-PRELOAD-HINT   1z-71.0.m4s   complete when the next Add says so
//
// A segment is one [millrace.Chain] of the fragments' own blocks, and a part is a range of it. An [Object] is the name of
// an init segment, a segment or a part. A name says what it stands for, and its bytes never change: it has the number
// of the publication (the epoch, in base 36), the media sequence number 70 and the index of the part.
//
// A Window does not know what time it is, and does not wait. Its methods say when there is something new, and
// [Window.Status] says what a request for a playlist has to wait for.
package hls
