package fanout

import (
	"encoding/binary"
	"strconv"
)

// A framing is a way to divide a response into parts.
type framing uint8

const (
	unframed   framing = iota // the response ends when its connection ends
	httpChunks                // HTTP/1.1 chunks
	webSocket                 // binary WebSocket messages; see RFC 6455, section 5
)

// A chunkWriter divides a response into chunks. Each batch of frames that is taken from the ring
// becomes one chunk. Without HTTP/1.1 chunks, the response would end only when its connection ends,
// which ffmpeg reports as a broken connection.
//
// The header of a chunk is sent in the same system call as the chunk.
type chunkWriter struct {
	framing framing
	begun   bool // a chunk was begun, so the next line must first end it
	ended   bool // the last chunk is in line, or was sent

	line []byte // sent before the next bytes of the stream; stored in room
	room [24]byte
}

// begin sets c.line to the header of a chunk of n bytes, which is sent next. n must be positive,
// and the previous c.line must have been sent.
func (c *chunkWriter) begin(n int) {
	switch c.framing {
	case httpChunks:
		c.line = strconv.AppendInt(c.endOfLast(), int64(n), 16)
		c.line = append(c.line, "\r\n"...)
		c.begun = true
	case webSocket:
		c.line = appendMessageHeader(c.room[:0], n)
	}
}

// end sets c.line to the last chunk of the response, which has no data and is sent next. It returns
// false if the response has no chunks, or if end was called before.
func (c *chunkWriter) end() bool {
	if c.ended {
		return false
	}
	switch c.framing {
	case unframed:
		return false
	case httpChunks:
		c.line = append(c.endOfLast(), "0\r\n\r\n"...)
	case webSocket:
		c.line = append(c.room[:0], closeNormally...)
	}
	c.ended = true
	return true
}

func (c *chunkWriter) endOfLast() []byte {
	if c.begun {
		return append(c.room[:0], "\r\n"...)
	}
	return c.room[:0]
}

// closeNormally is a WebSocket close frame with the status 1000.
const closeNormally = "\x88\x02\x03\xe8"

// appendMessageHeader appends the header of a binary WebSocket message of n bytes.
func appendMessageHeader(b []byte, n int) []byte {
	const binaryMessage = 0x82 // the only frame of its message
	switch {
	case n < 126:
		return append(b, binaryMessage, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, binaryMessage, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, binaryMessage, 127), uint64(n))
}
