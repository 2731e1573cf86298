package rtmp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/millrace-io/millrace"
)

// An Address says where a client publishes a stream.
type Address struct {
	Host string // host and port
	TLS  bool   // rtmps
	App  string // the application, such as "live"
	Key  string // the stream key; it is secret at most services
}

// ParseAddress parses an address such as rtmp://host/app/key. The application may contain slashes,
// and the key may have a query. Without a port, the port is 1935, or 443 for rtmps. Errors do not
// contain the key.
func ParseAddress(text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Address{}, errors.New("rtmp: this is not a URL") // the error of Parse has the key
	}
	a := Address{Host: u.Host, TLS: u.Scheme == "rtmps"}
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	slash := strings.LastIndexByte(path, '/')
	switch {
	case u.Scheme != "rtmp" && u.Scheme != "rtmps":
		return a, fmt.Errorf("rtmp: scheme %q, want rtmp or rtmps", u.Scheme)
	case u.Hostname() == "":
		return a, errors.New("rtmp: the address has no host")
	case u.User != nil:
		return a, errors.New("rtmp: a user and a password are not supported")
	case slash < 1 || slash == len(path)-1:
		return a, errors.New("rtmp: want rtmp://HOST/APP/KEY")
	}
	a.App, a.Key = path[:slash], path[slash+1:]
	if u.RawQuery != "" {
		a.Key += "?" + u.RawQuery
	}
	if u.Port() == "" {
		port := "1935"
		if a.TLS {
			port = "443"
		}
		a.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return a, nil
}

// String returns the address without the key.
func (a Address) String() string { return a.url() + "/…" }

// url returns the address of the application.
func (a Address) url() string {
	if a.TLS {
		return "rtmps://" + a.Host + "/" + a.App
	}
	return "rtmp://" + a.Host + "/" + a.App
}

// A StatusError means that the server has refused or ended the stream, or has asked the client to
// reconnect.
type StatusError struct {
	Code        string // such as NetStream.Publish.BadName
	Description string // for people; it may contain the stream key
}

func (e *StatusError) Error() string {
	if e.Description == "" {
		return "rtmp: the server answers " + e.Code
	}
	return "rtmp: the server answers " + e.Code + ": " + e.Description
}

// A ClientConn is the client's side of a connection on which one stream is published. Call Publish,
// and then Wait until it returns an error. In the meantime, write the stream's messages to the
// connection: they have the message stream [Stream], and their chunks have the size that was
// announced. An [Encoder] makes them.
//
// A ClientConn has no timeout. Set deadlines on the connection.
type ClientConn struct {
	endpoint
	chunkSize int
	calls     float64 // number of commands with a transaction number
	key       string
}

// NewClientConn returns a ClientConn that reads from r and writes to w. It borrows both. Call
// [ClientConn.Release] to release the ClientConn's memory.
//
// The ClientConn announces chunks of chunkSize bytes, 1 to 16777215.
func NewClientConn(r *millrace.Reader, w io.Writer, chunkSize int) *ClientConn {
	c := &ClientConn{chunkSize: chunkSize}
	c.endpoint.init(r, w)
	return c
}

// Release releases the memory of c. It does not close the Reader or the connection.
func (c *ClientConn) Release() { c.release() }

// Publish performs the handshake, and asks the server to accept a stream. It does not connect to
// to.Host, but sends it to the server as part of the address. program is the name of the client
// program. If the server refuses, the error is a *[StatusError].
func (c *ClientConn) Publish(to Address, program string) error {
	c.key = to.Key
	if err := c.shakeHands(); err != nil {
		return fmt.Errorf("rtmp: handshake: %w", noEOF(err))
	}
	c.request(0, "connect", Object{{"app", to.App}, {"type", "nonprivate"},
		{"flashVer", "FMLE/3.0 (compatible; " + program + ")"}, {"tcUrl", to.url()}})
	if _, err := c.result(); err != nil {
		return err
	}
	c.enc.SetChunkSize(&c.out, c.chunkSize)
	c.request(0, "releaseStream", nil, to.Key)
	c.request(0, "FCPublish", nil, to.Key)
	c.request(0, "createStream", nil)
	values, err := c.result()
	if err != nil {
		return err
	}
	if stream := at(values, 3); stream != float64(Stream) {
		return fmt.Errorf("rtmp: the server creates message stream %v, want %d", stream, Stream)
	}
	c.request(Stream, "publish", nil, to.Key, "live")
	return c.awaitStart()
}

