package rtmp

import (
	"encoding/binary"
	"io"
	"math"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
)

const (
	// maxCommand limits a client's unfinished messages before its request. The longest message is
	// connect, with some hundred bytes, and addresses with tokens several times.
	maxCommand = 16 << 10

	// maxPlayer is the same of a client that plays: it pauses and pings.
	maxPlayer = 4 << 10

	// windowSize is the acknowledgement window of this side, and that of the client until the
	// client sets it.
	windowSize = 2_500_000
	// leastWindow keeps a client from asking for an acknowledgement with every byte.
	leastWindow = 1 << 10
)

// MaxAnnounced is the largest chunk size that a ServerConn announces. Some clients refuse a larger
// one: gortmplib, which MediaMTX uses, accepts 10 MiB.
const MaxAnnounced = 8 << 20

// A ServerConn is the server's side of a connection: Accept, then Start or Refuse, and then Next
// until it fails. When a publisher has ended its stream, NextRequest may follow. A ServerConn
// belongs to one goroutine at a time.
//
// A ServerConn has no timeout but that of [ServerConn.SetMessageTimeout]. To bound the time up to
// the request, and each silence, set deadlines on the connection.
type ServerConn struct {
	r          *millrace.Reader
	w          io.Writer
	dec        *Decoder
	enc        Encoder
	maxMessage int
	out        millrace.Chain // output under construction; empty between calls
	body       millrace.Chain // of the message that is looked at; empty between calls

	window, acknowledged uint64 // Received is acknowledged twice in each window
	connect              Object // the client's command object
	request              *Request
	streamName           string // of the request, as the client has called it
	stream               uint32 // the message stream on which the request came
	fcPublish            bool   // the client has called FCPublish, and waits for onFCPublish
	paused               bool
}

// NewServerConn returns a ServerConn that reads from r and writes to w, both of which it borrows. A
// message above maxMessage bytes, at most 16777215, is refused. The ServerConn announces chunks of
// that size, or of MaxAnnounced; a client that adopts this size sends each message in one chunk.
// [ServerConn.Release] ends its life.
func NewServerConn(r *millrace.Reader, w io.Writer, maxMessage int) *ServerConn {
	c := &ServerConn{r: r, w: w, dec: NewDecoder(r, maxCommand),
		maxMessage: min(maxMessage, maxBody), window: windowSize}
	_ = c.dec.limit(maxCommand) // nothing has come
	c.dec.progress = c.acknowledge
	// Until Start: no client without a stream can keep blocks with parts of unfinished messages.
	c.dec.copyBelow = maxBody + 1
	return c
}

// SetPool sets the Pool for the client's later messages, including copies.
func (c *ServerConn) SetPool(p *millrace.Pool) { c.dec.setPool(p) }

// SetMessageTimeout limits the time of a message from its first byte to its last one, even if the
// client sends other messages meanwhile. When the time is up, expired is called in another
// goroutine, perhaps more than once, and must end the connection. Release stops the timer.
func (c *ServerConn) SetMessageTimeout(limit time.Duration, expired func()) {
	c.dec.clock.stop()
	c.dec.clock = &messageClock{limit: limit, expired: expired}
	c.dec.countOldest()
}

// Release releases the memory of c. The caller keeps the Reader and the connection.
func (c *ServerConn) Release() {
	c.dec.Release()
	c.enc.Release()
	c.out.Release()
	c.body.Release()
}

// Accept shakes hands and answers commands until the client wants to publish or to play. The caller
// looks at the request, and calls Start or Refuse. The error is io.EOF if the client went away
// before the first byte.
func (c *ServerConn) Accept() (*Request, error) {
	answer, err := answerHandshake(c.r)
	if err != nil {
		return nil, err
	}
	if _, err := c.w.Write(answer); err != nil {
		return nil, err
	}
	if _, err := c.r.Discard(handshakeSize); err != nil { // C2
		return nil, noEOF(err)
	}
	return c.awaitRequest()
}

// NextRequest answers commands after Next has returned io.EOF, until the client wants to publish or
// to play again. The caller looks at the request, and calls Start or Refuse, as after Accept.
func (c *ServerConn) NextRequest() (*Request, error) {
	c.request, c.fcPublish, c.paused = nil, false, false
	c.dec.copyBelow = maxBody + 1 // as in NewServerConn
	return c.awaitRequest()
}

func (c *ServerConn) awaitRequest() (*Request, error) {
	for c.request == nil {
		m, err := c.read()
		if err == nil && m.Type == TypeCommand {
			err = c.obey(m.Stream)
		}
		if err != nil {
			return nil, noEOF(err)
		}
		c.body.Release() // nothing else has a meaning yet
	}
	want := c.request
	if !want.Publish { // the fields that are needed stay as long as the client plays
		c.connect, c.request = nil, &Request{Path: strings.Clone(want.Path)}
		if err := c.dec.limit(maxPlayer); err != nil {
			return want, err
		}
	}
	return want, nil
}

