// Package mp4 makes fragmented MP4, which browsers play in a plain <video> element, out of the tags of an FLV stream. The
// headers are built; pictures and sound stay the publisher's own blocks and travel by reference.
//
// A [Muxer] is fed with the tags that a [flv.Decoder] gives, sequence headers included. It answers with fragments: one picture
// with the sound that came with it, or a few frames of sound in a stream without pictures.
//
//	ftyp moov │ moof mdat │ moof mdat │ ...        moov: tracks, codecs, size of the picture; no samples
//	──────────┼───────────┼───────────┼────        moof: times, sizes and flags of the samples in the mdat
//	AppendInit│ WriteTag  │ WriteTag  │ ...        mdat: 8 bytes, then the tags' payloads by reference
//
// A viewer may begin at any fragment whose Key is set: the init segment in front, then this fragment and all that
// follow. A viewer who misses fragments later has to begin again: players go on with the sound at once but wait with
// the picture, and keep that distance.
package mp4
