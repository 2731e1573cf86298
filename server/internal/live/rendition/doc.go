// Package rendition holds the frames of a live stream in each of its formats.
//
//	Publish ─▶ live ─┬▶ Fanout ─▶ viewers                           FLV, or bytes
//	                 ├▶ convert.RTMP ─▶ Rendition ─▶ viewers        RTMP
//	                 └▶ convert.MP4 ──▶ Rendition ─▶ viewers        MP4
//	                                        └▶ FragmentReader       HLS and recordings
//
// A [Set] belongs to one stream. The stream's publisher writes the live rendition, which has the
// format that the publisher sends. The Set makes each other [Rendition] while it has viewers or
// readers, and all of them share it.
//
// A further format needs a constant (format.go), a conversion (package convert), and a case in
// newConversion. Beyond that, Rendition.drops says whether its viewers may lose frames, and
// newCursor says where a viewer begins.
//
// The package does not know who publishes or who watches.
package rendition
