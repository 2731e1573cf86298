// Package mp4 turns the tags of an FLV stream into fragmented MP4, which browsers play in a plain
// <video> element. It builds only headers. Video and audio stay in the publisher's blocks, and are
// passed on by reference.
//
// A [Muxer] takes the tags that a [flv.Decoder] returns, including sequence headers, and returns
// fragments. Usually a fragment has one video frame with the audio that was sent with it. While
// video is late, it has an audio frame. In a stream without video, it has five audio frames.
//
//	ftyp moov │ moof mdat │ moof mdat │ ...        moov: tracks, codecs, size of the picture; no samples
//	──────────┼───────────┼───────────┼────        moof: times, sizes and flags of the samples in the mdat
//	AppendInit│ WriteTag  │ WriteTag  │ ...        mdat: 8 bytes, then the tags' payloads by reference
//
// A viewer may begin at any fragment with Key set. It gets the init segment, this fragment and all
// later ones. If a viewer misses fragments, it must start again. Otherwise its player would resume
// audio at once, hold back video until its time, and keep that distance.
//
// A third of the package, codec.go, reads the sequence headers of AVC, HEVC and AAC.
package mp4
