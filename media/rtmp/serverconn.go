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
	// maxCommand limits, in bytes, a client's unfinished messages before its request. The longest
	// message is connect. It has a few hundred bytes, and more if it has several addresses that
	// contain tokens.
	maxCommand = 16 << 10

	// maxPlayer is the same limit for a client that plays. Such a client only pauses and pings.
	maxPlayer = 4 << 10

	// windowSize is the acknowledgement window of this side, in bytes. It is also the client's
	// window until the client sets another one.
	windowSize = 2_500_000
	// leastWindow is the smallest acknowledgement window. Without it, a client could request an
	// acknowledgement for every byte.
	leastWindow = 1 << 10
)

// MaxAnnounced is the largest chunk size, in bytes, that a ServerConn announces. Some clients
// refuse larger sizes. For example, gortmplib, which MediaMTX uses, accepts up to 10 MiB.
const MaxAnnounced = 8 << 20

// A ServerConn is the server's side of a connection. Call Accept, then Start or Refuse, and then
// Next until it fails. When a publisher has ended its stream, NextRequest may be called after that.
// A ServerConn belongs to one goroutine at a time.
//
// A ServerConn has only the timeout that [ServerConn.SetMessageTimeout] sets. To limit the time up
// to the request, or the time of each silence, set deadlines on the connection.
type ServerConn struct {
	r          *millrace.Reader
	w          io.Writer
	dec        *Decoder
	enc        Encoder
	maxMessage int
	out        millrace.Chain // pending output; empty between calls
	body       millrace.Chain // body of the message that is being processed; empty between calls

	window, acknowledged uint64 // window in bytes; Received is acknowledged twice in each window
	connect              Object // the client's command object
	request              *Request
	streamName           string // stream name of the request, as the client sent it
	stream               uint32 // the message stream on which the request arrived
	fcPublish            bool   // the client has sent FCPublish, and waits for onFCPublish
	paused               bool
}

// NewServerConn returns a ServerConn that reads from r and writes to w. It borrows both. If a
// message has more than maxMessage bytes, it is refused; maxMessage is at most 16777215. The
// ServerConn announces chunks of maxMessage bytes, or of MaxAnnounced if that is smaller. A client
// that adopts the announced size sends each message in one chunk. [ServerConn.Release] releases the
// ServerConn's memory.
func NewServerConn(r *millrace.Reader, w io.Writer, maxMessage int) *ServerConn {
	c := &ServerConn{r: r, w: w, dec: NewDecoder(r, maxCommand),
		maxMessage: min(maxMessage, maxBody), window: windowSize}
	_ = c.dec.limit(maxCommand) // cannot fail: no bytes have arrived
	c.dec.progress = c.acknowledge
	// Copy all payloads until Start. Otherwise a client without a stream could keep blocks in use
	// with parts of unfinished messages.
	c.dec.copyBelow = maxBody + 1
	return c
}

// SetPool sets the Pool for the client's later messages, including copies.
func (c *ServerConn) SetPool(p *millrace.Pool) { c.dec.setPool(p) }

// SetMessageTimeout limits the time of a message from its first byte to its last one, even if the
// client sends other messages meanwhile. When the time is over, another goroutine calls expired,
// perhaps more than once. expired must end the connection. Release stops the timer.
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

// Accept performs the handshake, and answers commands until the client wants to publish or to play.
// The caller checks the request, and calls Start or Refuse. If the client disconnected before the
// first byte, the error is io.EOF.
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

// NextRequest is called after Next has returned io.EOF. It answers commands until the client wants
// to publish or to play again. The caller checks the request, and calls Start or Refuse, as after
// Accept.
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
		c.body.Release() // other messages have no meaning before the request
	}
	want := c.request
	if !want.Publish { // keep only the fields that are needed while the client plays
		c.connect, c.request = nil, &Request{Path: strings.Clone(want.Path)}
		if err := c.dec.limit(maxPlayer); err != nil {
			return want, err
		}
	}
	return want, nil
}

// Start informs the client that its request is granted.
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

// Refuse informs the client why its request is not granted, or why its stream ends. The code is one
// that clients know, such as NetStream.Publish.BadName or NetStream.Play.StreamNotFound. Encoders
// show the code and the reason. The caller then ends the connection.
func (c *ServerConn) Refuse(code, reason string) error {
	c.call(Stream, "onStatus", 0, nil, status("error", code, reason))
	return c.flush()
}

// capsReconnect is a bit of capsEx. A client sets it to declare that it supports a reconnect
// request.
const capsReconnect = 1

// CanReconnect reports whether the client has declared that it obeys RequestReconnect.
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

// AppendEnd appends to dst the messages that inform a playing client of the end of the stream. dst
// owns them.
func (c *ServerConn) AppendEnd(dst *millrace.Chain) {
	c.event(eventStreamEOF, Stream)
	c.status("NetStream.Play.UnpublishNotify", c.request.Path+" has ended")
	c.status("NetStream.Play.Stop", c.request.Path+" has ended")
	dst.Merge(&c.out)
}

// ChunkSize returns the size of the chunks that was announced to the client.
func (c *ServerConn) ChunkSize() int { return min(c.maxMessage, MaxAnnounced) }

// Received returns the number of bytes that have been read after the handshake.
func (c *ServerConn) Received() uint64 { return c.dec.Received() }

// Paused reports whether a client that plays has requested a pause.
func (c *ServerConn) Paused() bool { return c.paused }

// Next appends the body of the next message to dst, which then owns it. The message is audio, video
// or data. It may also have TypeCommand and no body, which means that Paused has changed. Next
// answers all other messages itself. When the client has ended the stream, the error is io.EOF. If
// its connection has ended before that, the error is io.ErrUnexpectedEOF. Other errors are those of
// [Decoder.Next].
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

// read reads a message into body, which must be empty, and executes it.
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
	case TypeDataAMF3, TypeCommandAMF3: // AMF0 values after one byte
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

// acknowledge reports to the client, twice in a window, how many bytes have arrived. The Decoder
// also calls it in the middle of messages. If a message is larger than the window, the client may
// wait there for the acknowledgement.
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
