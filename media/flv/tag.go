package flv

import "strconv"

// tagHeaderSize is the size of the header before a tag's data.
const tagHeaderSize = 11

// MaxData is the largest size of a tag's data in bytes. The size field has 24 bits.
const MaxData = 1<<24 - 1

// Type is the type of a tag.
type Type uint8

// The types that the format defines. The Decoder returns tags of other types, too.
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

// Packet is the kind of the payload of an audio or video tag.
type Packet uint8

const (
	// PacketNone: not an audio or video tag, or a tag whose codec header is truncated or unknown.
	PacketNone Packet = iota
	// PacketSequenceHeader: the decoder's configuration, required before the first frame.
	PacketSequenceHeader
	// PacketFrame: a coded video or audio frame.
	PacketFrame
	// PacketSequenceEnd: the end of the sequence that the last sequence header began.
	PacketSequenceEnd
	// PacketMetadata: video metadata, such as colour information.
	PacketMetadata
	// PacketCommand: a command to the player (video frame type 5), not a video frame.
	PacketCommand
)

// Tag holds the facts about a tag that a relay needs. It holds no reference to the tag's bytes.
type Tag struct {
	Type   Type
	Packet Packet
	// The tag is a keyframe, so decoding can start here. Key is never set for a sequence header or
	// a command.
	Key            bool
	SequenceHeader bool // Packet is PacketSequenceHeader
	Metadata       bool // script data named onMetaData
	// Enhanced: the payload is a list of tracks. Codec is then 0, unless all tracks have the same
	// codec.
	Multitrack bool
	// Enhanced: number of the first track in the list. All other tags have 0, the default track.
	Track           byte
	Encrypted       bool   // the filter bit is set
	Codec           Codec  // 0 when Packet is PacketNone
	Size            int    // length of the data; the whole tag is 15 bytes longer
	Timestamp       uint32 // decoding time in ms; wraps after 49.7 days
	StreamID        uint32 // 24 bits, 0 in a file
	CompositionTime int32  // ms from decoding to display, if the codec has such a time
	// Offset of the codec's bytes in the tag; 0 if it is not known. These bytes end 4 bytes before
	// the tag does.
	Payload int
}

// Len returns the length of the whole tag: header, data and previous-tag-size.
func (t Tag) Len() int { return tagHeaderSize + t.Size + trailerSize }

// parseTagHeader parses the 11 bytes before the data. It borrows p.
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

// peekSize is how many bytes of a tag's data parseData reads. That is enough for every codec's
// header with one extension of the enhanced format, and for the name onMetaData.
const peekSize = 24

// parseData fills t from p, the first peekSize bytes of the data, or all of the data if it is
// shorter. It borrows p.
func (t *Tag) parseData(p []byte) {
	switch t.Type {
	case TypeScript:
		// An AMF0 string: marker 2, length, name. AMF3 data has one more byte before the marker.
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

// setPacket records the kind of the data, and the offset at of the codec's bytes in it.
func (t *Tag) setPacket(p Packet, c Codec, at int) {
	t.Packet, t.Codec, t.Payload = p, c, tagHeaderSize+at
}

// int24 reads a signed 24-bit number.
func int24(p []byte) int32 {
	return int32(uint32(p[0])<<24|uint32(p[1])<<16|uint32(p[2])<<8) >> 8
}
