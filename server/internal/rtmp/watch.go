package rtmp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// Watch waits until the named stream exists, and starts to send it to the client. From then on,
// other goroutines own the connection. A frame may wait up to bound; see [live.ParseBound].
//
// If the client leaves while Watch waits, Watch closes the connection and returns nil. If Watch
// returns an error, the caller must pass it to Refuse.
func (c *Conn) Watch(ctx context.Context, name string, bound time.Duration) error {
	want := live.WatchRequest{Name: name, Format: rendition.RTMP,
		Remote: c.conn.RemoteAddr().String(), Terms: c.Terms, Bound: bound}
	viewers := live.NewAdmission(c.acceptor.hub)
	var first earlyReplies
	defer first.Release()
	c.out.Writer = &first
	ctx, stop := c.readWaiting(ctx)
	v, err := viewers.Admit(ctx, want)
	if gone := stop(); gone != nil {
		if err == nil {
			v.Decline()
		}
		c.log().Info("viewer left while it waited", "stream", name, "viewer", want.Remote, "reason",
			gone)
		c.close()
		c.Terms.End("viewer left while it waited", 0)
		return nil
	}
	if err == nil {
		// Start sends the first messages to the client. The messages are collected in a buffer,
		// which already contains the replies to the client's earlier messages. If the buffer
		// becomes longer than fanout.MaxReplies bytes, Start fails.
		if err = c.proto.Start(); err != nil {
			v.Decline()
		}
	}
	if err != nil {
		c.out.Writer = c.conn
		return err
	}
	to := v.Connect(fanout.NewConn(c.conn, true, c.acceptor.cfg.Unsent))
	to.Append(first.Bytes())
	var end millrace.Chain
	c.proto.AppendEnd(&end)
	to.SetEnd(&end)
	c.proto.SetMessageTimeout(c.acceptor.cfg.StallTimeout, func() { to.End(fanout.Stalled) })
	to.SetPaused(c.proto.Paused())
	c.out.Writer = replies{to}
	viewers.Start(v, func() { c.readInput(to, want) })
	return nil
}

// readWaiting reads a viewer's input while the viewer waits for its stream. The returned context
// ends when the viewer disconnects. To end the reading, the caller must call stop. If the viewer
// has left, stop returns the reason. Otherwise it returns nil.
func (c *Conn) readWaiting(ctx context.Context) (waiting context.Context, stop func() error) {
	waiting, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- c.readLoop(func() {})
	}()
	return waiting, func() error {
		cancel()
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		err := <-ended
		_ = c.conn.SetReadDeadline(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) { // set by stop; no input is lost
			return nil
		}
		return err
	}
}

// earlyReplies stores RTMP messages for a viewer until the stream begins.
type earlyReplies struct{ millrace.Chain }

func (r *earlyReplies) Write(p []byte) (int, error) {
	if r.Len()+len(p) > fanout.MaxReplies {
		return 0, errReplies
	}
	r.AppendCopy(p)
	return len(p), nil
}

// readInput reads a viewer's input until the viewer disconnects or ends the stream.
func (c *Conn) readInput(to *fanout.Viewer, want live.WatchRequest) {
	defer c.release()
	err := c.readLoop(func() { to.SetPaused(c.proto.Paused()) })
	if errors.Is(err, errReplies) {
		c.log().Warn("viewer takes no answers", "stream", want.Name, "viewer", want.Remote, "bytes",
			fanout.MaxReplies)
		to.End(fanout.Stalled)
	}
}

// readLoop reads a viewer's input until a read fails. After each command, which may have paused or
// resumed the stream, readLoop calls onCommand. A panic is logged, and ends only this viewer.
func (c *Conn) readLoop(onCommand func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c.log().Error("reading from a viewer failed", "viewer", c.conn.RemoteAddr().String(),
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = live.ErrPanic
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
			onCommand()
		}
	}
}

var errReplies = fmt.Errorf("a viewer asks and takes no answers: %d bytes wait", fanout.MaxReplies)

// replies sends RTMP messages to a viewer that already receives the stream. It uses Viewer.Reply,
// because another goroutine may be writing the stream to the connection.
type replies struct{ to *fanout.Viewer }

func (r replies) Write(p []byte) (int, error) {
	if !r.to.Reply(p) {
		return 0, errReplies
	}
	return len(p), nil
}
