package relaytest

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/rtmp"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// An RTMP is a client of RTMP that has connected to the application live, and has a stream.
type RTMP struct {
	t    testing.TB
	Conn net.Conn
	r    *millrace.Reader
	dec  *rtmp.Decoder
	enc  rtmp.Encoder
}

// rtmpChunk is the size of the chunks that the client sends, as OBS does.
const rtmpChunk = 4096

// RTMP connects to an address.
func (c *Client) RTMP(addr string, rcvbuf int) *RTMP {
	c.T.Helper()
	return c.RTMPOn(nettest.Dial(c.T, addr, rcvbuf))
}

// RTMPOn is RTMP on a connection that is there.
func (c *Client) RTMPOn(conn net.Conn) *RTMP {
	c.T.Helper()
	_ = conn.SetDeadline(time.Now().Add(2 * nettest.Timeout))
	p := &RTMP{t: c.T, Conn: conn, r: millrace.NewReader(conn)}
	p.dec = rtmp.NewDecoder(p.r, 16<<20)
	c.T.Cleanup(p.Close)
	c1 := make([]byte, 1536)
	_, _ = rand.Read(c1[8:])
	p.write(append([]byte{3}, c1...))
	answer := make([]byte, 1+2*1536)
	if _, err := io.ReadFull(p.r, answer); err != nil || !bytes.Equal(answer[1+1536:], c1) {
		c.T.Fatalf("handshake: %v", err)
	}
	p.write(answer[1 : 1+1536])
	var announced millrace.Chain
	p.enc.SetChunkSize(&announced, rtmpChunk)
	p.send(&announced)
	p.Command("connect", 1, rtmp.Object{{Name: "app", Value: "live"}, {Name: "flashVer", Value: "test"}})
	p.await("_result")
	p.Command("createStream", 2, nil)
	p.await("_result")
	return p
}

// Close closes the connection, and gives back what the client holds.
func (p *RTMP) Close() {
	_ = p.Conn.Close()
	p.dec.Release()
	p.enc.Release()
	p.r.Release()
}

func (p *RTMP) write(b []byte) {
	if _, err := p.Conn.Write(b); err != nil {
		p.t.Errorf("writing: %v", err)
	}
}

func (p *RTMP) send(c *millrace.Chain) {
	if _, err := c.WriteTo(p.Conn); err != nil {
		c.Release()
		p.t.Errorf("writing: %v", err)
	}
}

// Send sends a message with a copy of body.
func (p *RTMP) Send(m rtmp.Message, body []byte) {
	p.t.Helper()
	var c, out millrace.Chain
	c.AppendCopy(body)
	if err := p.enc.Append(&out, m, &c); err != nil {
		p.t.Fatal(err)
	}
	p.send(&out)
}

// Command sends a command on the stream.
func (p *RTMP) Command(name string, transaction float64, values ...any) {
	p.t.Helper()
	m := rtmp.Message{Type: rtmp.TypeCommand, ChunkStream: 3, Stream: rtmp.Stream}
	p.Send(m, rtmp.AppendAMF(rtmp.AppendAMF(nil, name, transaction), values...))
}

// Ping sends a ping with a number.
func (p *RTMP) Ping(v uint32) {
	p.Send(rtmp.Message{Type: rtmp.TypeUserControl, ChunkStream: 2}, binary.BigEndian.AppendUint32([]byte{0, 6}, v))
}

// Next returns the next message.
func (p *RTMP) Next() (m rtmp.Message, body []byte, err error) {
	var c millrace.Chain
	defer c.Release()
	m, err = p.dec.Next(&c)
	return m, bytes.Clone(c.Bytes()), err
}

// await waits for a command of a name, and returns its values.
func (p *RTMP) await(name string) []any {
	p.t.Helper()
	for {
		m, body, err := p.Next()
		if err != nil {
			p.t.Fatalf("waiting for %s: %v", name, err)
		}
		if m.Type != rtmp.TypeCommand {
			continue
		}
		if values, err := rtmp.ParseAMF(body); err == nil && values[0] == name {
			return values
		}
	}
}

// Status waits for an onStatus, and returns its level, code and description.
func (p *RTMP) Status() string {
	p.t.Helper()
	values := p.await("onStatus")
	o, _ := values[3].(rtmp.Object)
	return fmt.Sprintf("%v %v: %v", o.Get("level"), o.Get("code"), o.Get("description"))
}

// Publish asks to publish name, and returns the status that comes.
func (p *RTMP) Publish(name string) string {
	p.t.Helper()
	p.Command("publish", 3, nil, name, "live")
	return p.Status()
}

// Play asks for name, and returns when it begins. It returns the status if it does not.
func (p *RTMP) Play(name string) string {
	p.t.Helper()
	p.AskPlay(name)
	for {
		if s := p.Status(); s[:len("status NetStream.Play.Reset")] != "status NetStream.Play.Reset" {
			return s
		}
	}
}

// AskPlay asks for name, and does not wait.
func (p *RTMP) AskPlay(name string) { p.Command("play", 3, nil, name) }

// SendTags sends whole FLV tags as messages, as an encoder does: sound and pictures on chunk streams of their own,
// metadata as @setDataFrame.
func (p *RTMP) SendTags(tags ...[]byte) {
	p.t.Helper()
	for _, tag := range tags {
		m := rtmp.Message{
			Type: rtmp.Type(tag[0]), ChunkStream: 4, Stream: rtmp.Stream,
			Timestamp: uint32(tag[7])<<24 | uint32(tag[4])<<16 | uint32(tag[5])<<8 | uint32(tag[6]),
		}
		body := tag[11 : len(tag)-4]
		switch m.Type {
		case rtmp.TypeVideo:
			m.ChunkStream = 6
		case rtmp.TypeData:
			body = append(rtmp.AppendAMF(nil, "@setDataFrame"), body...)
		}
		p.Send(m, body)
	}
}

// Tag returns the next message of sound, pictures or metadata as an FLV tag. The error is io.EOF when the server says
// that the stream has ended.
func (p *RTMP) Tag() ([]byte, error) {
	for {
		m, body, err := p.Next()
		switch {
		case err != nil:
			return nil, err
		case m.Type == rtmp.TypeCommand && bytes.Contains(body, []byte("NetStream.Play.UnpublishNotify")):
			return nil, io.EOF
		case m.Type == rtmp.TypeAudio, m.Type == rtmp.TypeVideo, m.Type == rtmp.TypeData && !bytes.HasPrefix(body, []byte("\x02\x00\x11|")) &&
			!bytes.HasPrefix(body, []byte("\x02\x00\x08onStatus")):
			n, ts := len(body), m.Timestamp
			tag := []byte{byte(m.Type), byte(n >> 16), byte(n >> 8), byte(n), byte(ts >> 16), byte(ts >> 8), byte(ts), byte(ts >> 24), 0, 0, 0}
			return binary.BigEndian.AppendUint32(append(tag, body...), uint32(11+n)), nil
		}
	}
}

// Tags returns all tags up to the end of the stream.
func (p *RTMP) Tags() (tags [][]byte) {
	p.t.Helper()
	for {
		tag, err := p.Tag()
		if err == io.EOF {
			return tags
		}
		if err != nil {
			p.t.Errorf("after %d tags: %v", len(tags), err)
			return tags
		}
		tags = append(tags, tag)
	}
}
