// Package mp4 converts an FLV stream to fragmented MP4, which browsers play in a plain <video>
// element. It builds only headers, and passes on video and audio by reference.
//
// A [Muxer] takes the tags that a [flv.Decoder] returns, including sequence headers, and returns an
// init segment and fragments:
//
//	ftyp moov │ moof mdat │ moof mdat │ ...
//
// The init segment (ftyp and moov) describes the tracks, the codecs and the picture size.
// [Muxer.AppendInit] appends it. [Muxer.WriteTag] appends the fragments. The moof of a fragment has
// the times, sizes and flags of the samples. The mdat has a header of 8 bytes, followed by the
// tags' payloads by reference.
//
// Usually a fragment has one video frame and the audio that was sent with it. While video is late,
// a fragment has one or two audio frames. In a stream without video, a fragment has five audio
// frames.
//
// A viewer may begin at any fragment that has Key set. The viewer needs the init segment, this
// fragment and all later fragments. If a viewer misses fragments, it must start again, because its
// player would otherwise play audio and video with different delays.
//
// A quarter of the code handles irregular streams, with clocks that step, late video, and units
// that players do not accept: clock.go, track.go and nal.go.
package mp4
