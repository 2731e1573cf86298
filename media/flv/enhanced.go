package flv

import "encoding/binary"

// Enhanced RTMP extends the headers of tags: it adds codecs with a FourCC, extensions before the
// packet, and several tracks in one tag. https://veovera.org/docs/enhanced/enhanced-rtmp-v2

// exAudio is the audio format that announces an enhanced audio header.
const exAudio = 9

// Packet types of the enhanced headers. Some numbers mean different types for audio and video.
const (
	exSequenceStart = 0
	exCodedFrames   = 1
	exSequenceEnd   = 2
	exCodedFramesX  = 3 // video: a frame without the composition time, which is 0
	exMetadata      = 4 // video
	exChannels      = 4 // audio: multichannel configuration
	exMpeg2TSStart  = 5 // video
	exAudioTracks   = 5
	exVideoTracks   = 6
	exModEx         = 7
)

const (
	oneTrack         = 0
	manyTracksCodecs = 2 // each track has its own FourCC
)

// exHeader parses the start of an audio or video tag of enhanced RTMP: the ModEx extensions, the
// multitrack header and the codec's FourCC. It sets t.Multitrack and t.Track.
//
// The arguments are:
//
//   - p: the tag's data after the first byte.
//   - kind: the packet type in the first byte of the tag's data.
//   - multitrackKind: the packet type that announces a multitrack header.
//
// The results are:
//
//   - packet: the packet type of the media, after the extensions and the multitrack header.
//   - codec: the codec, or 0 if each track has a separate codec.
//   - offset: the offset of the codec's bytes in the tag's data; p begins at offset 1.
//   - ok: false if p is too short or invalid.
func (t *Tag) exHeader(p []byte, kind, multitrackKind byte) (packet byte, codec Codec, offset int,
	ok bool) {
	offset = 1
	for kind == exModEx {
		// A ModEx extension has three parts:
		//
		//   - The size of its data minus 1: one byte, or a byte 255 and two more bytes.
		//   - Its data.
		//   - One byte with the extension type and the next packet type.
		if len(p) < 1 {
			return 0, 0, 0, false
		}
		n, skip := int(p[0])+1, 1
		if n == 256 {
			if len(p) < 3 {
				return 0, 0, 0, false
			}
			n, skip = int(p[1])<<8|int(p[2])+1, 3
		}
		if len(p) <= skip+n {
			return 0, 0, 0, false
		}
		kind = p[skip+n] & 0x0f
		p, offset = p[skip+n+1:], offset+skip+n+1
	}
	form := byte(oneTrack)
	if kind == multitrackKind {
		if len(p) < 1 {
			return 0, 0, 0, false
		}
		form, kind = p[0]>>4, p[0]&0x0f
		t.Multitrack = true
		p, offset = p[1:], offset+1
		if kind == multitrackKind || kind == exModEx {
			return 0, 0, 0, false
		}
	}
	if len(p) < 4 {
		return 0, 0, 0, false
	}
	if t.Multitrack { // the FourCC is followed by the first track's number
		if len(p) < 5 {
			return 0, 0, 0, false
		}
		t.Track = p[4]
	}
	if form == manyTracksCodecs {
		return kind, 0, offset, true
	}
	return kind, Codec(binary.BigEndian.Uint32(p)), offset + 4, true
}

// AppendTracks appends the track numbers of the tag to dst, in order. Without t.Multitrack, it
// appends only 0. If the list of tracks is damaged, it stops after the last complete track. It
// borrows tag, which must contain the complete tag.
func (t Tag) AppendTracks(dst []byte, tag []byte) []byte {
	if !t.Multitrack || t.Payload == 0 {
		return append(dst, 0)
	}
	form, list := tag[t.Payload-5]>>4, tag[t.Payload:len(tag)-trailerSize]
	fourCC := 0
	if t.Codec == 0 { // each track has its own FourCC
		form, fourCC = tag[t.Payload-1]>>4, 4
	}
	if form == oneTrack {
		return append(dst, t.Track)
	}
	for { // a track has a FourCC (if the codecs differ), a number, and a size of three bytes
		head := fourCC + 4
		if len(list) < head {
			return dst
		}
		p := list[fourCC:]
		n := int(p[1])<<16 | int(p[2])<<8 | int(p[3])
		if len(list) < head+n {
			return dst
		}
		dst, list = append(dst, p[0]), list[head+n:]
	}
}

