package rtmp

import (
	"io"
	"math"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
)

// maxPlayer limits the total size of unfinished messages, in bytes, while the client plays. A
// playing client sends only short messages, such as pause commands.
const maxPlayer = 4 << 10

// MaxAnnounced is the largest chunk size in bytes that a ServerConn announces. gortmplib, which
// MediaMTX uses, refuses more than 10 MiB.
const MaxAnnounced = 8 << 20

// A ServerConn is the server's side of a connection. Call Accept, then Start or Refuse, and then
// Next until it returns an error. If the error is io.EOF and the client was publishing, you may
// then call NextRequest. A ServerConn belongs to one goroutine at a time.
//
// [ServerConn.SetMessageTimeout] sets the only timeout of a ServerConn. To limit the time until the
// request, or the time without data, set deadlines on the connection.
type ServerConn struct {
	endpoint
	maxMessage int
	connect    Object // the object in the connect command
	request    *Request
	streamName string // stream name of the request, without parameters
	stream     uint32 // the message stream of the request
	fcPublish  bool   // the client has sent FCPublish and waits for onFCPublish
	paused     bool
}

// NewServerConn returns a ServerConn that reads from r and writes to w. It borrows both. Call
// [ServerConn.Release] to release the ServerConn's memory.
//
// maxMessage is the maximum size of a message in bytes. A value above 16777215 means 16777215.
//
// The ServerConn announces its chunk size to the client: maxMessage, or MaxAnnounced if that is
// less. A client that adopts this chunk size sends a message in one chunk, unless the message is
// larger.
func NewServerConn(r *millrace.Reader, w io.Writer, maxMessage int) *ServerConn {
	c := &ServerConn{maxMessage: min(maxMessage, maxBody)}
	c.endpoint.init(r, w)
	return c
}

// SetPool sets the Pool for the blocks of later messages.
func (c *ServerConn) SetPool(p *millrace.Pool) { c.dec.setPool(p) }

// SetMessageTimeout sets the maximum time from the first to the last byte of a message. After this
// time, the ServerConn calls onTimeout on another goroutine, perhaps more than once. onTimeout must
// end the connection. Release stops the timer.
func (c *ServerConn) SetMessageTimeout(limit time.Duration, onTimeout func()) {
	c.dec.clock.stop()
	c.dec.clock = &messageClock{limit: limit, expired: onTimeout}
	c.dec.countOldest()
}

// Release releases the memory of c. It does not close the Reader or the connection.
func (c *ServerConn) Release() { c.release() }

// Accept performs the handshake, and answers commands until the client requests to publish or to
// play. The caller grants this request with Start, or refuses it with Refuse. If the client
// disconnects before its first byte, the error is io.EOF.
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

// NextRequest answers commands until the client sends another request to publish or to play. Call
// it only after Next has returned io.EOF. The caller grants the request with Start, or refuses it
// with Refuse.
func (c *ServerConn) NextRequest() (*Request, error) {
	c.request, c.fcPublish, c.paused = nil, false, false
	c.dec.copyBelow = maxBody + 1 // see endpoint.init
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
		c.body.Release() // ignore all other messages before the request
	}
	want := c.request
	if !want.Publish { // keep only the fields that a playing client needs
		c.connect, c.request = nil, &Request{Path: strings.Clone(want.Path)}
		if err := c.dec.setLimit(maxPlayer); err != nil {
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

// Refuse tells the client why its request is refused, or why its stream ends. Use a code that
// clients know, such as NetStream.Publish.BadName or NetStream.Play.StreamNotFound. Encoders show
// the code and the reason. The caller then closes the connection.
func (c *ServerConn) Refuse(code, reason string) error {
	c.call(Stream, "onStatus", 0, nil, status("error", code, reason))
	return c.flush()
}

// capsReconnect is a bit of capsEx. It means that the client supports RequestReconnect.
const capsReconnect = 1

// CanReconnect reports whether the client supports RequestReconnect.
func (c *ServerConn) CanReconnect() bool {
	caps, _ := c.connect.Get("capsEx").(float64)
	return caps >= 0 && caps <= math.MaxUint32 && uint32(caps)&capsReconnect != 0
}

// RequestReconnect asks the client to reconnect to the same address, where another server may
// answer. The client continues until its next keyframe, reconnects, and ends this connection.
func (c *ServerConn) RequestReconnect(reason string) error {
	c.call(0, "onStatus", 0, nil, status("status", "NetConnection.Connect.ReconnectRequest",
		reason))
	return c.flush()
}

// AppendEnd appends messages to dst that tell a playing client that the stream has ended.
func (c *ServerConn) AppendEnd(dst *millrace.Chain) {
	c.event(eventStreamEOF, Stream)
	c.status("NetStream.Play.UnpublishNotify", c.request.Path+" has ended")
	c.status("NetStream.Play.Stop", c.request.Path+" has ended")
	dst.Merge(&c.out)
}

// ChunkSize returns the chunk size that the server has announced to the client.
func (c *ServerConn) ChunkSize() int { return min(c.maxMessage, MaxAnnounced) }

// Received returns the number of bytes that have been read since the handshake.
func (c *ServerConn) Received() uint64 { return c.dec.Received() }

// Paused reports whether a playing client has paused.
func (c *ServerConn) Paused() bool { return c.paused }

// Next appends the body of the next audio, video or data message to dst, which then owns the body.
// If [ServerConn.Paused] changes, Next returns a message of TypeCommand without a body. It handles
// all other messages itself, and writes the answers to the client.
//
// The errors are:
//
//   - io.EOF: the client has ended the stream.
//   - io.ErrUnexpectedEOF: the connection has ended before the end of the stream.
//   - Another error from [Decoder.Next], or an error from writing an answer.
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
