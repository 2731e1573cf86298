package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/flvstream"
	"github.com/millrace-io/millrace/server/internal/relay/ingest"
	"github.com/millrace-io/millrace/server/internal/relay/rendition"
	"github.com/millrace-io/millrace/server/internal/tcpconn"
)

// An RTMPConn is a connection of a client that speaks RTMP: RTMP.Accept, and then Publish or Watch, or Refuse. After Publish,
// Next may return another request.
type RTMPConn struct {
	hub   *Hub
	conn  net.Conn
	out   *rtmpWriter
	r     *millrace.Reader
	proto *rtmp.ServerConn
	ended bool

	// Terms are those of what the client wants. The caller of Publish or Watch sets them before.
	Terms Terms
}

// An rtmpWriter takes what the protocol answers, to where it can be written at present.
type rtmpWriter struct{ io.Writer }

// RTMP accepts clients of RTMP, for the streams of a Hub.
type RTMP struct{ hub *Hub }

// NewRTMP returns what accepts clients for h.
func NewRTMP(h *Hub) RTMP { return RTMP{h} }

// Accept shakes hands with a client, and returns what it wants. It takes ownership of conn: Publish, Watch and Refuse
// end its life, and an error has closed it. All that must be done by the deadline.
func (d RTMP) Accept(conn net.Conn, deadline time.Time) (*RTMPConn, *rtmp.Request, error) {
	c := &RTMPConn{hub: d.hub, conn: conn, out: &rtmpWriter{conn}, r: millrace.NewReader(plain(conn))}
	c.proto = rtmp.NewServerConn(c.r, c.out, d.hub.cfg.maxTag())
	c.hearClient()
	want, err := c.awaitRequest(deadline, c.proto.Accept)
	if err != nil {
		return nil, nil, err
	}
	return c, want, nil
}

// hearClient accounts for what a client sends that does not publish.
func (c *RTMPConn) hearClient() {
	c.proto.SetPool(c.hub.clients)
	conn := c.conn
	c.proto.SetMessageTimeout(c.hub.cfg.StallTimeout, func() { _ = conn.Close() })
}

// Next returns what a client wants after it has ended the stream that it published, or nil: then the connection has ended.
func (c *RTMPConn) Next(deadline time.Time) *rtmp.Request {
	if c.ended {
		return nil
	}
	want, _ := c.awaitRequest(deadline, c.proto.NextRequest)
	return want
}

// awaitRequest returns what next returns until the deadline. After an error the connection has ended.
func (c *RTMPConn) awaitRequest(deadline time.Time, next func() (*rtmp.Request, error)) (*rtmp.Request, error) {
	_ = c.conn.SetDeadline(deadline)
	cut := make(chan struct{})
	stop := context.AfterFunc(c.hub.ends, func() {
		defer close(cut)
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	})
	want, err := next()
	if !stop() {
		<-cut // so that it does not cut the answer
		if err == nil {
			err = refuse.ErrShutdown
		}
	}
	if err != nil {
		if want != nil {
			c.Refuse(want, err)
		} else {
			c.close()
		}
		return nil, err
	}
	_ = c.conn.SetDeadline(time.Time{})
	return want, nil
}

// Conn returns the TCP connection as it is between two requests. The caller may close it, and do nothing else with it.
func (c *RTMPConn) Conn() net.Conn {
	if tcp := tcpconn.Of(c.conn); tcp != nil {
		return tcp
	}
	return c.conn
}

// RemoteAddr returns the address of the client.
func (c *RTMPConn) RemoteAddr() string { return c.conn.RemoteAddr().String() }

// plain returns the TCP connection that conn is, or conn. A Reader of a TCP connection holds no memory while it waits.
func plain(conn net.Conn) io.ReadWriter {
	if tcp := tcpconn.Plain(conn); tcp != nil {
		return tcp
	}
	return conn
}

// close ends the connection.
func (c *RTMPConn) close() {
	_ = c.conn.Close()
	c.release()
}

// release gives back what the protocol holds, at the end of the connection.
func (c *RTMPConn) release() {
	c.ended = true
	c.proto.Release()
	c.r.Release()
}

// Refuse tells the client why it does not get what it wants, and ends the connection.
func (c *RTMPConn) Refuse(want *rtmp.Request, why error) {
	_ = c.conn.SetDeadline(time.Now().Add(lingerTime))
	if c.proto.Refuse(rtmpCode(want, publishStatus(why)), explain(why)) == nil {
		linger(c.conn)
	}
	c.close()
}

