package fanout

import "strconv"

// A chunkWriter divides a response into HTTP/1.1 chunks. Each batch of frames that is taken from
// the ring becomes one chunk. Without chunks, the response would end only when its connection ends,
// which ffmpeg reports as a broken connection.
//
// The size line of a chunk is sent in the same system call as the chunk.
type chunkWriter struct {
	on    bool // false for HTTP/1.0, which has no chunks
	begun bool // a chunk was begun, so the next line must first end it
	ended bool // the last chunk is in line, or was sent

	line []byte // sent before the next bytes of the stream; stored in room
	room [24]byte
}

// begin sets c.line to the header of a chunk of n bytes, which is sent next. n must be positive,
// and the previous c.line must have been sent.
func (c *chunkWriter) begin(n int) {
	if !c.on {
		return
	}
	c.line = strconv.AppendInt(c.endOfLast(), int64(n), 16)
	c.line = append(c.line, "\r\n"...)
	c.begun = true
}

// end sets c.line to the last chunk of the response, which has no data and is sent next. It returns
// false if the response has no chunks, or if end was called before.
func (c *chunkWriter) end() bool {
	if !c.on || c.ended {
		return false
	}
	c.line = append(c.endOfLast(), "0\r\n\r\n"...)
	c.ended = true
	return true
}

func (c *chunkWriter) endOfLast() []byte {
	if c.begun {
		return append(c.room[:0], "\r\n"...)
	}
	return c.room[:0]
}
