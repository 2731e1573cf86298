// Package flv splits a Flash Video stream into tags, and builds tags, without copying their bodies.
//
// A [Decoder] reads from a [millrace.Reader]. Each call to [Decoder.Next] appends one complete tag
// to a chain, unchanged and by reference. Next also returns a [Tag] with the information that a
// relay needs: the time of the tag, whether a viewer can start at the tag, and whether the tag is a
// sequence header, which the decoders of viewers need first.
//
//	0        1          4          7     8          11                11+Size     11+Size+4
//	├─ type ─┼── size ──┼─── ts ───┼ ts+ ┼─ stream ─┼───── data ──────┼─ previous ─┤
//	│  8,9,  │ of data, │ low 24   │ top │ 0 in a   │ codec's header, │  tag size: │
//	│  18    │ 24 bits  │ bits, ms │  8  │ file     │ then its bytes  │  11 + Size │
//	└────────┴──────────┴──────────┴─────┴──────────┴─────────────────┴────────────┘
//	├─────────────── 11-byte header ────────────────┤  ↑ Tag.Payload: where the codec's bytes begin
//
// The package also supports the headers of enhanced RTMP. The time of a tag is its decoding time in
// milliseconds, which wraps around after 49.7 days. Package mp4 parses the AVC, HEVC and AAC
// sequence headers.
//
// A Decoder has no timeout. To limit the time until the next tag has arrived, including a pause
// before the tag, set the connection's read deadline before each call to Next.
package flv
