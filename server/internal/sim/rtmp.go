package sim

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
)

// An rtmpClient is an RTMP client that has connected to a server. One goroutine may send while
// another one reads.
type rtmpClient struct {
	conn  net.Conn
	enc   rtmp.Encoder
	out   millrace.Chain
	calls float64
	r     *millrace.Reader
	dec   *rtmp.Decoder
}

const handshakeSize = 1536

// newRTMPClient performs the handshake, connects to the application live, and creates a message
// stream. The caller must call release.
func newRTMPClient(conn net.Conn) (*rtmpClient, error) {
	c := &rtmpClient{conn: conn, r: millrace.NewReader(conn)}
	c.dec = rtmp.NewDecoder(c.r, 1<<20)
	hello := make([]byte, 1+handshakeSize)
	hello[0] = 3
	answer := make([]byte, 1+2*handshakeSize)
	_, err := conn.Write(hello)
	if err == nil {
		_, err = io.ReadFull(c.r, answer)
	}
	if err == nil {
		_, err = conn.Write(answer[1 : 1+handshakeSize])
	}
	c.enc.SetChunkSize(&c.out, 4096)
	if err == nil {
		err = c.call(0, "connect", rtmp.Object{{Name: "app", Value: "live"},
			{Name: "tcUrl", Value: "rtmp://sim/live"}})
	}
	if err == nil {
		err = c.result()
	}
	if err == nil {
		err = c.call(0, "createStream", nil)
	}
	if err == nil {
		err = c.result()
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

func (c *rtmpClient) release() {
	_ = c.conn.Close()
	c.enc.Release()
	c.out.Release()
	c.dec.Release()
	c.r.Release()
}

func (c *rtmpClient) send(m rtmp.Message, body []byte) error {
	var b millrace.Chain
	b.AppendCopy(body)
	if err := c.enc.Append(&c.out, m, &b); err != nil {
		return err
	}
	_, err := c.out.WriteTo(c.conn)
	return err
}

func (c *rtmpClient) call(stream uint32, name string, values ...any) error {
	c.calls++
	body := rtmp.AppendAMF(rtmp.AppendAMF(nil, name, c.calls), values...)
	return c.send(rtmp.Message{Type: rtmp.TypeCommand, ChunkStream: 3, Stream: stream}, body)
}

// next returns the next message.
func (c *rtmpClient) next() (rtmp.Message, []byte, error) {
	var body millrace.Chain
	m, err := c.dec.Next(&body)
	if err != nil {
		return m, nil, err
	}
	p := make([]byte, body.Len())
	body.CopyTo(p)
	body.Release()
	return m, p, nil
}

// result reads messages up to the result of the last call.
func (c *rtmpClient) result() error {
	for {
		m, body, err := c.next()
		if err != nil {
			return err
		}
		if m.Type != rtmp.TypeCommand {
			continue
		}
		values, _ := rtmp.ParseAMF(body)
		if len(values) > 1 && values[1] == c.calls {
			if values[0] != "_result" {
				return fmt.Errorf("the server answers %v", values)
			}
			return nil
		}
	}
}

var errEnded = errors.New("the server has ended the stream")

// status returns the code of an onStatus message, or "".
func status(m rtmp.Message, body []byte) string {
	if m.Type != rtmp.TypeCommand {
		return ""
	}
	values, _ := rtmp.ParseAMF(body)
	if len(values) < 4 || values[0] != "onStatus" {
		return ""
	}
	info, _ := values[3].(rtmp.Object)
	for _, p := range info {
		if p.Name == "code" {
			code, _ := p.Value.(string)
			return code
		}
	}
	return ""
}

// awaitStatus reads messages up to the next onStatus message, and returns its code.
func (c *rtmpClient) awaitStatus() (string, error) {
	for {
		m, body, err := c.next()
		if err != nil {
			return "", err
		}
		if code := status(m, body); code != "" {
			return code, nil
		}
	}
}

// nextTag returns the next audio, video or data message as a tag. When the server ends the stream,
// the error is errEnded.
func (c *rtmpClient) nextTag() (t tag, err error) {
	for {
		m, body, err := c.next()
		if err != nil {
			return t, err
		}
		switch m.Type {
		case rtmp.TypeVideo, rtmp.TypeAudio:
			return tag{kind: byte(m.Type), at: m.Timestamp, data: body}, nil
		case rtmp.TypeCommand:
			switch code := status(m, body); code {
			case "NetStream.Play.UnpublishNotify", "NetStream.Play.Stop", "NetStream.Play.Complete",
				"NetStream.Play.StreamNotFound", "NetStream.Play.Failed":
				return t, fmt.Errorf("%w: %s", errEnded, code)
			}
		}
	}
}

// publishTag sends a video tag.
func (c *rtmpClient) publishTag(at uint32, data []byte) error {
	return c.send(rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: rtmp.VideoChunks,
		Stream: rtmp.Stream, Timestamp: at}, data)
}
