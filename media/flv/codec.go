package flv

import (
	"encoding/binary"
	"strconv"
)

// Codec identifies the codec of a tag.
//
// The value is the codec's FourCC, the four characters that name a codec in enhanced RTMP. Tags in
// the original FLV format identify a codec by a number, the classic number. If the codec has a
// FourCC, the Decoder converts the classic number to the FourCC. Otherwise the value is the classic
// number plus classicVideo or classicAudio.
type Codec uint32

// The codecs that the packages of Millrace handle. A Decoder also returns tags with other codecs.
const (
	AVC  Codec = 'a'<<24 | 'v'<<16 | 'c'<<8 | '1' // H.264
	HEVC Codec = 'h'<<24 | 'v'<<16 | 'c'<<8 | '1' // H.265; its unofficial classic number is 12
	AAC  Codec = 'm'<<24 | 'p'<<16 | '4'<<8 | 'a'
	MP3  Codec = '.'<<24 | 'm'<<16 | 'p'<<8 | '3'
	Opus Codec = 'O'<<24 | 'p'<<16 | 'u'<<8 | 's'

	vvc Codec = 'v'<<24 | 'v'<<16 | 'c'<<8 | '1' // H.266
	av1 Codec = 'a'<<24 | 'v'<<16 | '0'<<8 | '1'
	vp9 Codec = 'v'<<24 | 'p'<<16 | '0'<<8 | '9'
)

// If a codec has no FourCC, its Codec value is the classic number plus one of these constants. The
// first byte of the value is then 1 or 2. A FourCC begins with a printable character, so the value
// cannot be mistaken for a FourCC.
const (
	classicVideo Codec = 1 << 24
	classicAudio Codec = 2 << 24
)

// videoCodec returns the Codec for the classic codec number n. A video tag has this number in the
// low four bits of the first byte of its data.
func videoCodec(n byte) Codec {
	switch n {
	case 7:
		return AVC
	case 12:
		return HEVC
	}
	return classicVideo | Codec(n)
}

// audioCodec returns the Codec for the classic format number n. An audio tag has this number in the
// high four bits of the first byte of its data.
func audioCodec(n byte) Codec {
	switch n {
	case 2, 14: // 14 is MP3 at 8 kHz
		return MP3
	case 10:
		return AAC
	}
	return classicAudio | Codec(n)
}

func codec(fourCC string) Codec { return Codec(binary.BigEndian.Uint32([]byte(fourCC))) }

var codecNames = map[Codec]string{
	AVC: "AVC", HEVC: "HEVC", vvc: "VVC", av1: "AV1", codec("vp08"): "VP8", vp9: "VP9",
	AAC: "AAC", MP3: "MP3", Opus: "Opus", codec("fLaC"): "FLAC", codec("ac-3"): "AC-3",
	codec("ec-3"):    "E-AC-3",
	classicVideo | 2: "Sorenson H.263", classicVideo | 3: "Screen Video", classicVideo | 4: "VP6",
	classicVideo | 5: "VP6 with alpha", classicVideo | 6: "Screen Video 2",
	classicAudio: "PCM", classicAudio | 1: "ADPCM", classicAudio | 3: "PCM little-endian",
	classicAudio | 4: "Nellymoser 16 kHz", classicAudio | 5: "Nellymoser 8 kHz",
	classicAudio | 6: "Nellymoser",
	classicAudio | 7: "G.711 A-law", classicAudio | 8: "G.711 mu-law", classicAudio | 11: "Speex",
}

// String returns the usual name of the codec. For an unknown codec, it returns the FourCC in
// quotes, or the classic number, for example as "video codec 9".
func (c Codec) String() string {
	if name, ok := codecNames[c]; ok {
		return name
	}
	switch c >> 24 {
	case 0:
		return "no codec"
	case 1:
		return "video codec " + strconv.Itoa(int(c&0xff))
	case 2:
		return "audio format " + strconv.Itoa(int(c&0xff))
	}
	return strconv.Quote(string([]byte{byte(c >> 24), byte(c >> 16), byte(c >> 8), byte(c)}))
}