func (c *ClientConn) shakeHands() error {
	var hello [1 + handshakeSize]byte
	hello[0] = rtmpVersion
	_, _ = rand.Read(hello[9:]) // never fails; without a version in hello[5:9] there are no digests
	if _, err := c.w.Write(hello[:]); err != nil {
		return err
	}
	var answer [1 + 2*handshakeSize]byte
	if _, err := io.ReadFull(c.r, answer[:1+handshakeSize]); err != nil {
		return err
	}
	if answer[0] != rtmpVersion {
		return fmt.Errorf("version %d, want %d", answer[0], rtmpVersion)
	}
	if _, err := c.w.Write(answer[1 : 1+handshakeSize]); err != nil { // C2
		return err
	}
	_, err := io.ReadFull(c.r, answer[1+handshakeSize:]) // not every server repeats hello in it
	return err
}

// request appends a command to c.out. Its answer has the number c.calls.
func (c *ClientConn) request(stream uint32, name string, values ...any) {
	c.calls++
	c.call(stream, name, c.calls, values...)
}

// result sends the commands in c.out, and returns the values of the answer to the last one.
func (c *ClientConn) result() ([]any, error) {
	for {
		values, err := c.nextCommand()
		if err != nil {
			return nil, err
		}
		if n, _ := at(values, 1).(float64); n != c.calls {
			continue
		}
		switch at(values, 0) {
		case "_result":
			return values, nil
		case "_error":
			return nil, statusOf(values)
		}
	}
}

// awaitStart waits until the server accepts the stream.
func (c *ClientConn) awaitStart() error {
	for {
		values, err := c.nextCommand()
		if err != nil {
			return err
		}
		switch s := statusOf(values); {
		case at(values, 0) == "_error":
			return s
		case at(values, 0) == "onStatus" && s.Code == "NetStream.Publish.Start":
			return nil
		}
	}
}

// statusOf returns the status in an answer of the server.
func statusOf(values []any) *StatusError {
	info, _ := at(values, 3).(Object)
	e := &StatusError{Code: info.text("code"), Description: info.text("description")}
	if e.Code == "" {
		e.Code = "NetStream.Failed"
	}
	return e
}

// nextCommand sends c.out, and returns the values of the server's next command. If the server ends
// the stream, the error is a *StatusError.
func (c *ClientConn) nextCommand() ([]any, error) {
	for {
		if err := c.flush(); err != nil {
			return nil, err
		}
		m, err := c.read()
		if err != nil {
			return nil, noEOF(err)
		}
		if m.Type != TypeCommand || c.body.Len() == 0 {
			c.body.Release()
			continue
		}
		values, _ := ParseAMF(c.body.Bytes()) // after an error, use the values before the error
		c.body.Release()
		if at(values, 0) == "onStatus" && isEnd(values) {
			return nil, statusOf(values)
		}
		return values, nil
	}
}

// isEnd reports whether an onStatus command ends the stream.
func isEnd(values []any) bool {
	info, _ := at(values, 3).(Object)
	switch info.text("code") {
	case "NetStream.Unpublish.Success", "NetConnection.Connect.Closed",
		"NetConnection.Connect.ReconnectRequest":
		return true
	}
	return info.text("level") == "error"
}

// Wait reads the server's messages, and answers them, until the connection ends. Publish must have
// returned nil. The error is a *[StatusError] if the server ends the stream or asks the client to
// reconnect, and otherwise the error of the connection. It is never nil.
//
// Wait writes the answers to the Writer of c. If another goroutine writes the stream's messages to
// the same connection, the Writer must not insert an answer into a message.
func (c *ClientConn) Wait() error {
	for {
		if _, err := c.nextCommand(); err != nil {
			return err
		}
	}
}

// AppendEnd appends messages to dst that tell the server that the stream has ended. Call it after
// Publish and before Wait; send the messages after the stream.
func (c *ClientConn) AppendEnd(dst *millrace.Chain) {
	c.request(0, "FCUnpublish", nil, c.key)
	c.request(0, "deleteStream", nil, Stream)
	dst.Merge(&c.out)
}
