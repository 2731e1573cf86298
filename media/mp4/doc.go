// Package mp4 converts an FLV stream to fragmented MP4, which browsers play in a plain <video>
// element. It builds only headers, and passes on video and audio by reference.
//
// A [Muxer] takes the tags that a [flv.Decoder] returns, including sequence headers, and returns
// fragments. Usually a fragment has one video frame and the audio that was sent with it. While
// video is late, a fragment has one or two audio frames. In a stream without video, it has five
// audio frames.
//
//	ftyp moov │ moof mdat │ moof mdat │ ...        moov: tracks, codecs, size of the picture; no samples
//	──────────┼───────────┼───────────┼────        moof: times, sizes and flags of the samples in the mdat
//	AppendInit│ WriteTag  │ WriteTag  │ ...        mdat: 8 bytes, then the tags' payloads by reference
//
// A viewer may begin at any fragment with Key set. It needs the init segment, this fragment and all
// later ones. If a viewer misses fragments, it must start again, because its player would otherwise
// play audio and video with different delays.
package mp4
