//go:build !linux

package chunk

// writeMore is Write: the header leaves by itself.
func (c *Conn) writeMore(p []byte) (int, error) { return c.TCPConn.Write(p) }
