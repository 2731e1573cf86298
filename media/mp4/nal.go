package mp4

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// An AVC or HEVC video frame is a sequence of NAL units. The length of each unit precedes the unit.
// Some encoders send units of length 0, which decoders cannot handle. Others send frames in the
// Annex B format, which has start codes instead of lengths.

type unitScanner struct {
	codec flv.Codec
	size  int // size of the length before each unit, in bytes

	empty   [][2]int // offsets of the units of length 0: start and end
	picture bool     // the frame contains a slice
}

// scan sets s.empty and s.picture. It reports whether data, which it borrows, is a sequence of NAL
// units, perhaps with zeros at the end.
func (s *unitScanner) scan(data *millrace.Chain) bool {
	at, total := 0, data.Len()
	// length is the length of the current unit. It is read byte by byte, and lengthBytes is the
	// number of its bytes that have been read. rest is the number of bytes of the unit that remain.
	length, lengthBytes, rest := 0, 0, 0
	first := false // the next byte is the first byte of a unit
	for p := range data.All() {
		for len(p) > 0 {
			if rest > 0 {
				if first {
					first = false
					s.picture = s.picture || s.isPicture(p[0])
				}
				n := min(rest, len(p))
				p, at, rest = p[n:], at+n, rest-n
				continue
			}
			length, lengthBytes = length<<8|int(p[0]), lengthBytes+1
			p, at = p[1:], at+1
			if lengthBytes < s.size {
				continue
			}
			switch {
			case length == 0:
				s.addEmpty(at-s.size, at)
			case length > total-at:
				return false
			}
			rest, first = length, true
			length, lengthBytes = 0, 0
		}
	}
	if lengthBytes > 0 && length == 0 { // padding
		s.addEmpty(at-lengthBytes, at)
		lengthBytes = 0
	}
	return lengthBytes == 0
}

func (s *unitScanner) addEmpty(from, to int) {
	if n := len(s.empty); n > 0 && s.empty[n-1][1] == from {
		s.empty[n-1][1] = to
		return
	}
	s.empty = append(s.empty, [2]int{from, to})
}

// isPicture reports whether a NAL unit is a slice. first is the first byte of the unit.
func (s *unitScanner) isPicture(first byte) bool {
	if s.codec == flv.HEVC {
		return first>>1&0x3f < 32 // ITU-T H.265, table 7-1
	}
	kind := first & 0x1f // ITU-T H.264, table 7-1
	return 1 <= kind && kind <= 5
}

// cleanUnits drops the NAL units of length 0 from a frame. If the frame is not a sequence of NAL
// units, or has no slice, it returns false.
func (m *Muxer) cleanUnits(c *config, data *millrace.Chain) bool {
	s := unitScanner{codec: c.codec, size: c.lengthSize, empty: m.empty[:0]}
	ok := s.scan(data) && s.picture
	m.empty = s.empty
	if !ok {
		m.leftOut++
		return false
	}
	if len(s.empty) == 0 {
		return true
	}
	m.leftOut += int64(len(s.empty))
	var clean millrace.Chain
	at := 0
	for _, e := range s.empty {
		data.SliceTo(&clean, at, e[0])
		at = e[1]
	}
	data.SliceTo(&clean, at, data.Len())
	data.Release()
	data.Merge(&clean)
	return true
}
