package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The synthetic stream has 30 video frames and 43.07 audio frames a second, like a camera with 44.1
// kHz audio.
const (
	pictureRate  = 30
	soundRate    = 44100
	soundSamples = 1024 // audio samples in one AAC frame
	soundBytes   = 372  // payload of one AAC frame at 128 kbit/s, in bytes
	keyWeight    = 8    // size of a keyframe, divided by the size of another frame
)

// Synth generates the tags of one stream. The bytes that a relay reads are valid FLV. The bytes
// that only a decoder reads are noise.
type Synth struct {
	stream  int
	gop     int // number of video frames from keyframe to keyframe
	picture int // average size of a video frame that is not a keyframe

	pictures int64 // number of video frames so far
	sounds   int64
	seq      uint64

	noise   []byte // random bytes without zeros; the data of a tag starts at offset seq % noiseShift
	payload []byte // memory for the payload of the last tag
}

const noiseShift = 1021

// NewSynth returns a generator. The parameter stream is the number of the generated stream, and
// bitRate is in bits per second. Two generators with the same arguments generate the same bytes,
// except the times of sending.
func NewSynth(stream, bitRate int, keyInterval time.Duration) *Synth {
	gop := max(1, int(keyInterval*pictureRate/time.Second))
	soundShare := soundBytes * float64(soundRate) / soundSamples
	perPicture := (float64(bitRate)/8 - soundShare) / pictureRate
	s := &Synth{
		stream:  stream,
		gop:     gop,
		picture: max(96, int(perPicture*float64(gop)/float64(gop-1+keyWeight))),
	}
	s.noise = make([]byte, keyWeight*s.picture+noiseShift)
	random := rand.New(rand.NewPCG(uint64(stream), 1))
	for i := range s.noise {
		s.noise[i] = byte(1 + random.IntN(255))
	}
	return s
}

// Headers returns the tags at the start of the stream: the metadata and the decoder configurations.
// Unlike the tags that Next returns, they contain no sequence number and no time of sending.
func (s *Synth) Headers(bitRate int) []Tag {
	return []Tag{
		{Kind: Script, Payload: metadata(bitRate)},
		{Kind: Video, Payload: avcHeader},
		{Kind: Audio, Payload: []byte{0xaf, 0x00, 0x12, 0x10}}, // AAC-LC, 44.1 kHz, stereo
	}
}

// Due returns the time, from the start of the stream, at which the next tag must be sent.
func (s *Synth) Due() time.Duration { return min(s.pictureDue(), s.soundDue()) }

func (s *Synth) pictureDue() time.Duration {
	return time.Duration(s.pictures) * time.Second / pictureRate
}

func (s *Synth) soundDue() time.Duration {
	return time.Duration(s.sounds*soundSamples) * time.Second / soundRate
}

// Next returns the next tag. The payload contains the tag's number and the time of sending, which
// is the argument now. The payload is valid until the next call to Next.
func (s *Synth) Next(now time.Time) Tag {
	s.seq++
	m := marker{stream: s.stream, seq: s.seq, sent: now.UnixNano()}
	t := Tag{Kind: Audio, Timestamp: uint32(s.Due() / time.Millisecond)}
	key := false
	if s.pictureDue() <= s.soundDue() {
		t.Kind = Video
		key = s.pictures%int64(s.gop) == 0
		s.pictures++
	} else {
		s.sounds++
	}
	s.payload = s.appendPayload(s.payload[:0], t.Kind, m, key)
	t.Payload = s.payload
	return t
}

// Verify checks every byte of a tag's payload. The tag must come from a Synth that was created with
// the same arguments as s. Verify returns the tag's number and its time of sending. For metadata
// and decoder configurations (see Headers), the number is 0.
func (s *Synth) Verify(kind byte, payload []byte) (seq uint64, sent time.Time, err error) {
	m, ok := findMarker(kind, payload)
	if !ok {
		for _, h := range s.Headers(0) {
			if h.Kind == kind && (kind == Script || bytes.Equal(h.Payload, payload)) {
				return 0, time.Time{}, nil
			}
		}
		return 0, time.Time{}, fmt.Errorf("a payload of %d bytes without a number", len(payload))
	}
	if m.stream != s.stream {
		return 0, time.Time{}, fmt.Errorf("tag %d is of stream %d, not of %d", m.seq, m.stream,
			s.stream)
	}
	s.payload = s.appendPayload(s.payload[:0], kind, m, payload[0] == keyPicture)
	if !bytes.Equal(payload, s.payload) {
		return 0, time.Time{}, fmt.Errorf("tag %d has %d bytes that are not the %d that were sent",
			m.seq, len(payload), len(s.payload))
	}
	return m.seq, time.Unix(0, m.sent), nil
}

// The first byte of a video payload: frame type and codec.
const (
	keyPicture   = 0x17
	interPicture = 0x27
)

// appendPayload appends the payload of a tag to p. The payload contains the marker m. kind is Audio
// or Video. key is true for a keyframe.
func (s *Synth) appendPayload(p []byte, kind byte, m marker, key bool) []byte {
	noise := s.noise[m.seq%noiseShift:]
	if kind == Audio {
		p = append(p, 0xaf, 1)
		p = append(p, noise[:soundBytes-len(p)]...)
		m.put(p[audioMarkerAt:])
		return p
	}
	// The payload is an access unit of two NAL units: an SEI with the marker, and a slice.
	size, first, nal := s.picture*3/4+int(m.seq*2654435761%uint64(s.picture/2)), byte(interPicture),
		interSlice
	if key {
		size, first, nal = s.picture*keyWeight, keyPicture, keySlice
	}
	p = append(p, first, 1, 0, 0, 0)
	sei := 3 + markerLen + 1 // type, size, marker, stop bit
	p = binary.BigEndian.AppendUint32(p, uint32(sei))
	p = append(p, 6, 5, byte(markerLen))
	p = append(p, make([]byte, markerLen)...)
	m.put(p[videoMarkerAt:])
	p = append(p, 0x80)
	slice := max(16, size-len(p)-4)
	p = binary.BigEndian.AppendUint32(p, uint32(slice))
	p = append(p, nal...)
	return append(p, noise[:slice-len(nal)]...)
}

// The first bytes of a slice: type of the NAL unit, first macroblock, slice type, parameter set.
// Players that probe a stream read these fields.
const (
	keySlice   = "\x65\x88\x84"
	interSlice = "\x41\x9a\x21"
)

// avcHeader is the sequence header of a 1280x720 Main Profile stream.
var avcHeader = []byte{
	0x17, 0x00, 0x00, 0x00, 0x00, 0x01, 0x4d, 0x40, 0x1f, 0xff, 0xe1, 0x00, 0x17,
	0x67, 0x4d, 0x40, 0x1f, 0xda, 0x01, 0x40, 0x16, 0xec, 0x04, 0x40, 0x00, 0x00, 0x03,
	0x00, 0x40, 0x00, 0x00, 0x0f, 0x03, 0xc6, 0x0c, 0xa8,
	0x01, 0x00, 0x04, 0x68, 0xef, 0x0f, 0xc8,
}

// metadata returns an onMetaData message with the usual fields, in AMF0.
func metadata(bitRate int) []byte {
	fields := []struct {
		name  string
		value float64
	}{
		{"duration", 0}, {"width", 1280}, {"height", 720}, {"framerate", pictureRate},
		{"videocodecid", 7}, {"videodatarate", float64(bitRate)/1000 - 128},
		{"audiocodecid", 10}, {"audiodatarate", 128}, {"audiosamplerate", soundRate},
		{"audiosamplesize", 16},
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
