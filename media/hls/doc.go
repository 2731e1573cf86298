// Package hls keeps the newest part of a live stream as HLS: parts, segments and their playlists.
// It copies no media. It implements draft-pantos-hls-rfc8216bis.
//
// A [Window] takes the MP4 fragments that package mp4 makes. Several fragments form a part. The
// parts up to a later keyframe form a segment. The playlist lists the newest segments.
//
//	Init        EXT-X-MAP    1z-i0.mp4
//	Add ─┐
//	Add ─┼───── EXT-X-PART   1z-70.0.m4s ─┐
//	Add ─┘                                ├── EXTINF   1z-70.m4s
//	Add ─┐                                │
//	Add ─┴───── EXT-X-PART   1z-70.1.m4s ─┘
//	Add         EXT-X-PRELOAD-HINT   1z-71.0.m4s   not complete yet
//
// A segment is one [millrace.Chain] that refers to the memory of its fragments, and a part is a
// range of that Chain. An [Object] identifies an init segment, a segment or a part. The name of an
// object consists of the epoch (the number of the publication, in base 36), the media sequence
// number and, for a part, the index of the part in its segment. The bytes of an object never
// change.
//
// A Window has no clock and never blocks. Its methods report whether the playlist has changed, and
// [Window.Status] reports whether a request can be answered yet.
package hls
