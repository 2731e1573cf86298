// Package flv splits a Flash Video stream into tags, and builds tags, without copying their bodies.
//
// A [Decoder] reads from a [millrace.Reader]. Each call of [Decoder.Next] appends one whole tag to
// a chain, unchanged and by reference. It returns a small [Tag] with the facts that a relay needs:
// whether a viewer can start at the tag, whether the tag is a header that later tags need, and its
// time.
//
//	0        1          4          7     8          11                11+Size     11+Size+4
//	├─ type ─┼── size ──┼─── ts ───┼ ts+ ┼─ stream ─┼───── data ──────┼─ previous ─┤
//	│  8,9,  │ of data, │ low 24   │ top │ 0 in a   │ codec's header, │  tag size: │
//	│  18    │ 24 bits  │ bits, ms │  8  │ file     │ then its bytes  │  11 + Size │
//	└────────┴──────────┴──────────┴─────┴──────────┴─────────────────┴────────────┘
//	├─────────────── 11-byte header ────────────────┤  ↑ Tag.Payload: where the codec's bytes begin
//
// Packages for other containers also use parts of this package: [Type], [Packet] and [Tag] in
// tag.go, [Codec] in codec.go, and the headers of enhanced RTMP in enhanced.go. A tag's time is its
// decoding time in milliseconds, which wraps. media/mp4/codec.go parses the AVC, HEVC and AAC
// sequence headers.
//
// The Decoder reads headers and the first few bytes of the data. It does not read the rest, but
// only appends references to it.
//
// A Decoder has no timeout. To limit the time of a tag, including the pause before it, set the
// connection's read deadline before each call of Next. After an error of the connection nothing is
// lost. The caller ends the stream, or calls Next again.
package flv
