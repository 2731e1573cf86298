package push

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// endedEarly is the reason for which a connection ends if its stream ends while it is being set up.
const endedEarly = fanout.Moved

func isHangUp(r fanout.Reason) bool { return r == fanout.HungUp || r == fanout.Failed }

// A connection sends a stream to a server that has accepted it.
type connection struct {
	viewer *fanout.Viewer
	ended  chan error // receives why reading from the server has ended, or nil
}

// admit makes this push a viewer of the stream. The viewer writes to conn, and then owns it.
//
// The viewer begins at the next keyframe, not at the newest one as others do: the other server may
// have got newer frames on an earlier connection, perhaps from another node, and many servers do
// not accept that timestamps go back.
func (p *push) admit(ctx context.Context, conn net.Conn, f rendition.Format) (v *live.Viewer,
	to *fanout.Viewer, err error) {
	v, err = p.pusher.viewers.Admit(ctx, live.WatchRequest{Name: p.name, Format: f, Push: true,
		Next: true, Remote: p.to.String()})
	if err != nil {
		return nil, nil, err
	}
	return v, v.Connect(fanout.NewConn(conn, true, p.pusher.cfg.Unsent)), nil
}

// start starts to send the stream. The function read reads from the server until the connection
// ends.
func (p *push) start(v *live.Viewer, to *fanout.Viewer, read func() error) *connection {
	c := &connection{to, make(chan error, 1)}
	p.pusher.viewers.Start(v, func() {
		err := read()
		to.End(fanout.HungUp)
		c.ended <- err
	})
	return c
}

// publishRTMP asks the server to accept the stream, and starts to send it.
func (p *push) publishRTMP(ctx context.Context, conn net.Conn) (*connection, error) {
	in := millrace.NewReader(conn)
	out := &output{Writer: conn}
	client := rtmp.NewClientConn(in, out, p.pusher.cfg.ChunkSize)
	release := func() {
		client.Release()
		in.Release()
	}
	if err := client.Publish(p.to.rtmp, p.pusher.cfg.Program); err != nil {
		release()
		return nil, err
	}
	v, to, err := p.admit(ctx, conn, rendition.RTMP)
	if err != nil {
		release()
		return nil, err
	}
	var end millrace.Chain
	client.AppendEnd(&end)
	to.SetEnd(&end)
	out.Writer = replies{to}
	return p.start(v, to, func() error {
		defer release()
		return client.Wait()
	}), nil
}

// output is where a ClientConn writes: at first to the connection, and then to the viewer.
type output struct{ io.Writer }

// replies sends messages between the messages of the stream.
type replies struct{ to *fanout.Viewer }

func (r replies) Write(p []byte) (int, error) {
	if !r.to.Reply(p) {
		return 0, fmt.Errorf("the server takes no answers: %d bytes wait", fanout.MaxReplies)
	}
	return len(p), nil
}

// postFLV starts to send the stream in an HTTP request.
func (p *push) postFLV(ctx context.Context, conn net.Conn) (*connection, error) {
	v, to, err := p.admit(ctx, whole(conn), rendition.FLV)
	if err != nil {
		return nil, err
	}
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n"+
		"Content-Type: video/x-flv\r\nTransfer-Encoding: chunked\r\n\r\n",
		p.to.http.RequestURI(), p.to.http.Host, p.pusher.cfg.Program)
	to.Append([]byte(head.String()))
	to.SetChunked()
	to.Append(v.Head())
	return p.start(v, to, func() error { return readResponse(conn) }), nil
}

const (
	maxResponse = 16 << 10 // limits the bytes that are read of a response
	maxText     = 1 << 10  // limits the bytes of its body that become part of an error
)

// A wholeConn is a connection that is not closed for sending alone, because HTTP servers take that
// for a client that has gone.
type wholeConn struct{ net.Conn }

func (c wholeConn) CloseWrite() error { return nil }

// NetConn returns the connection; see package tcpconn.
func (c wholeConn) NetConn() net.Conn { return c.Conn }

// A wholeTCPConn is a wholeConn without TLS. Its socket can be written to directly.
type wholeTCPConn struct{ *net.TCPConn }

func (c wholeTCPConn) CloseWrite() error { return nil }

// NetConn returns the connection; see package tcpconn.
func (c wholeTCPConn) NetConn() net.Conn { return c.TCPConn }

func whole(conn net.Conn) net.Conn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return wholeTCPConn{tcp}
	}
	return wholeConn{conn}
}

// readResponse reads the response to an HTTP request. The result is nil if the server has received
// the stream.
func readResponse(conn net.Conn) error {
	in := bufio.NewReader(io.LimitReader(conn, maxResponse))
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		if res.StatusCode < 300 { // perhaps before the end of the stream
			_, _ = io.Copy(io.Discard, conn)
			return nil
		}
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxText))
		return fmt.Errorf("the server answers %s: %s", res.Status, strings.TrimSpace(string(text)))
	}
}
