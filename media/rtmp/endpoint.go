package rtmp

import (
	"encoding/binary"
	"io"

	"github.com/millrace-io/millrace"
)

const (
	// maxCommand limits the total size of unfinished messages, in bytes, while the peer sends only
	// commands. The longest one is the connect command. It has a few hundred bytes, or more if its
	// URLs contain tokens.
	maxCommand = 16 << 10

	// windowSize is the default acknowledgement window in bytes. The peer may set another size.
	windowSize = 2_500_000
	// leastWindow is the minimum size of the acknowledgement window. Without a minimum, a peer
	// could request an acknowledgement for every byte.
	leastWindow = 1 << 10
)

// An endpoint reads and writes messages for one side of a connection. ServerConn and ClientConn
// embed it. It answers protocol control messages itself.
type endpoint struct {
	r    *millrace.Reader
	w    io.Writer
	dec  *Decoder
	enc  Encoder
	out  millrace.Chain // output that has not been sent; empty between calls
	body millrace.Chain // body of the message being processed; empty between calls

	window, acknowledged uint64 // size of the acknowledgement window; bytes acknowledged so far
}

func (c *endpoint) init(r *millrace.Reader, w io.Writer) {
	c.r, c.w, c.dec, c.window = r, w, NewDecoder(r, maxCommand), windowSize
	_ = c.dec.setLimit(maxCommand) // cannot fail before the first byte
	c.dec.progress = c.acknowledge
	// Copy all payloads, so that a peer that sends only commands cannot keep blocks in use with
	// parts of unfinished messages.
	c.dec.copyBelow = maxBody + 1
}

func (c *endpoint) release() {
	c.dec.Release()
	c.enc.Release()
	c.out.Release()
	c.body.Release()
}

// read reads a message into c.body, which must be empty. It handles protocol control messages.
func (c *endpoint) read() (Message, error) {
	m, err := c.dec.Next(&c.body)
	if err != nil {
		return m, err
	}
	switch m.Type {
	case TypeWindowSize:
		if v, ok := uint32Of(&c.body); ok {
			c.window = max(uint64(v), leastWindow)
		}
	case TypeUserControl:
		c.answerPing()
	case TypeDataAMF3, TypeCommandAMF3: // AMF0 values after one zero byte
		m.Type += TypeData - TypeDataAMF3
		c.body.Discard(min(1, c.body.Len()))
		m.Size = c.body.Len()
	}
	if err = c.flush(); err == nil {
		err = c.acknowledge()
	}
	if err != nil {
		c.body.Release()
	}
	return m, err
}

// acknowledge reports the number of received bytes to the peer, twice in each window. The Decoder
// also calls it before a message is complete. If a message is larger than the window, the peer may
// wait for an acknowledgement before it sends the rest of the message.
func (c *endpoint) acknowledge() error {
	n := c.dec.Received()
	if n-c.acknowledged < c.window/2 {
		return nil
	}
	c.acknowledged = n
	c.enc.appendNumber(&c.out, TypeAcknowledgement, uint32(n))
	return c.flush()
}

const (
	eventStreamBegin  = 0
	eventStreamEOF    = 1
	eventPingRequest  = 6
	eventPingResponse = 7
)

// answerPing answers the user control message in c.body if it is a ping request.
func (c *endpoint) answerPing() {
	var p [6]byte
	if c.body.Len() < len(p) {
		return
	}
	c.body.CopyTo(p[:])
	if binary.BigEndian.Uint16(p[:]) == eventPingRequest {
		c.event(eventPingResponse, binary.BigEndian.Uint32(p[2:]))
	}
}

func (c *endpoint) event(event uint16, v uint32) {
	p := binary.BigEndian.AppendUint16(nil, event)
	c.enc.appendControl(&c.out, TypeUserControl, binary.BigEndian.AppendUint32(p, v))
}

func (c *endpoint) flush() error {
	if c.out.Len() == 0 {
		return nil
	}
	_, err := c.out.WriteTo(c.w)
	if err != nil {
		c.out.Release()
	}
	return err
}

func (c *endpoint) call(stream uint32, name string, transaction float64, values ...any) {
	m := Message{Type: TypeCommand, ChunkStream: commandChunks, Stream: stream}
	if stream != 0 {
		m.ChunkStream = statusChunks
	}
	c.enc.appendBytes(&c.out, m, AppendAMF(AppendAMF(nil, name, transaction), values...))
}
