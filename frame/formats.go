package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Uint16 returns the format of frames that begin with the payload's length in two bytes.
func Uint16(order binary.ByteOrder) Encoding { return lengthPrefix{2, order} }

// Uint32 returns the format of frames that begin with the payload's length in four bytes.
func Uint32(order binary.ByteOrder) Encoding { return lengthPrefix{4, order} }

type lengthPrefix struct {
	size  int // 2 or 4
	order binary.ByteOrder
}

func (f lengthPrefix) HeaderSize() int { return f.size }

func (f lengthPrefix) Parse(p []byte) (Header, error) {
	if f.size == 2 {
		return Header{Payload: int(f.order.Uint16(p))}, nil
	}
	return Header{Payload: payloadSize(uint64(f.order.Uint32(p)))}, nil
}

func (f lengthPrefix) AppendHeader(dst []byte, h Header) ([]byte, error) {
	n := uint64(h.Payload)
	switch {
	case f.size == 2 && n <= math.MaxUint16:
		dst = append(dst, 0, 0)
		f.order.PutUint16(dst[len(dst)-2:], uint16(n))
		return dst, nil
	case f.size == 4 && n <= math.MaxUint32:
		dst = append(dst, 0, 0, 0, 0)
		f.order.PutUint32(dst[len(dst)-4:], uint32(n))
		return dst, nil
	}
	return dst, tooLong(h, f.size)
}

func tooLong(h Header, size int) error {
	return fmt.Errorf("frame: a payload of %d bytes is too long for a header of up to %d bytes",
		h.Payload, size)
}

// payloadSize converts a payload's length to an int. If the length does not fit, the result is
// math.MaxInt, which is above every limit of a Decoder.
func payloadSize(n uint64) int { return int(min(n, math.MaxInt)) }

// Varint returns the format of frames that begin with the payload's length as a varint (see
// [binary.AppendUvarint]), such as length-delimited Protocol Buffers.
func Varint() VarEncoding { return varint{} }

type varint struct{}

func (varint) MaxHeader() int { return binary.MaxVarintLen64 }

func (varint) ParseVar(p []byte) (Header, int, error) {
	n, size := binary.Uvarint(p)
	if size < 0 {
		return Header{}, 0, errors.New("frame: a varint of more than 64 bits")
	}
	return Header{Payload: payloadSize(n)}, size, nil
}

func (varint) AppendHeader(dst []byte, h Header) ([]byte, error) {
	return binary.AppendUvarint(dst, uint64(h.Payload)), nil
}

// MQTT returns the format of MQTT control packets (MQTT 5.0, section 2.1). [Header.Kind] is the
// packet type, 0 to 15, and [Header.Info] has the four flag bits. The frame's payload is the
// packet's variable header and payload.
func MQTT() VarEncoding { return mqtt{} }

type mqtt struct{}

// mqttMost is the largest remaining length of an MQTT packet (section 1.5.5).
const mqttMost = 1<<28 - 1

func (mqtt) MaxHeader() int { return 5 }

func (mqtt) ParseVar(p []byte) (Header, int, error) {
	n, size := binary.Uvarint(p[1:])
	switch {
	case size > 4 || size <= 0 && len(p) == 5:
		return Header{}, 0, errors.New("frame: an MQTT remaining length of more than 4 bytes")
	case size == 0:
		return Header{}, 0, nil
	}
	return Header{Payload: int(n), Kind: uint32(p[0] >> 4), Info: uint64(p[0] & 0xf)}, 1 + size, nil
}

func (mqtt) AppendHeader(dst []byte, h Header) ([]byte, error) {
	if h.Payload > mqttMost {
		return dst, tooLong(h, 5)
	}
	if h.Kind > 0xf || h.Info > 0xf {
		return dst, fmt.Errorf("frame: MQTT packet type %d and flags %#x; each has 4 bits", h.Kind,
			h.Info)
	}
	return binary.AppendUvarint(append(dst, byte(h.Kind<<4)|byte(h.Info)), uint64(h.Payload)), nil
}

// Lines returns the format of text lines. Each line, including its '\n', is the header of a frame
// without a payload. The limit is the maximum length of a line in bytes, and must not exceed the
// Size of the Reader. For a longer line, the Decoder returns a *HeaderError. For lines longer than
// the Size, see [millrace.Reader.ReadChainDelim].
func Lines(limit int) VarFormat { return lines(limit) }

type lines int

func (f lines) MaxHeader() int { return int(f) }

func (f lines) ParseVar(p []byte) (Header, int, error) {
	return Header{}, bytes.IndexByte(p, '\n') + 1, nil
}

// RESPBulk returns the format of bulk strings of the Redis protocol: "$5\r\nhello\r\n". The payload
// includes the "\r\n" at its end. For the null bulk string "$-1\r\n", the payload is empty, and
// [Header.Info] is 1. To encode a frame, the caller passes a payload that ends with "\r\n".
func RESPBulk() VarEncoding { return respBulk{} }

type respBulk struct{}

// respHeader is the maximum size of a header: a length of up to ten digits, between "$" and "\r\n".
const respHeader = len("$1234567890\r\n")

var errRESP = errors.New("frame: not the header of a RESP bulk string")

func (respBulk) MaxHeader() int { return respHeader }

func (respBulk) ParseVar(p []byte) (Header, int, error) {
	if p[0] != '$' {
		return Header{}, 0, errRESP
	}
	size := bytes.IndexByte(p, '\n') + 1
	if size == 0 {
		return Header{}, 0, nil
	}
	digits, ok := bytes.CutSuffix(p[1:size], []byte("\r\n"))
	if string(digits) == "-1" && ok {
		return Header{Info: 1}, size, nil
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || !ok {
		return Header{}, 0, errRESP
	}
	return Header{Payload: payloadSize(n + uint64(len("\r\n")))}, size, nil
}

func (respBulk) AppendHeader(dst []byte, h Header) ([]byte, error) {
	if h.Info == 1 && h.Payload == 0 {
		return append(dst, "$-1\r\n"...), nil
	}
	if h.Payload < len("\r\n") {
		return dst, errors.New(`frame: the payload of a RESP bulk string ends with "\r\n"`)
	}
	n := len(dst)
	dst = strconv.AppendInt(append(dst, '$'), int64(h.Payload-len("\r\n")), 10)
	dst = append(dst, "\r\n"...)
	if len(dst)-n > respHeader {
		return dst[:n], tooLong(h, respHeader)
	}
	return dst, nil
}
