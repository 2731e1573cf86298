// Package flv splits a Flash Video stream into tags, and builds tags, without copying their bodies.
//
// A [Decoder] reads from a [millrace.Reader]. Each call of [Decoder.Next] appends one whole tag to
// a chain, unchanged and by reference. It returns a small [Tag] with the information that a relay
// needs: the tag's time, whether a viewer can start at it, and whether later tags need it as a
// header.
//
//	0        1          4          7     8          11                11+Size     11+Size+4
//	├─ type ─┼── size ──┼─── ts ───┼ ts+ ┼─ stream ─┼───── data ──────┼─ previous ─┤
//	│  8,9,  │ of data, │ low 24   │ top │ 0 in a   │ codec's header, │  tag size: │
//	│  18    │ 24 bits  │ bits, ms │  8  │ file     │ then its bytes  │  11 + Size │
//	└────────┴──────────┴──────────┴─────┴──────────┴─────────────────┴────────────┘
//	├─────────────── 11-byte header ────────────────┤  ↑ Tag.Payload: where the codec's bytes begin
//
// Packages for other containers also use [Type], [Packet], [Tag] and [Codec], and the headers of
// enhanced RTMP. A tag's time is its decoding time in milliseconds, which wraps around. Package mp4
// parses the AVC, HEVC and AAC sequence headers.
//
// The Decoder reads the header and the first few bytes of the data of each tag. It appends the rest
// by reference without reading it.
//
// A Decoder has no timeout. To limit the time of a tag, including the pause before it, set the
// connection's read deadline before each call of Next. After an error of the connection nothing is
// lost, and the caller may call Next again.
package flv
