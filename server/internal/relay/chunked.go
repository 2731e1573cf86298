package relay

import "strconv"

// A chunkWriter puts a response into chunks as it is sent, one per batch. Without them only the end of the connection
// would end the response, and a player could not tell the stream's end from a broken connection. (ffmpeg takes it for
// broken.)
//
// It makes the line in front of a chunk, which goes out in the same system call as the chunk.
type chunkWriter struct {
	on    bool // HTTP/1.0 has no chunks
	begun bool // a chunk was sent, whose end is still to be sent
	ended bool // the last one was announced

	line []byte // what is to be sent before the next bytes of the stream; part of room
	room [24]byte
}

// begin sets line to the start of a chunk of n bytes, n > 0. The line before has been sent.
func (c *chunkWriter) begin(n int) {
	if !c.on {
		return
	}
	c.line = strconv.AppendInt(c.endOfLast(), int64(n), 16)
	c.line = append(c.line, "\r\n"...)
	c.begun = true
}

// end sets line to the last chunk, which is empty. It returns false if there are no chunks, or if it was called before.
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
