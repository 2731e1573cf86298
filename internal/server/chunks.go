package server

import "strconv"

// chunks puts a response into chunks as it is sent, one per batch. Without them only the end of the connection would
// end the response, and a player could not tell the stream's end from a broken connection. (ffmpeg takes it for
// broken.)
//
// The line in front of a chunk is put together here and goes out in the same system call as the chunk.
type chunks struct {
	on    bool // HTTP/1.0 has none
	begun bool // a chunk was sent, whose end is still to be sent
	ended bool // the last one was announced

	line []byte // what is to be sent before the next bytes of the stream; part of room
	room [24]byte
}

// announce puts the line for a chunk of n bytes in place, n > 0. Nothing of an earlier line is left to be sent.
func (c *chunks) announce(n int) {
	if !c.on {
		return
	}
	c.line = strconv.AppendInt(c.endOfLast(), int64(n), 16)
	c.line = append(c.line, "\r\n"...)
	c.begun = true
}

// end announces the last chunk, which is empty. It returns false if there is nothing to announce, or no longer.
func (c *chunks) end() bool {
	if !c.on || c.ended {
		return false
	}
	c.line = append(c.endOfLast(), "0\r\n\r\n"...)
	c.ended = true
	return true
}

func (c *chunks) endOfLast() []byte {
	if c.begun {
		return append(c.room[:0], "\r\n"...)
	}
	return c.room[:0]
}
