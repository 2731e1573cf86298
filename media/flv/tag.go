package flv

import "strconv"

const tagHeaderSize = 11

// MaxData is the maximum size of a tag's data in bytes. The size field has 24 bits.
const MaxData = 1<<24 - 1

// Type is the type of a tag.
type Type uint8

// The tag types of FLV. The Decoder also returns tags of other types.
const (
	TypeAudio  Type = 8
	TypeVideo  Type = 9
	TypeScript Type = 18
)

func (t Type) String() string {
	switch t {
	case TypeAudio:
		return "audio"
	case TypeVideo:
		return "video"
	case TypeScript:
		return "script"
	}
	return "tag type " + strconv.Itoa(int(t))
}

// Packet is the kind of data in an audio or video tag.
type Packet uint8

const (
	// PacketNone: not an audio or video tag, or the codec header is truncated or unknown.
	PacketNone Packet = iota
	// PacketSequenceHeader: the configuration that a decoder needs before the first frame.
	PacketSequenceHeader
	// PacketFrame: a coded video or audio frame.
	PacketFrame
	// PacketSequenceEnd: no frames follow until the next sequence header.
	PacketSequenceEnd
	// PacketMetadata: video metadata, such as colour information.
	PacketMetadata
	// PacketCommand: a command to the player (video frame type 5), not a video frame.
	PacketCommand
)

// Tag has the information about a tag that a relay needs.
type Tag struct {
	Type   Type
	Packet Packet
	// Key is set if the tag contains a keyframe. It is not set for a sequence header or a command.
	Key            bool
	SequenceHeader bool // Packet is PacketSequenceHeader
	Metadata       bool // script data named onMetaData
	// Multitrack is set if the payload is a list of tracks (enhanced RTMP). If the tracks have
	// different codecs, Codec is 0.
	Multitrack bool
	// Track is the number of the first track. In a tag without Multitrack, it is 0.
	Track           byte
	Encrypted       bool   // the filter bit is set
	Codec           Codec  // 0 if Packet is PacketNone
	Size            int    // length of the data in bytes; the complete tag is 15 bytes longer
	Timestamp       uint32 // decoding time in ms; wraps around after 49.7 days
	StreamID        uint32 // 24 bits, 0 in a file
	CompositionTime int32  // time from decoding to display in ms, or 0
	// Payload is the offset of the codec's data in the tag, after all headers. It is 0 if the
	// offset is not known. The codec's data ends before the previous-tag-size, the last 4 bytes of
	// the tag.
	Payload int
}

// Len returns the length of the complete tag: header, data and previous-tag-size.
func (t Tag) Len() int { return tagHeaderSize + t.Size + trailerSize }

func parseTagHeader(p []byte) Tag {
	_ = p[tagHeaderSize-1]
	return Tag{
		Type:      Type(p[0] & 0x1f),
		Encrypted: p[0]&0x20 != 0,
		Size:      int(p[1])<<16 | int(p[2])<<8 | int(p[3]),
		Timestamp: uint32(p[7])<<24 | uint32(p[4])<<16 | uint32(p[5])<<8 | uint32(p[6]),
		StreamID:  uint32(p[8])<<16 | uint32(p[9])<<8 | uint32(p[10]),
	}
}

// peekSize is the number of bytes of data that parseData needs. These bytes contain the name
// onMetaData or any codec header. In enhanced RTMP, there is also room for one short extension
// before the codec header.
const peekSize = 24

// parseData sets the fields of t that depend on the tag's data. p has the first peekSize bytes of
// the data, or all data of a shorter tag. parseData borrows p.
func (t *Tag) parseData(p []byte) {
	switch t.Type {
	case TypeScript:
		// The script's name is an AMF0 string: the marker 2, the length and the characters. AMF3
		// data has one more byte before the marker.
		if len(p) > 0 && p[0] == 0 {
			p = p[1:]
		}
		const name = "\x02\x00\x0aonMetaData"
		t.Metadata = len(p) >= len(name) && string(p[:len(name)]) == name
	case TypeVideo:
		t.parseVideo(p)
	case TypeAudio:
		t.parseAudio(p)
	}
	t.SequenceHeader = t.Packet == PacketSequenceHeader
}

// Video frame types (bits 4 to 6 of the first byte).
const (
	frameUnset   = 0 // reserved
	frameKey     = 1
	frameCommand = 5
)

func (t *Tag) parseVideo(p []byte) {
	if len(p) == 0 {
		return
	}
	if p[0]&0x80 != 0 {
		t.parseExVideo(p)
		return
	}
	codec, frame := videoCodec(p[0]&0x0f), p[0]>>4
	if frame == frameCommand {
		t.setPacket(PacketCommand, codec, 1)
		return
	}
	at, packet := 1, PacketFrame
	if codec == AVC || codec == HEVC {
		if len(p) < 5 {
			return
		}
		switch p[1] {
		case 0:
			packet = PacketSequenceHeader
		case 1:
			t.CompositionTime = int24(p[2:])
		case 2:
			packet = PacketSequenceEnd
		default:
			return
		}
		at = 5
	}
	t.setPacket(packet, codec, at)
	t.Key = packet == PacketFrame && frame == frameKey
}

func (t *Tag) parseAudio(p []byte) {
	if len(p) == 0 {
		return
	}
	if p[0]>>4 == exAudio {
		t.parseExAudio(p)
		return
	}
	codec := audioCodec(p[0] >> 4)
	if codec != AAC {
		t.setPacket(PacketFrame, codec, 1)
		return
	}
	if len(p) < 2 {
		return
	}
	switch p[1] {
	case 0:
		t.setPacket(PacketSequenceHeader, AAC, 2)
	case 1:
		t.setPacket(PacketFrame, AAC, 2)
	}
}

// setPacket sets the Packet, Codec and Payload of the tag. The parameter offset is the position in
// the tag's data at which the codec's data begins.
func (t *Tag) setPacket(p Packet, c Codec, offset int) {
	t.Packet, t.Codec, t.Payload = p, c, tagHeaderSize+offset
}

func int24(p []byte) int32 {
	return int32(uint32(p[0])<<24|uint32(p[1])<<16|uint32(p[2])<<8) >> 8
}
