package sv2

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/millrace-io/millrace/frame"
)

const (
	// HeaderSize is the size in bytes of a message's header, before encryption.
	HeaderSize = 6

	// MaxPayload is the largest payload that a header can announce.
	MaxPayload = 1<<24 - 1

	// channelBit is the top bit of the extension field. It is set if the message is for a channel
	// (see Header.Channel). The other 15 bits are the number of the extension.
	channelBit = 1 << 15
)

// Header is the header of a message.
type Header struct {
	ExtensionType uint16 // the message's extension, 15 bits; 0 for the protocol itself
	Channel       bool   // the payload begins with the channel's id
	MessageType   uint8
	Length        int // bytes of payload, including the channel's id; at most MaxPayload
}

// ParseHeader parses the first HeaderSize bytes of p, which it borrows. Any six bytes are a valid
// header. If p is shorter, the error is io.ErrUnexpectedEOF.
func ParseHeader(p []byte) (Header, error) {
	if len(p) < HeaderSize {
		return Header{}, io.ErrUnexpectedEOF
	}
	extension := binary.LittleEndian.Uint16(p)
	return Header{
		ExtensionType: extension &^ channelBit,
		Channel:       extension&channelBit != 0,
		MessageType:   p[2],
		Length:        int(p[3]) | int(p[4])<<8 | int(p[5])<<16,
	}, nil
}

// Append appends the header's six bytes to dst, which it borrows, and returns the extended slice.
// If Length is negative or more than MaxPayload, Append returns a *frame.LimitError. If
// ExtensionType has more than 15 bits, Append returns an error of another type. After an error, the
// result is dst unchanged.
func (h Header) Append(dst []byte) ([]byte, error) {
	extension := h.ExtensionType
	if extension >= channelBit {
		return dst, fmt.Errorf(
			"sv2: extension type %#x has more than 15 bits; the channel bit is Channel", extension)
	}
	if h.Length < 0 || h.Length > MaxPayload {
		return dst, &frame.LimitError{Kind: h.Kind(), Have: h.Length, Limit: MaxPayload}
	}
	if h.Channel {
		extension |= channelBit
	}
	dst = binary.LittleEndian.AppendUint16(dst, extension)
	return append(dst, h.MessageType, byte(h.Length), byte(h.Length>>8), byte(h.Length>>16)), nil
}

// ChannelID parses the channel's id at the start of payload, which it borrows. It returns false if
// h.Channel is not set, or if payload is too short.
func (h Header) ChannelID(payload []byte) (uint32, bool) {
	if !h.Channel || len(payload) < 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(payload), true
}

// Kind combines ExtensionType and MessageType in one number, for the option frame.MaxKind.
func (h Header) Kind() uint32 { return uint32(h.ExtensionType)<<8 | uint32(h.MessageType) }

// Frame converts h to a frame.Header.
func (h Header) Frame() frame.Header {
	f := frame.Header{Payload: h.Length, Kind: h.Kind()}
	if h.Channel {
		f.Info = channelInfo
	}
	return f
}

// maxKind is the highest Kind: 15 bits of extension type and 8 bits of message type.
const maxKind = channelBit<<8 - 1

// channelInfo is the value of frame.Header.Info for a message with Header.Channel set.
const channelInfo = 1

// HeaderOf converts a frame.Header to a Header. It is the inverse of [Header.Frame].
func HeaderOf(f frame.Header) Header {
	return Header{
		ExtensionType: uint16(f.Kind >> 8 & math.MaxUint16),
		Channel:       f.Info&channelInfo != 0,
		MessageType:   uint8(f.Kind & math.MaxUint8),
		Length:        f.Payload,
	}
}

// Format is the frame.Encoding of Stratum V2 messages without encryption. It has no state.
type Format struct{}

var _ frame.Encoding = Format{}

// HeaderSize returns 6, the size of a message header in bytes.
func (Format) HeaderSize() int { return HeaderSize }

// Parse parses a header. It borrows p.
func (Format) Parse(p []byte) (frame.Header, error) {
	h, err := ParseHeader(p)
	return h.Frame(), err
}

// AppendHeader appends the header for f to dst, which it borrows, and returns the extended slice.
// If f.Payload is out of range, the error is a *frame.LimitError. If f.Kind has more than 23 bits,
// AppendHeader returns another error. After an error, dst is returned unchanged.
func (Format) AppendHeader(dst []byte, f frame.Header) ([]byte, error) {
	if f.Kind > maxKind {
		return dst, fmt.Errorf(
			"sv2: kind %#x has more than the 23 bits of an extension and a message type", f.Kind)
	}
	return HeaderOf(f).Append(dst)
}
