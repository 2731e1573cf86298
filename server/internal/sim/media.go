package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// A frame identifies a frame of video. The bytes of the video frame contain it, so that every
// client can check the frames that it receives.
type frame struct {
	stream  int
	session int    // the publisher's connection; later connections have greater numbers
	seq     int    // the number of the frame in the session, from 0
	sent    int64  // when the publisher sent it, in milliseconds since the start of the history
	key     bool   // a keyframe
	time    uint32 // the timestamp, in milliseconds
}

func (f frame) String() string {
	return fmt.Sprintf("frame %d of session %d of s%d", f.seq, f.session, f.stream)
}

// magic begins the description of a frame.
const magic = "\xf5MRFRAME"

const markerLen = len(magic) + 4 + 4 + 4 + 8 + 1

// fill makes frames longer than their description, so that a stream fills the windows of TCP.
var fill [1500]byte

// payload returns the data of an FLV tag for the frame.
func (f frame) payload() []byte {
	first, nal := byte(0x27), byte(0x41)
	size := 200
	if f.key {
		first, nal, size = 0x17, 0x65, len(fill)
	}
	p := make([]byte, 0, 16+markerLen+size)
	p = append(p, first, 1, 0, 0, 0)
	p = binary.BigEndian.AppendUint32(p, uint32(1+markerLen+size))
	p = append(p, nal)
	p = append(p, magic...)
	p = binary.BigEndian.AppendUint32(p, uint32(f.stream))
	p = binary.BigEndian.AppendUint32(p, uint32(f.session))
	p = binary.BigEndian.AppendUint32(p, uint32(f.seq))
	p = binary.BigEndian.AppendUint64(p, uint64(f.sent))
	p = append(p, nal)
	return append(p, fill[:size]...)
}

// frames returns the frames that p has, in order.
func frames(p []byte) (list []frame) {
	for {
		at := bytes.Index(p, []byte(magic))
		if at < 0 || len(p) < at+markerLen {
			return list
		}
		p = p[at+len(magic):]
		list = append(list, frame{
			stream:  int(binary.BigEndian.Uint32(p)),
			session: int(binary.BigEndian.Uint32(p[4:])),
			seq:     int(binary.BigEndian.Uint32(p[8:])),
			sent:    int64(binary.BigEndian.Uint64(p[12:])),
			key:     p[20] == 0x65,
		})
	}
}

const (
	typeVideo  = 9
	typeScript = 18
)

// avcHeader is the sequence header of a video of 1280 x 720.
var avcHeader = []byte{
	0x17, 0x00, 0x00, 0x00, 0x00, 0x01, 0x4d, 0x40, 0x1f, 0xff, 0xe1, 0x00, 0x17,
	0x67, 0x4d, 0x40, 0x1f, 0xda, 0x01, 0x40, 0x16, 0xec, 0x04, 0x40, 0x00, 0x00, 0x03,
	0x00, 0x40, 0x00, 0x00, 0x0f, 0x03, 0xc6, 0x0c, 0xa8,
	0x01, 0x00, 0x04, 0x68, 0xef, 0x0f, 0xc8,
}

// flvHeader is the header of an FLV stream with video only.
var flvHeader = []byte{'F', 'L', 'V', 1, 1, 0, 0, 0, 9, 0, 0, 0, 0}

// appendTag appends an FLV tag.
func appendTag(p []byte, kind byte, at uint32, data []byte) []byte {
	n := len(data)
	p = append(p, kind, byte(n>>16), byte(n>>8), byte(n), byte(at>>16), byte(at>>8), byte(at),
		byte(at>>24), 0, 0, 0)
	p = append(p, data...)
	return binary.BigEndian.AppendUint32(p, uint32(11+n))
}

// A tag is an FLV tag that a viewer has received.
type tag struct {
	kind byte
	at   uint32
	data []byte
}

// readTag reads an FLV tag.
func readTag(r io.Reader) (t tag, err error) {
	var head [11]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return t, err
	}
	t.kind = head[0]
	t.at = uint32(head[7])<<24 | uint32(head[4])<<16 | uint32(head[5])<<8 | uint32(head[6])
	n := int(head[1])<<16 | int(head[2])<<8 | int(head[3])
	p := make([]byte, n+4)
	if _, err := io.ReadFull(r, p); err != nil {
		return t, io.ErrUnexpectedEOF
	}
	if got := binary.BigEndian.Uint32(p[n:]); int(got) != 11+n {
		return t, fmt.Errorf("the tag says at its end that it has %d bytes, and it has %d", got, 11+n)
	}
	t.data = p[:n]
	return t, nil
}

// frame returns the frame of a video tag. ok is false for other tags.
func (t *tag) frame() (f frame, ok bool) {
	if t.kind != typeVideo || len(t.data) < 5 || t.data[1] != 1 {
		return f, false
	}
	list := frames(t.data)
	if len(list) != 1 {
		return f, false
	}
	f = list[0]
	f.time = t.at
	if f.key != (t.data[0] == 0x17) || !bytes.Equal(t.data, f.payload()) {
		return f, false
	}
	return f, true
}

func ms(d time.Duration) int64 { return d.Milliseconds() }
