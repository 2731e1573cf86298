package livetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/rtmp"
)

// An RTMP is an RTMP client. One goroutine may send while another one reads.
type RTMP struct {
	t    testing.TB
	Conn net.Conn

	enc   rtmp.Encoder
	out   millrace.Chain
	calls float64 // number of commands sent

	r   *millrace.Reader
	dec *rtmp.Decoder
}

// handshakeSize is the length in bytes of each of C1, C2, S1 and S2.
const handshakeSize = 1536

// maxMessage is the maximum length in bytes of a message from the server.
const maxMessage = 16 << 20

// NewRTMP performs the handshake on conn. If the handshake fails, the test ends. NewRTMP arranges
// for conn to be closed at the end of the test.
func NewRTMP(t testing.TB, conn net.Conn) *RTMP {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(2 * nettest.Timeout))
	c := &RTMP{t: t, Conn: conn, r: millrace.NewReader(conn)}
	c.dec = rtmp.NewDecoder(c.r, maxMessage)
	t.Cleanup(func() {
		_ = conn.Close()
		c.enc.Release()
		c.out.Release()
		c.dec.Release()
		c.r.Release()
	})
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
	if err != nil {
		t.Fatalf("the handshake: %v", err)
	}
	return c
}

// ChunkSize sets the chunk size for further messages to the server. It is 128 bytes at first.
func (c *RTMP) ChunkSize(n int) {
	c.t.Helper()
	c.enc.SetChunkSize(&c.out, n)
	c.flush()
}

// flush sends the messages in c.out. It ignores errors, because a test can still read the server's
// last messages when the server has closed the connection.
func (c *RTMP) flush() { _, _ = c.out.WriteTo(c.Conn) }

// Send sends a message. It returns an error if the write fails.
func (c *RTMP) Send(m rtmp.Message, body []byte) error {
	c.t.Helper()
	c.make(m, body)
	_, err := c.out.WriteTo(c.Conn)
	return err
}

func (c *RTMP) make(m rtmp.Message, body []byte) {
	c.t.Helper()
	var b millrace.Chain
	b.AppendCopy(body)
	if err := c.enc.Append(&c.out, m, &b); err != nil {
		c.t.Fatal(err)
	}
}

// Call sends an RTMP command with a new transaction ID on a message stream. The first value is the
// command object, which may be nil. The other values are the arguments.
func (c *RTMP) Call(stream uint32, name string, values ...any) {
	c.t.Helper()
	c.calls++
	body := rtmp.AppendAMF(rtmp.AppendAMF(nil, name, c.calls), values...)
	_ = c.Send(rtmp.Message{Type: rtmp.TypeCommand, ChunkStream: 3, Stream: stream}, body)
}

// Ping sends a ping request with the number v. The server's response has the same number.
func (c *RTMP) Ping(v uint32) error {
	c.ping(v)
	_, err := c.out.WriteTo(c.Conn)
	return err
}

func (c *RTMP) ping(v uint32) {
	const request = 6
	c.make(rtmp.Message{Type: rtmp.TypeUserControl, ChunkStream: 2},
		binary.BigEndian.AppendUint32([]byte{0, request}, v))
}

// PingUntilItEnds sends ping requests without reading the responses, until the server closes the
// connection.
func (c *RTMP) PingUntilItEnds() {
	c.t.Helper()
	for c.enc.SetChunkSize(&c.out, 1<<10); ; {
		for range 200 {
			c.ping(1)
		}
		_, err := c.out.WriteTo(c.Conn)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			c.t.Fatalf("the server neither reads nor closes: %v", err)
		}
		if err != nil {
			return
		}
	}
}

// Pong returns the number in a ping response. If m is not a ping response, ok is false.
func (m *RTMPMessage) Pong() (v uint32, ok bool) {
	const response = 7
	if m.Type != rtmp.TypeUserControl || len(m.Body) != 6 || m.Body[1] != response {
		return 0, false
	}
	return binary.BigEndian.Uint32(m.Body[2:]), true
}

// An RTMPMessage is a message with its body.
type RTMPMessage struct {
	rtmp.Message
	Body []byte
}

// Command returns the values in an RTMP command, or nil for other messages.
func (m *RTMPMessage) Command() []any {
	if m.Type != rtmp.TypeCommand {
		return nil
	}
	values, _ := rtmp.ParseAMF(m.Body)
	return values
}

// Status returns the content of an onStatus message. If m is not an onStatus message, ok is false.
func (m *RTMPMessage) Status() (s Status, ok bool) {
	values := m.Command()
	if len(values) < 4 || values[0] != "onStatus" {
		return s, false
	}
	info, _ := values[3].(rtmp.Object)
	for _, p := range info {
		text, _ := p.Value.(string)
		switch p.Name {
		case "level":
			s.Level = text
		case "code":
			s.Code = text
		case "description":
			s.Description = text
		}
	}
	return s, true
}

// A Status is the content of an onStatus message.
type Status struct{ Level, Code, Description string }

// Tag returns an audio, video or metadata message as an FLV tag, or nil for other messages.
func (m *RTMPMessage) Tag() []byte {
	switch m.Type {
	case rtmp.TypeAudio, rtmp.TypeVideo:
	case rtmp.TypeData:
		if values, _ := rtmp.ParseAMF(m.Body); len(values) == 0 || values[0] != "onMetaData" {
			return nil
		}
	default:
		return nil
	}
	n, at := len(m.Body), m.Timestamp
	p := []byte{byte(m.Type), byte(n >> 16), byte(n >> 8), byte(n), byte(at >> 16), byte(at >> 8),
		byte(at), byte(at >> 24), 0, 0, 0}
	p = append(p, m.Body...)
	return binary.BigEndian.AppendUint32(p, uint32(11+n))
}

