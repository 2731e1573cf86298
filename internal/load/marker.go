package load

// A marker identifies a tag: it contains the number of the stream, the number of the tag, and the
// time of sending. It is stored in the first bytes of the tag's payload. Its digits are base 128
// with the top bit set, so that no byte is zero: H.264 would require an escape for 00 00 0x.
type marker struct {
	stream int // number of the publisher
	// The number of the tag, from 1. Sequence headers and metadata have no number.
	seq  uint64
	sent int64 // wall clock time in ns, for other processes on this machine
}

// magic is a UUID that begins a marker.
const magic = "\x8dMillrace\xa7load\xc3\x91"

const (
	streamDigits = 5
	seqDigits    = 10
	sentDigits   = 10
	markerLen    = len(magic) + streamDigits + seqDigits + sentDigits

	// The offset of the marker in the payload of an audio or video tag. An audio marker comes after
	// an AAC header of two bytes. A video marker comes after an AVC header of five bytes, a length
	// of four bytes, and the three bytes that begin an SEI message.
	audioMarkerAt = 2
	videoMarkerAt = 5 + 4 + 3
)

func (m marker) put(p []byte) {
	n := copy(p, magic)
	n += putDigits(p[n:n+streamDigits], uint64(m.stream))
	n += putDigits(p[n:n+seqDigits], m.seq)
	putDigits(p[n:n+sentDigits], uint64(m.sent))
}

// findMarker returns the marker of a tag. head contains the first bytes of the tag's payload. If
// there is no marker in head, findMarker returns false.
func findMarker(kind byte, head []byte) (m marker, ok bool) {
	at := audioMarkerAt
	if kind == Video {
		at = videoMarkerAt
	}
	if len(head) < at+markerLen || string(head[at:at+len(magic)]) != magic {
		return marker{}, false
	}
	p := head[at+len(magic):]
	m.stream = int(digits(p[:streamDigits]))
	m.seq = digits(p[streamDigits : streamDigits+seqDigits])
	m.sent = int64(digits(p[streamDigits+seqDigits : streamDigits+seqDigits+sentDigits]))
	return m, true
}

// putDigits writes v in base 128 to p, the lowest digit last. It returns len(p).
func putDigits(p []byte, v uint64) int {
	for i := len(p) - 1; i >= 0; i-- {
		p[i] = 0x80 | byte(v&0x7f)
		v >>= 7
	}
	return len(p)
}

func digits(p []byte) (v uint64) {
	for _, b := range p {
		v = v<<7 | uint64(b&0x7f)
	}
	return v
}
