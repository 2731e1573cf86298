// Package rendition holds the frames of a live stream in each of its formats. The frames flow along
// the arrows. The right column shows the format of the frames:
//
//	Publish ─▶ live ─┬▶ Fanout ─▶ viewers                           FLV or Raw (any bytes)
//	                 ├▶ convert.RTMP ─▶ Rendition ─▶ viewers        RTMP
//	                 └▶ convert.MP4 ──▶ Rendition ─▶ viewers        MP4
//	                                        └▶ FragmentReader       MP4 for HLS and recordings
//
// A [Set] belongs to one stream. The stream's publisher writes the live rendition, which has the
// publisher's format. The Set makes a [Rendition] of another format while that Rendition has
// viewers or readers. All viewers of a format share its rendition.
//
// To add a format, add a constant (format.go), a conversion (package convert), and a case in
// newConversion. In addition, decide in Rendition.dropsViewers whether viewers of the format may
// lose frames, and in Rendition.newCursor where a viewer begins.
//
// The package does not depend on the code of publishers or viewers.
//
// A third of the code starts and ends the renditions of other formats: set.go.
package rendition
