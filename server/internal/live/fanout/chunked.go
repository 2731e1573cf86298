package fanout

import "strconv"

// A chunkWriter divides a response into the chunks of HTTP/1.1, one for each batch. Without chunks,
// only the end of the connection ends the response, and ffmpeg reports that as a broken connection.
//
// The line before a chunk leaves in the same system call as the chunk.
type chunkWriter struct {
	on    bool // HTTP/1.0 has no chunks
	begun bool // the end of the last chunk is still to be sent
	ended bool // the last one was announced

	line []byte // is sent before the next bytes of the stream; part of room
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

// end sets line to the last chunk, which is empty. It returns false if there are no chunks, or if
// it was called before.
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