func (t *Tag) parseExVideo(p []byte) {
	frame, kind := p[0]>>4&7, p[0]&0x0f
	// A tag with the frame type for commands has one byte of data and no FourCC.
	if frame == frameCommand && kind != exMetadata {
		t.setPacket(PacketCommand, 0, 1)
		return
	}
	kind, codec, at, ok := t.exHeader(p[1:], kind, exVideoTracks)
	if !ok {
		return
	}
	packet := PacketFrame
	switch kind {
	case exSequenceStart, exMpeg2TSStart:
		packet = PacketSequenceHeader
	case exCodedFrames:
		if hasCompositionTime(codec) && !t.Multitrack {
			if len(p) < at+3 {
				return
			}
			t.CompositionTime = int24(p[at:])
			at += 3
		}
	case exCodedFramesX:
	case exSequenceEnd:
		packet = PacketSequenceEnd
	case exMetadata:
		packet = PacketMetadata
	default:
		return
	}
	t.setPacket(packet, codec, at)
	t.Key = packet == PacketFrame && (frame == frameKey || frame == frameUnset && !t.Multitrack &&
		beginsKey(codec, p[at:]))
}

// beginsKey reports whether a frame that begins with the bytes p is a keyframe. It is used for
// frames from senders that omit the frame type, such as gortmplib.
func beginsKey(c Codec, p []byte) bool {
	switch c {
	case AVC, HEVC:
		for len(p) > 4 {
			var parameters, delimiter, random bool
			if c == AVC {
				n := p[4] & 0x1f
				parameters, delimiter, random = n == 7 || n == 8, n == 9, n == 5
			} else {
				n := p[4] >> 1 & 0x3f
				parameters, delimiter, random = n >= 32 && n <= 34, n == 35, n >= 16 && n <= 23
			}
			if !delimiter {
				return parameters || random
			}
			p = p[min(4+uint64(binary.BigEndian.Uint32(p)), uint64(len(p))):]
		}
	case av1:
		if len(p) > 2 && p[0]>>3 == 2 { // skip an empty temporal delimiter
			p = p[2:]
		}
		return len(p) > 0 && p[0]>>3&0xf == 1 // a sequence header
	case vp9:
		// A VP9 frame begins with a marker, the profile, the flag show_existing_frame, and the
		// frame type, which is 0 for a keyframe. Profile 3 takes one more bit than the other
		// profiles.
		if len(p) > 0 && p[0]>>6 == 2 {
			bits := p[0] << 4
			if p[0]>>4&3 == 3 {
				bits <<= 1
			}
			return bits>>6 == 0
		}
	}
	return false
}

// hasCompositionTime reports whether coded frames of codec c begin with a composition time.
func hasCompositionTime(c Codec) bool { return c == AVC || c == HEVC || c == vvc }

func (t *Tag) parseExAudio(p []byte) {
	kind, codec, at, ok := t.exHeader(p[1:], p[0]&0x0f, exAudioTracks)
	if !ok {
		return
	}
	switch kind {
	case exSequenceStart:
		t.setPacket(PacketSequenceHeader, codec, at)
	case exCodedFrames:
		t.setPacket(PacketFrame, codec, at)
	case exSequenceEnd:
		t.setPacket(PacketSequenceEnd, codec, at)
	case exChannels:
		t.setPacket(PacketMetadata, codec, at)
	}
}
