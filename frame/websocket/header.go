package websocket

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace"
)

// Opcodes of frames (RFC 6455, section 5.2).
const (
	opContinuation = 0x0
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa
)

const (
	finBit  = 0x80
	rsvBits = 0x70
	maskBit = 0x80

	// maxControl is the maximum payload of a control frame (section 5.5).
	maxControl = 125

	// minHeader is the size of a client's shortest header. maxHeader is the size of the longest
	// header in either direction.
	minHeader = 6
	maxHeader = 14
)

type header struct {
	fin    bool
	opcode byte
	length uint64
	mask   [4]byte
}

func (h *header) control() bool { return h.opcode >= opClose }

// headerSize returns the size of the header at the start of p, which has at least two bytes.
func headerSize(p []byte) int {
	switch p[1] &^ maskBit {
	case 126:
		return minHeader + 2
	case 127:
		return minHeader + 8
	}
	return minHeader
}

func parseHeader(p []byte) (h header, err error) {
	h.fin, h.opcode = p[0]&finBit != 0, p[0]&0xf
	switch {
	case p[0]&rsvBits != 0:
		return h, &CloseError{ProtocolError, "reserved bits are set"}
	case p[1]&maskBit == 0:
		return h, &CloseError{ProtocolError, "the frame is not masked"}
	case h.opcode > byte(Binary) && h.opcode < opClose || h.opcode > opPong:
		return h, &CloseError{ProtocolError, "unknown opcode"}
	}
	switch length := p[1] &^ maskBit; length {
	case 126:
		h.length = uint64(binary.BigEndian.Uint16(p[2:]))
	case 127:
		h.length = binary.BigEndian.Uint64(p[2:])
	default:
		h.length = uint64(length)
	}
	copy(h.mask[:], p[len(p)-4:])
	if h.control() && (h.length > maxControl || !h.fin) {
		return h, &CloseError{ProtocolError, "a control frame is fragmented or above 125 bytes"}
	}
	return h, nil
}

// appendHeader appends the header of an unfragmented frame of a server.
func appendHeader(dst []byte, opcode byte, length int) []byte {
	dst = append(dst, finBit|opcode)
	switch {
	case length <= maxControl:
		return append(dst, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(length))
	}
	return binary.BigEndian.AppendUint64(append(dst, 127), uint64(length))
}

// maxCopy is the size in bytes of the largest payload that AppendMessage copies. A copied payload
// forms one piece with its header, and sending one piece costs less than sending two. Several
// copied messages can also share one block.
const maxCopy = 2 << 10

// AppendMessage appends a message to dst: a header, and the payload. It takes ownership of payload
// and leaves payload empty. It copies a payload of up to 2 KiB, and adds a longer one by reference.
// [Conn.WriteFrames] sends dst.
//
// AppendMessage panics if dst is payload, or if t is neither Text nor Binary. It does not check
// that a Text payload is UTF-8. If the text is not UTF-8, the client closes the connection.
func AppendMessage(dst *millrace.Chain, t Type, payload *millrace.Chain) {
	if dst == payload {
		panic("websocket: AppendMessage of a Chain to itself")
	}
	if t != Text && t != Binary {
		panic(fmt.Sprintf("websocket: AppendMessage of type %d", t))
	}
	var buf [maxHeader + maxCopy]byte
	frame := appendHeader(buf[:0], byte(t), payload.Len())
	if payload.Len() > maxCopy {
		dst.AppendCopy(frame)
		dst.Merge(payload)
		return
	}
	n := payload.CopyTo(buf[len(frame):])
	dst.AppendCopy(buf[:len(frame)+n])
	payload.Release()
}

// unmask applies the mask to p in place. The argument offset is the position of p in the payload.
func unmask(p []byte, mask [4]byte, offset int) {
	var m [8]byte
	for i := range m {
		m[i] = mask[(offset+i)%4]
	}
	word := binary.NativeEndian.Uint64(m[:])
	for len(p) >= 32 {
		q := p[:32]
		binary.NativeEndian.PutUint64(q, binary.NativeEndian.Uint64(q)^word)
		binary.NativeEndian.PutUint64(q[8:], binary.NativeEndian.Uint64(q[8:])^word)
		binary.NativeEndian.PutUint64(q[16:], binary.NativeEndian.Uint64(q[16:])^word)
		binary.NativeEndian.PutUint64(q[24:], binary.NativeEndian.Uint64(q[24:])^word)
		p = p[32:]
	}
	for i := range p {
		p[i] ^= m[i%4]
	}
}