// Start tells the client that its request is granted.
func (c *ServerConn) Start() error {
	c.event(eventStreamBegin, Stream)
	if c.request.Publish {
		c.dec.SetMaxMessage(c.maxMessage)
		c.dec.maxStreams, c.dec.copyBelow = maxChunkStreams, copyBelow
		if c.fcPublish {
			c.call(0, "onFCPublish", 0, nil, status("status", "NetStream.Publish.Start",
				c.request.Path))
		}
		c.status("NetStream.Publish.Start", c.request.Path+" is being published")
		return c.flush()
	}
	c.status("NetStream.Play.Reset", c.request.Path+" is being played from now on")
	c.status("NetStream.Play.Start", c.request.Path+" is being played")
	c.data("|RtmpSampleAccess", true, true)
	return c.flush()
}

// Refuse tells the client why its request is not granted, or why it ends. The code is one that
// clients know, such as NetStream.Publish.BadName or NetStream.Play.StreamNotFound. Encoders show
// both. The caller then ends the connection.
func (c *ServerConn) Refuse(code, reason string) error {
	c.call(Stream, "onStatus", 0, nil, status("error", code, reason))
	return c.flush()
}

// capsReconnect is the bit of capsEx with which a client says that it can be asked to connect
// again.
const capsReconnect = 1

// CanReconnect reports whether the client has said that it obeys RequestReconnect.
func (c *ServerConn) CanReconnect() bool {
	caps, _ := c.connect.Get("capsEx").(float64)
	return caps >= 0 && caps <= math.MaxUint32 && uint32(caps)&capsReconnect != 0
}

// RequestReconnect asks the client to reconnect to the same address, where another server may
// answer. The client continues up to its next keyframe, reconnects, and ends this connection.
func (c *ServerConn) RequestReconnect(reason string) error {
	c.call(0, "onStatus", 0, nil, status("status", "NetConnection.Connect.ReconnectRequest",
		reason))
	return c.flush()
}

// AppendEnd appends the messages that tell a playing client that the stream has ended, to dst,
// which owns them.
func (c *ServerConn) AppendEnd(dst *millrace.Chain) {
	c.event(eventStreamEOF, Stream)
	c.status("NetStream.Play.UnpublishNotify", c.request.Path+" has ended")
	c.status("NetStream.Play.Stop", c.request.Path+" has ended")
	dst.Merge(&c.out)
}

// ChunkSize returns the size of the chunks that the client has been told to expect.
func (c *ServerConn) ChunkSize() int { return min(c.maxMessage, MaxAnnounced) }

// Received returns how many bytes have been read behind the handshake.
func (c *ServerConn) Received() uint64 { return c.dec.Received() }

// Paused reports whether a client that plays has asked for a pause.
func (c *ServerConn) Paused() bool { return c.paused }

// Next appends the body of the next message to dst, which owns it from then on: audio, video or
// data, or a message of TypeCommand without a body when Paused has changed. All other messages are
// answered. The error is io.EOF when the client has ended the stream, io.ErrUnexpectedEOF when its
// connection has ended without that, or an error of [Decoder.Next].
func (c *ServerConn) Next(dst *millrace.Chain) (Message, error) {
	for {
		m, err := c.read()
		if err != nil {
			return m, noEOF(err)
		}
		switch m.Type {
		case TypeAudio, TypeVideo, TypeData:
			dst.Merge(&c.body)
			return m, nil
		case TypeCommand:
			paused := c.paused
			if err := c.obey(m.Stream); err != nil {
				return m, err
			}
			if c.paused != paused {
				m.Size = 0
				return m, nil
			}
		}
		c.body.Release()
	}
}

// read reads a message into body, which is empty, and executes it.
func (c *ServerConn) read() (Message, error) {
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
	case TypeDataAMF3, TypeCommandAMF3: // AMF0 values follow a byte
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

// acknowledge tells the client, twice in a window, how many bytes have come. The Decoder calls it
// in the middle of messages, too: the client may wait for it there if a message is larger than the
// window.
func (c *ServerConn) acknowledge() error {
	n := c.dec.Received()
	if n-c.acknowledged < c.window/2 {
		return nil
	}
	c.acknowledged = n
	c.enc.appendNumber(&c.out, TypeAcknowledgement, uint32(n))
	return c.flush()
}

// Events of user control messages.
const (
	eventStreamBegin  = 0
	eventStreamEOF    = 1
	eventPingRequest  = 6
	eventPingResponse = 7
)

// answerPing answers the user control message in body, if it is a ping.
func (c *ServerConn) answerPing() {
	var p [6]byte
	if c.body.Len() < len(p) {
		return
	}
	c.body.CopyTo(p[:])
	if binary.BigEndian.Uint16(p[:]) == eventPingRequest {
		c.event(eventPingResponse, binary.BigEndian.Uint32(p[2:]))
	}
}

// event writes a user control message.
func (c *ServerConn) event(event uint16, v uint32) {
	p := binary.BigEndian.AppendUint16(nil, event)
	c.enc.appendControl(&c.out, TypeUserControl, binary.BigEndian.AppendUint32(p, v))
}

// flush sends the pending output, if any.
func (c *ServerConn) flush() error {
	if c.out.Len() == 0 {
		return nil
	}
	_, err := c.out.WriteTo(c.w)
	if err != nil {
		c.out.Release()
	}
	return err
}
