package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/proxy"
	"github.com/millrace-io/millrace/server/internal/refuse"
	door "github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// rtmpApp is the application of RTMP addresses: streams are at rtmp://host/live/NAME.
const rtmpApp = "live"

// An rtmpService serves one listener of RTMP: publishers and viewers of the streams at /live/.
type rtmpService struct {
	door       *door.Door
	gate       *access.Gate
	refusals   *access.Refusals
	handshakes *handshakes
	log        *slog.Logger

	tls           *tls.Config // nil without TLS
	loopback      bool        // only this machine can reach it
	headerTimeout time.Duration
	draining      context.Context // ends when no more is to be published
}

// acceptPause is how long no connection is accepted after that has failed: too many files are open, as a rule.
const acceptPause = 100 * time.Millisecond

// An rtmpPort is where a listener of RTMP is, for the page. The zero value stands for none.
type rtmpPort struct {
	port     int
	loopback bool // only this machine reaches it
}

func newRTMPPort(ln net.Listener) rtmpPort {
	if ln != nil {
		if a, ok := ln.Addr().(*net.TCPAddr); ok {
			return rtmpPort{a.Port, access.IsLoopback(a)}
		}
	}
	return rtmpPort{}
}

// serve serves connections until ln is closed.
func (v *rtmpService) serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			v.log.Warn("no RTMP connection is accepted for a moment", "reason", err)
			time.Sleep(acceptPause)
		default:
			if p := proxy.Of(conn); p != nil && p.Direct() && p.Above() != nil {
				// Before the handshake, so that it takes no place of others.
				go v.refuse(conn, p.Above())
				continue
			}
			v.handshakes.add(conn)
			go v.serveConn(conn)
		}
	}
}

// refuse closes a connection that has not said what it wants.
func (v *rtmpService) refuse(conn net.Conn, why error) {
	_ = conn.Close() // so that RemoteAddr does not wait
	client := conn.RemoteAddr().String()
	v.refusals.Note(access.Unknown, unaccepted(why), "client", client)
}

// serveConn serves a connection, one of handshakes, up to the end of its last publisher, or until its viewer is served. A
// panic is logged, and ends this connection alone.
func (v *rtmpService) serveConn(conn net.Conn) {
	client := conn.RemoteAddr().String()
	defer func() {
		if cause := recover(); cause != nil {
			v.log.Error("serving an RTMP client failed", "client", client,
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			_ = conn.Close()
		}
	}()
	c, want, err := v.accept(conn)
	if err != nil {
		v.refusals.Note(access.Unknown, unaccepted(err), "client", client)
		return
	}
	for want != nil {
		if publish := want.Publish; !v.serveRequest(conn, c, want) || !publish {
			return
		}
		again := c.Conn() // which gives way to others, as before the first request
		v.handshakes.add(again)
		want = c.Next(time.Now().Add(v.headerTimeout))
		v.handshakes.remove(again)
	}
}

// serveRequest serves what a client wants, up to the end of its publisher or until its viewer is served. It returns false if it
// has refused that, and ended the connection.
func (v *rtmpService) serveRequest(conn net.Conn, c *door.Conn, want *rtmp.Request) bool {
	client := conn.RemoteAddr().String()
	name, err := v.admit(want)
	asked := name
	if err == nil {
		err = admitAddress(conn, want.Publish)
	}
	if err == nil {
		name, err = v.serveAs(connContext(context.Background(), conn), c, want, name)
	}
	if err != nil {
		who := access.Viewer
		if want.Publish {
			who = access.Publisher
		}
		logged := name
		if v.gate.HasHook() && name == asked {
			logged = ""
		}
		v.refusals.Note(who, v.refusals.WithoutName(err, asked), "stream", clip(logged), "client", client,
			"program", clip(want.Client))
		c.Refuse(want, err)
	}
	return err == nil
}

// unaccepted returns the refusal of a client that has not said what it wants.
func unaccepted(err error) error {
	if refuse.Of(err) != nil {
		return err
	}
	refused := refuse.New(0, "%v", err).For(refuse.Protocol)
	switch plain := (tls.RecordHeaderError{}); {
	case err == errCrowded:
		refused.Cause = refuse.Limit
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		refused.Cause = refuse.Silent
	case errors.As(err, &plain):
		refused.Reason = "the client does not speak TLS, and this address does: use rtmps instead of rtmp"
	}
	return refused
}

// accept returns what a client wants. Its connection has left handshakes then.
func (v *rtmpService) accept(conn net.Conn) (c *door.Conn, want *rtmp.Request, err error) {
	defer func() {
		if !v.handshakes.remove(conn) && err != nil {
			err = errCrowded
		}
	}()
	if p := proxy.Of(conn); p != nil {
		if err = p.Err(); err == nil { // something has come
			v.handshakes.begin(conn, p.RemoteAddr())
			err = p.Above()
		}
		if err != nil {
			_ = conn.Close()
			return nil, nil, err
		}
	}
	over := conn
	if v.tls != nil {
		over = tls.Server(conn, v.tls)
	}
	return v.door.Accept(over, time.Now().Add(v.headerTimeout))
}

// clip bounds what a client says of itself in the log.
func clip(text string) string { return fmt.Sprintf("%.100s", text) }

// admit returns the name of the stream that a client wants, and perhaps a [refuse.Refusal]. Where there is no such name,
// it returns the path.
func (v *rtmpService) admit(want *rtmp.Request) (name string, err error) {
	name, ok := strings.CutPrefix(want.Path, rtmpApp+"/")
	if !ok {
		return want.Path, refuse.New(http.StatusNotFound,
			"streams are at rtmp://HOST/%[1]s/NAME: the server is rtmp://HOST/%[1]s, the stream key is NAME", rtmpApp).
			For(refuse.Path)
	}
	if name, err = streamname.Published(name); err != nil {
		return want.Path, err
	}
	policy := v.gate.Policy().On(v.loopback)
	token := policy.QueryToken(want.RawQuery)
	if want.Publish {
		return name, policy.MayPublish(token, name, "NAME?token=TOKEN as the stream key")
	}
	return name, policy.MayRead(token, name, "NAME?token=TOKEN")
}

// serveAs serves a client under the name that the hook says if there is one, which it returns.
func (v *rtmpService) serveAs(ctx context.Context, c *door.Conn, want *rtmp.Request, name string) (_ string, err error) {
	q := &hook.Request{Event: hook.PlayBegin, Stream: name, Protocol: "rtmp", Address: c.RemoteAddr(),
		Agent: want.Client, Query: want.RawQuery, Token: v.gate.Policy().QueryToken(want.RawQuery)}
	if v.tls != nil {
		q.Protocol = "rtmps"
	}
	if want.Publish {
		q.Event = hook.Publish
	}
	if name, c.Terms, err = v.gate.Ask(v.draining, q); err != nil {
		if v.draining.Err() != nil {
			err = refuse.ErrShutdown
		}
		return "", err
	}
	if want.Publish {
		err = c.Publish(name)
	} else {
		err = c.Watch(ctx, name)
	}
	if err != nil {
		c.Terms.End(err.Error(), 0)
	}
	return name, err
}