// Next reads a message.
func (c *RTMP) Next() (*RTMPMessage, error) {
	var body millrace.Chain
	m, err := c.dec.Next(&body)
	if err != nil {
		return nil, err
	}
	p := make([]byte, body.Len())
	body.CopyTo(p)
	body.Release()
	return &RTMPMessage{m, p}, nil
}

// await reads messages until match returns true, and returns that message. If a read fails, the
// test fails with an error that contains desc, a description of the expected message.
func (c *RTMP) await(desc string, match func(m *RTMPMessage) bool) *RTMPMessage {
	c.t.Helper()
	for {
		m, err := c.Next()
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", desc, err)
		}
		if match(m) {
			return m
		}
	}
}

// Connect connects to the application app and creates a message stream. It adds props to the
// properties of the connect command.
func (c *RTMP) Connect(app string, props ...rtmp.Property) {
	c.t.Helper()
	c.Call(0, "connect", append(rtmp.Object{{Name: "app", Value: app},
		{Name: "flashVer", Value: "a test"},
		{Name: "tcUrl", Value: "rtmp://localhost/" + app}}, props...))
	c.result("connect")
	c.Call(0, "createStream", nil)
	c.result("createStream")
}

// result reads messages up to the result of the last Call.
func (c *RTMP) result(desc string) {
	c.t.Helper()
	c.await(desc, func(m *RTMPMessage) bool {
		values := m.Command()
		return len(values) > 1 && values[0] == "_result" && values[1] == c.calls
	})
}

// Publish sends a publish request, and returns the first status.
func (c *RTMP) Publish(key string) Status {
	c.t.Helper()
	c.Call(rtmp.Stream, "publish", nil, key, "live")
	return c.AwaitStatus()
}

// Play sends a play request. It does not wait for a response.
func (c *RTMP) Play(key string) {
	c.t.Helper()
	c.Call(rtmp.Stream, "play", nil, key)
}

// AwaitStatus reads messages up to the next onStatus message.
func (c *RTMP) AwaitStatus() (s Status) {
	c.t.Helper()
	c.await("a status", func(m *RTMPMessage) (ok bool) {
		s, ok = m.Status()
		return ok
	})
	return s
}

// AwaitCode reads messages up to the next onStatus message with the given code.
func (c *RTMP) AwaitCode(code string) (s Status) {
	c.t.Helper()
	c.await(code, func(m *RTMPMessage) (ok bool) {
		s, ok = m.Status()
		return ok && s.Code == code
	})
	return s
}

// SendTags sends FLV tags as messages. It adds @setDataFrame before metadata, as encoders do.
func (c *RTMP) SendTags(tags ...[]byte) error {
	c.t.Helper()
	for _, tag := range tags {
		m := rtmp.Message{Type: rtmp.Type(tag[0]), Stream: rtmp.Stream,
			Timestamp: uint32(tag[7])<<24 | binary.BigEndian.Uint32(tag[3:7])&0xffffff}
		body := tag[11 : len(tag)-4]
		switch m.Type {
		case rtmp.TypeAudio:
			m.ChunkStream = rtmp.AudioChunks
		case rtmp.TypeVideo:
			m.ChunkStream = rtmp.VideoChunks
		default:
			m.ChunkStream = rtmp.DataChunks
			body = append(rtmp.AppendAMF(nil, "@setDataFrame"), body...)
		}
		if err := c.Send(m, body); err != nil {
			return fmt.Errorf("a tag at %d ms: %w", m.Timestamp, err)
		}
	}
	return nil
}

// NextTag reads messages up to the next tag, and returns the tag.
func (c *RTMP) NextTag() []byte {
	c.t.Helper()
	return c.await("a tag", func(m *RTMPMessage) bool { return m.Tag() != nil }).Tag()
}

// Rest reads messages until the connection ends, and returns the tags and statuses.
func (c *RTMP) Rest() (tags [][]byte, statuses []Status) {
	c.t.Helper()
	for {
		m, err := c.Next()
		if errors.Is(err, io.EOF) {
			return tags, statuses
		}
		if err != nil {
			c.t.Fatalf("after %d tags: %v", len(tags), err)
		}
		if tag := m.Tag(); tag != nil {
			tags = append(tags, tag)
		}
		if s, ok := m.Status(); ok {
			statuses = append(statuses, s)
		}
	}
}

// AwaitEnd reads until the connection ends with any error. If the connection does not end, the test
// fails.
func (c *RTMP) AwaitEnd() {
	c.t.Helper()
	for {
		if _, err := c.Next(); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				c.t.Errorf("the connection stays: %v", err)
			}
			return
		}
	}
}

// RTMPChunks returns a message as chunks with up to size bytes of payload.
func RTMPChunks(m rtmp.Message, body []byte, size int) []byte {
	var enc rtmp.Encoder
	defer enc.Release()
	var c, out millrace.Chain
	enc.SetChunkSize(&out, size)
	out.Release()
	c.AppendCopy(body)
	if err := enc.Append(&out, m, &c); err != nil {
		panic(err)
	}
	defer out.Release()
	return append([]byte(nil), out.Bytes()...)
}
