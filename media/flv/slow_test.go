package flv_test

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/millrace-io/millrace/media/flv"
)

// slowTag is the reference's form of a tag.
type slowTag struct {
	flv.Tag
	raw string
}

// slowParse is the reference: it slices the complete stream, following the description of the
// format. It returns the tags before the first error.
func slowParse(b []byte, maxTag int) (tags []slowTag, err error) {
	switch {
	case len(b) == 0:
		return nil, io.EOF
	case !bytes.HasPrefix(b, []byte("FLV")[:min(len(b), 3)]):
		return nil, flv.ErrNotFLV
	case len(b) < 9:
		return nil, io.ErrUnexpectedEOF
	}
	offset := binary.BigEndian.Uint32(b[5:9])
	switch {
	case b[3] != 1 || offset < 9:
		return nil, flv.ErrNotFLV
	case offset > 1024:
		return nil, &flv.LimitError{What: "header", Have: int64(offset), Limit: 1024}
	case len(b) < int(offset)+4:
		return nil, io.ErrUnexpectedEOF
	}
	b = b[offset+4:]
	for len(b) > 0 {
		if len(b) < 11 {
			return tags, io.ErrUnexpectedEOF
		}
		size := int(binary.BigEndian.Uint32(b[0:4]) & 0xffffff)
		if size > maxTag {
			return tags, &flv.LimitError{What: "tag data (MaxTag)", Have: int64(size),
				Limit: int64(maxTag)}
		}
		end := 11 + size + 4
		if len(b) < end {
			return tags, io.ErrUnexpectedEOF
		}
		previous := binary.BigEndian.Uint32(b[end-4 : end])
		if previous != uint32(11+size) {
			return tags, &flv.PrevTagSizeError{Have: previous, Want: uint32(11 + size)}
		}
		tags = append(tags, slowTag{Tag: slowDescribe(b[:end-4]), raw: string(b[:end])})
		b = b[end:]
	}
	return tags, io.EOF
}

func slowDescribe(b []byte) flv.Tag {
	t := flv.Tag{
		Type:      flv.Type(b[0] & 31),
		Encrypted: b[0]&32 > 0,
		Size:      len(b) - 11,
		Timestamp: binary.BigEndian.Uint32([]byte{b[7], b[4], b[5], b[6]}),
		StreamID:  binary.BigEndian.Uint32(b[7:11]) & 0xffffff,
	}
	if len(b) == 11 {
		return t
	}
	data := b[11:]
	if len(data) > 24 {
		data = data[:24] // the part that a Decoder may inspect
	}
	switch t.Type {
	case flv.TypeScript:
		t.Metadata = bytes.HasPrefix(bytes.TrimPrefix(data, []byte{0}),
			[]byte("\x02\x00\x0aonMetaData"))
	case flv.TypeVideo:
		slowVideo(&t, data)
	case flv.TypeAudio:
		slowAudio(&t, data)
	}
	t.SequenceHeader = t.Packet == flv.PacketSequenceHeader
	return t
}

func slowVideo(t *flv.Tag, data []byte) {
	frame := data[0] >> 4 & 7
	if data[0] > 127 {
		if frame == 5 && data[0]&15 != 4 {
			t.Packet, t.Payload = flv.PacketCommand, 12
			return
		}
		kind, codec, at, ok := slowEnhanced(t, data, 6)
		packets := map[byte]flv.Packet{
			0: flv.PacketSequenceHeader, 5: flv.PacketSequenceHeader, 1: flv.PacketFrame,
			3: flv.PacketFrame,
			2: flv.PacketSequenceEnd, 4: flv.PacketMetadata,
		}
		if !ok || packets[kind] == flv.PacketNone {
			return
		}
		if kind == 1 && !t.Multitrack && (codec == flv.AVC || codec == flv.HEVC ||
			codec.String() == "VVC") {
			if len(data) < at+3 {
				return
			}
			t.CompositionTime = slowInt24(data[at:])
			at += 3
		}
		t.Packet, t.Codec, t.Payload = packets[kind], codec, 11+at
		t.Key = t.Packet == flv.PacketFrame &&
			(frame == 1 || frame == 0 && !t.Multitrack && slowKey(codec.String(), data[at:]))
		return
	}
	codec, withHeader := flv.Codec(1<<24|uint32(data[0]&15)), false
	switch data[0] & 15 {
	case 7:
		codec, withHeader = flv.AVC, true
	case 12:
		codec, withHeader = flv.HEVC, true
	}
	switch {
	case frame == 5:
		t.Packet, t.Codec, t.Payload = flv.PacketCommand, codec, 12
	case !withHeader:
		t.Packet, t.Codec, t.Payload = flv.PacketFrame, codec, 12
	case len(data) >= 5 && data[1] <= 2:
		t.Packet = [...]flv.Packet{flv.PacketSequenceHeader, flv.PacketFrame,
			flv.PacketSequenceEnd}[data[1]]
		t.Codec, t.Payload = codec, 16
		if data[1] == 1 {
			t.CompositionTime = slowInt24(data[2:])
		}
	}
	t.Key = frame == 1 && t.Packet == flv.PacketFrame
}

