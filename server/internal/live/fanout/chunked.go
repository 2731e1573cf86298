package fanout

import "strconv"

// A chunkWriter divides a response into HTTP/1.1 chunks, one for each batch of frames. Without
// chunks, the response would end with its connection, which ffmpeg reports as broken.
//
// The size line of a chunk is sent in the same system call as the chunk.
type chunkWriter struct {
	on    bool // off for HTTP/1.0, which has no chunks
	begun bool // a chunk was begun, so the next line must first end it
	ended bool // the last chunk is in line, or was sent

	line []byte // sent before the next bytes of the stream; stored in room
	room [24]byte
}

// begin puts the header of a chunk of n bytes in c.line, which must be empty. n must be positive.
func (c *chunkWriter) begin(n int) {
	if !c.on {
		return
	}
	c.line = strconv.AppendInt(c.endOfLast(), int64(n), 16)
	c.line = append(c.line, "\r\n"...)
	c.begun = true
}

// end puts the last chunk, which is empty, in c.line. It returns false if there are no chunks, or
// if it was called before.
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