// rtmpCode is what RTMP calls a refusal. Encoders show it to their users, some of them only if they know it.
func rtmpCode(want *rtmp.Request, status int) string {
	switch {
	case want.Publish && status == http.StatusConflict:
		return "NetStream.Publish.BadName"
	case want.Publish:
		return "NetStream.Publish.Denied"
	case status == http.StatusNotFound:
		return "NetStream.Play.StreamNotFound"
	}
	return "NetStream.Play.Failed"
}

// Publish relays what the client sends as the stream name until it ends. It ends the connection, unless the client has
// ended its stream itself, and Next may follow. An error is a [refuse.Refusal] that the caller answers with Refuse.
func (c *RTMPConn) Publish(name string) error {
	p, err := c.hub.Open(name, c.conn.RemoteAddr().String())
	if err != nil {
		return err
	}
	defer p.Done()
	p.keepTo(c.Terms)
	p.reconnects.Store(c.proto.CanReconnect())
	connected := true
	err = p.Run(func() error {
		if err := c.proto.Start(); err != nil {
			return err
		}
		in := c.listenTo(p)
		defer func() { connected = c.takeBack(in) }()
		return c.receive(p)
	})
	if connected {
		c.endPublish(err)
	} else {
		c.release()
	}
	return nil
}

// endPublish tells the client why its stream has ended, if it does not know, and ends the connection.
func (c *RTMPConn) endPublish(why error) {
	switch {
	case why == nil: // it may publish again, and GStreamer takes an end before its own deleteStream for a failure
		c.read(plain(c.conn))
		c.hearClient()
		return
	case errors.Is(why, io.ErrUnexpectedEOF):
		c.close()
		return
	}
	c.Refuse(&rtmp.Request{Publish: true}, why)
}

// receive publishes messages until the client ends the stream, and returns nil then.
func (c *RTMPConn) receive(p *Publisher) error {
	var tags rtmpTags
	defer tags.release()
	asked := false
	for received := uint64(0); ; {
		if !asked && p.leaves.Load() {
			asked = true
			if err := c.proto.RequestReconnect(refuse.ErrShutdown.Reason); err != nil {
				return err
			}
		}
		m, err := c.proto.Next(&tags.body)
		p.skip(int(c.proto.Received() - received))
		received = c.proto.Received()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := tags.publish(p, m); err != nil {
			return err
		}
	}
}

// listenTo reads the connection as a publisher's, until takeBack.
func (c *RTMPConn) listenTo(p *Publisher) ingest.Conn {
	in := p.ingest(c.conn)
	c.out.Writer = in
	c.proto.SetPool(p.s.memory)
	limit := c.hub.cfg.PublishTimeout
	c.proto.SetMessageTimeout(limit, func() { p.cancel(errSlowMessage(limit)) })
	c.read(in)
	return in
}

// takeBack ends listenTo. It reports whether there still is a connection.
func (c *RTMPConn) takeBack(in ingest.Conn) bool {
	conn, err := in.Release()
	if err != nil {
		return false
	}
	c.conn, c.out.Writer = conn, conn
	return true
}

// read makes rest what follows the bytes that have been read from the connection already.
func (c *RTMPConn) read(rest io.Reader) {
	early, _ := c.r.Peek(c.r.Buffered())
	if len(early) > 0 {
		rest = io.MultiReader(bytes.NewReader(bytes.Clone(early)), rest)
	}
	c.r.Reset(rest)
}

// rtmpTags makes FLV tags of the messages of a publisher: a header and a trailer around the body, which is not copied.
type rtmpTags struct {
	enc       flv.Encoder
	body, tag millrace.Chain // both empty between messages
	begun     bool
}

func (r *rtmpTags) release() {
	r.enc.Release()
	r.body.Release()
	r.tag.Release()
}

// setDataFrame stands in front of metadata that the server is to keep.
var setDataFrame = rtmp.AppendAMF(nil, "@setDataFrame")

// publish publishes the message that is in body, if it is of use to viewers.
func (r *rtmpTags) publish(p *Publisher, m rtmp.Message) error {
	if r.body.Len() == 0 {
		return nil
	}
	if m.Type == rtmp.TypeData {
		var head [len("\x02\x00\x0d@setDataFrame")]byte
		if n := r.body.CopyTo(head[:]); bytes.Equal(head[:n], setDataFrame) {
			r.body.Discard(n)
		}
		if r.body.Len() == 0 || r.body.CopyTo(head[:1]) == 0 || head[0] != setDataFrame[0] {
			r.body.Release() // not the name of an event: some encoders send time codes so
			return nil
		}
	}
	t, err := r.enc.Append(&r.tag, flv.Type(m.Type), m.Timestamp, &r.body)
	if err != nil {
		return err
	}
	if t.SequenceHeader && t.Payload+4 == t.Len() { // with nothing in it
		r.tag.Release()
		return nil
	}
	if !r.begun {
		r.begun = true
		p.Begin(promised(t, &r.tag))
	}
	return p.WriteTag(t, &r.tag)
}