// slowKey looks for a keyframe in the visible part of a frame.
func slowKey(codec string, p []byte) bool {
	kinds := map[string]string{"AVC": "\x05\x07\x08",
		"HEVC": "\x10\x11\x12\x13\x14\x15\x16\x17\x20\x21\x22"}[codec]
	switch codec {
	case "AVC", "HEVC":
		for len(p) >= 5 {
			kind, delimiter := p[4]&31, byte(9)
			if codec == "HEVC" {
				kind, delimiter = p[4]<<1>>2, 35
			}
			if kind != delimiter {
				return bytes.Contains([]byte(kinds), []byte{kind})
			}
			n := 4 + int64(binary.BigEndian.Uint32(p))
			if n > int64(len(p)) {
				return false
			}
			p = p[n:]
		}
	case "AV1":
		if len(p) >= 3 && p[0]&0xf8 == 0x10 {
			p = p[2:]
		}
		return len(p) > 0 && p[0]&0x78 == 0x08
	case "VP9":
		if len(p) > 0 && p[0]&0xf0 == 0xb0 {
			return p[0]&0x06 == 0
		}
		return len(p) > 0 && p[0]&0xc0 == 0x80 && p[0]&0x0c == 0
	}
	return false
}

func slowAudio(t *flv.Tag, data []byte) {
	format := data[0] >> 4
	switch {
	case format == 9:
		kind, codec, at, ok := slowEnhanced(t, data, 5)
		packets := map[byte]flv.Packet{
			0: flv.PacketSequenceHeader, 1: flv.PacketFrame, 2: flv.PacketSequenceEnd,
			4: flv.PacketMetadata,
		}
		if ok && packets[kind] != flv.PacketNone {
			t.Packet, t.Codec, t.Payload = packets[kind], codec, 11+at
		}
	case format == 10:
		if len(data) >= 2 && data[1] <= 1 {
			t.Packet = [...]flv.Packet{flv.PacketSequenceHeader, flv.PacketFrame}[data[1]]
			t.Codec, t.Payload = flv.AAC, 13
		}
	case format == 2 || format == 14:
		t.Packet, t.Codec, t.Payload = flv.PacketFrame, flv.MP3, 12
	default:
		t.Packet, t.Codec, t.Payload = flv.PacketFrame, flv.Codec(2<<24|uint32(format)), 12
	}
}

// slowEnhanced parses an enhanced header. If the bytes end, it panics internally and reports false.
func slowEnhanced(t *flv.Tag, data []byte, tracks byte) (kind byte, codec flv.Codec, at int,
	ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	kind, at = data[0]&15, 1
	for kind == 7 {
		n := int(data[at]) + 1
		at++
		if n == 256 {
			n = int(binary.BigEndian.Uint16(data[at:])) + 1
			at += 2
		}
		kind = data[at+n] & 15
		at += n + 1
	}
	ownCodecs := false
	if kind == tracks {
		kind, ownCodecs = data[at]&15, data[at]>>4 == 2
		at++
		t.Multitrack = true
		if kind == tracks || kind == 7 {
			return 0, 0, 0, false
		}
	}
	codec = flv.Codec(binary.BigEndian.Uint32(data[at:]))
	if t.Multitrack {
		t.Track = data[at+4]
	}
	if ownCodecs {
		return kind, 0, at, true
	}
	return kind, codec, at + 4, true
}

func slowInt24(p []byte) int32 {
	v := int32(p[0])<<16 | int32(p[1])<<8 | int32(p[2])
	if v >= 1<<23 {
		v -= 1 << 24
	}
	return v
}
