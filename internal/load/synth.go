package load

import (
	"encoding/binary"
	"math"
	"time"
)

// The shape of a synthetic stream: 30 pictures and 43.07 sound frames a
// second, as a camera with 44.1 kHz sound sends them.
const (
	pictureRate  = 30
	soundRate    = 44100
	soundSamples = 1024 // in one AAC frame
	soundBytes   = 372  // payload of one AAC frame at 128 kbit/s
	keyWeight    = 8    // a key frame is this many times as large as an ordinary one
)

// Synth makes the tags of one stream. They are FLV in every byte that a relay
// looks at; what a decoder would look at is noise.
type Synth struct {
	stream  int
	gop     int // pictures from key frame to key frame
	picture int // average size of a picture that is no key frame

	pictures int64 // made so far
	sounds   int64
	seq      uint64
	random   uint64

	noise   []byte // bytes none of which is zero
	payload []byte // of the tag made last
}

// NewSynth makes the source of stream number stream.
func NewSynth(stream, bitRate int, keyInterval time.Duration) *Synth {
	gop := max(1, int(keyInterval*pictureRate/time.Second))
	soundShare := soundBytes * float64(soundRate) / soundSamples
	perPicture := (float64(bitRate)/8 - soundShare) / pictureRate
	s := &Synth{
		stream:  stream,
		gop:     gop,
		picture: max(96, int(perPicture*float64(gop)/float64(gop-1+keyWeight))),
		random:  uint64(stream)*0x9e3779b97f4a7c15 + 1,
	}
	s.noise = make([]byte, keyWeight*s.picture*2)
	for i := range s.noise {
		s.noise[i] = byte(s.rand()) | 1
	}
	s.payload = make([]byte, 0, len(s.noise))
	return s
}

// Headers are the tags that come before all others: metadata, and what the
// decoders need. They carry no marker.
func (s *Synth) Headers(bitRate int) []Tag {
	return []Tag{
		{Kind: Script, Payload: metadata(bitRate)},
		{Kind: Video, Payload: avcHeader},
		{Kind: Audio, Payload: []byte{0xaf, 0x00, 0x12, 0x10}}, // AAC-LC, 44.1 kHz, stereo
	}
}

// Due is when the next tag leaves, counted from the beginning of the stream.
func (s *Synth) Due() time.Duration { return min(s.pictureDue(), s.soundDue()) }

func (s *Synth) pictureDue() time.Duration {
	return time.Duration(s.pictures) * time.Second / pictureRate
}

func (s *Synth) soundDue() time.Duration {
	return time.Duration(s.sounds*soundSamples) * time.Second / soundRate
}

// Next makes the next tag and marks it as sent now. Its payload is valid until
// the next call.
func (s *Synth) Next(now time.Time) Tag {
	s.seq++
	m := marker{stream: s.stream, seq: s.seq, sent: now.UnixNano()}
	ts := uint32(s.Due() / time.Millisecond)
	if s.pictureDue() <= s.soundDue() {
		key := s.pictures%int64(s.gop) == 0
		s.pictures++
		return Tag{Kind: Video, Timestamp: ts, Payload: s.video(m, key)}
	}
	s.sounds++
	return Tag{Kind: Audio, Timestamp: ts, Payload: s.audio(m)}
}

// video is an access unit of two NAL units: an SEI with the marker, and a
// slice as large as the picture.
func (s *Synth) video(m marker, key bool) []byte {
	size, first, nal := s.picture*3/4+s.below(s.picture/2), byte(0x27), interSlice
	if key {
		size, first, nal = s.picture*keyWeight, 0x17, keySlice
	}
	p := append(s.payload[:0], first, 1, 0, 0, 0)
	sei := 3 + markerLen + 1 // type, size, contents, stop bit
	p = binary.BigEndian.AppendUint32(p, uint32(sei))
	p = append(p, 6, 5, byte(markerLen))
	p = append(p, make([]byte, markerLen)...)
	m.put(p[videoMarkerAt:])
	p = append(p, 0x80)
	slice := max(16, size-len(p)-4)
	p = binary.BigEndian.AppendUint32(p, uint32(slice))
	p = append(p, nal...)
	p = append(p, s.noise[:slice-len(nal)]...)
	s.payload = p
	return p
}

// How a slice begins: type of the NAL unit, first macroblock, kind of slice,
// parameter set. Players that probe a stream read that far.
const (
	keySlice   = "\x65\x88\x84"
	interSlice = "\x41\x9a\x21"
)

func (s *Synth) audio(m marker) []byte {
	p := append(s.payload[:0], 0xaf, 1)
	p = append(p, s.noise[:soundBytes-len(p)]...)
	m.put(p[audioMarkerAt:])
	s.payload = p
	return p
}

// below is a number from 0 to n-1.
func (s *Synth) below(n int) int { return int(s.rand() % uint64(n)) }

func (s *Synth) rand() uint64 {
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	return s.random
}

// avcHeader is the decoder configuration of a 1280x720 Main Profile stream.
var avcHeader = []byte{
	0x17, 0x00, 0x00, 0x00, 0x00, 0x01, 0x4d, 0x40, 0x1f, 0xff, 0xe1, 0x00, 0x17,
	0x67, 0x4d, 0x40, 0x1f, 0xda, 0x01, 0x40, 0x16, 0xec, 0x04, 0x40, 0x00, 0x00, 0x03,
	0x00, 0x40, 0x00, 0x00, 0x0f, 0x03, 0xc6, 0x0c, 0xa8,
	0x01, 0x00, 0x04, 0x68, 0xef, 0x0f, 0xc8,
}

// metadata is onMetaData with the usual fields, in AMF0.
func metadata(bitRate int) []byte {
	fields := []struct {
		name  string
		value float64
	}{
		{"duration", 0}, {"width", 1280}, {"height", 720}, {"framerate", pictureRate},
		{"videocodecid", 7}, {"videodatarate", float64(bitRate)/1000 - 128},
		{"audiocodecid", 10}, {"audiodatarate", 128}, {"audiosamplerate", soundRate}, {"audiosamplesize", 16},
	}
	p := append([]byte{2, 0, 10}, "onMetaData"...)
	p = append(p, 8)
	p = binary.BigEndian.AppendUint32(p, uint32(len(fields)))
	for _, f := range fields {
		p = binary.BigEndian.AppendUint16(p, uint16(len(f.name)))
		p = append(p, f.name...)
		p = append(p, 0)
		p = binary.BigEndian.AppendUint64(p, math.Float64bits(f.value))
	}
	return append(p, 0, 0, 9)
}