// promised is what the first tag says about what will come. It borrows tag.
func promised(t flv.Tag, tag *millrace.Chain) flv.Header {
	h := flv.Header{HasAudio: true, HasVideo: true}
	if t.Metadata && t.Len() <= flvstream.MaxPart {
		text := tag.Bytes()
		audio, video := bytes.Contains(text, []byte("audiocodecid")), bytes.Contains(text, []byte("videocodecid"))
		if audio != video {
			h = flv.Header{HasAudio: audio, HasVideo: video}
		}
	}
	return h
}

// Watch sends the stream name until it or the client ends. It waits for the stream, and then returns at once; the
// connection is the viewer's from then on. An error is a [refuse.Refusal] that the caller answers with Refuse.
func (c *RTMPConn) Watch(ctx context.Context, name string) error {
	want := watchRequest{name: name, format: rendition.RTMP, remote: c.conn.RemoteAddr().String(), terms: c.Terms}
	var first earlyReplies
	defer first.Release()
	c.out.Writer = &first
	ctx, stop := c.hearWaiting(ctx)
	v, err := c.hub.admit(ctx, want)
	if gone := stop(); gone != nil {
		if err == nil {
			v.decline()
		}
		c.hub.log.Info("viewer left while it waited", "stream", name, "viewer", want.remote, "reason", gone)
		c.close()
		c.Terms.End("viewer left while it waited", 0)
		return nil
	}
	if err == nil {
		if err = c.proto.Start(); err != nil { // there is no room behind what it has asked while it waited
			v.decline()
		}
	}
	if err != nil {
		c.out.Writer = c.conn
		return err
	}
	v.connect(fanout.NewConn(c.conn, true, c.hub.cfg.Unsent)) // which the timer may end
	v.transport.Append(first.Bytes())
	var end millrace.Chain
	c.proto.AppendEnd(&end)
	v.transport.SetEnd(&end)
	c.proto.SetMessageTimeout(c.hub.cfg.StallTimeout, func() { v.transport.End(fanout.Stalled) })
	v.transport.SetPaused(c.proto.Paused())
	c.out.Writer = replies{v.transport}
	v.enter()
	v.rendition.Fanout().Start(v.transport, func() { c.hear(v) })
	return nil
}

// hearWaiting reads what a viewer sends that waits for its stream, and ends the context that it returns when the viewer
// hangs up. stop ends that, and returns why the viewer is gone, or nil.
func (c *RTMPConn) hearWaiting(ctx context.Context) (waiting context.Context, stop func() error) {
	waiting, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- c.hearAll(func() {})
	}()
	return waiting, func() error {
		cancel()
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		err := <-ended
		_ = c.conn.SetReadDeadline(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) { // which loses nothing
			return nil
		}
		return err
	}
}

// earlyReplies keeps what the protocol answers to a viewer before it is served.
type earlyReplies struct{ millrace.Chain }

func (r *earlyReplies) Write(p []byte) (int, error) {
	if r.Len()+len(p) > fanout.MaxReplies {
		return 0, errReplies
	}
	r.AppendCopy(p)
	return len(p), nil
}

// hear reads what a viewer sends until it hangs up or ends the stream.
func (c *RTMPConn) hear(v *viewer) {
	defer c.release()
	err := c.hearAll(func() { v.transport.SetPaused(c.proto.Paused()) })
	if errors.Is(err, errReplies) {
		v.stream.log.Warn("viewer takes no answers", "viewer", v.remote, "bytes", fanout.MaxReplies)
		v.transport.End(fanout.Stalled)
	}
}

// hearAll reads what a viewer sends until that fails, and calls pause when the viewer pauses or goes on. A panic is
// logged, and ends this viewer alone.
func (c *RTMPConn) hearAll(pause func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c.hub.log.Error("hearing a viewer failed", "viewer", c.conn.RemoteAddr().String(),
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	var none millrace.Chain
	for {
		m, err := c.proto.Next(&none)
		none.Release()
		if err != nil {
			return err
		}
		if m.Type == rtmp.TypeCommand {
			pause()
		}
	}
}

var errReplies = fmt.Errorf("a viewer asks and takes no answers: %d bytes wait", fanout.MaxReplies)

// replies takes what the protocol answers to a viewer while another goroutine may be writing the stream to it: answers
// leave between batches.
type replies struct{ to *fanout.Viewer }

func (r replies) Write(p []byte) (int, error) {
	if !r.to.Reply(p) {
		return 0, errReplies
	}
	return len(p), nil
}
