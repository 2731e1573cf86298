package bench

import "bytes"

// mostComplaint bounds what is kept of what a server writes: its first words say what is wrong.
const mostComplaint = 16 << 10

// A complaint keeps the beginning of what is written to it. A process writes to it until it has been waited for.
type complaint struct{ text bytes.Buffer }

func (c *complaint) Write(p []byte) (int, error) {
	c.text.Write(p[:min(len(p), mostComplaint-c.text.Len())])
	return len(p), nil
}

func (c *complaint) String() string { return string(bytes.TrimSpace(c.text.Bytes())) }
