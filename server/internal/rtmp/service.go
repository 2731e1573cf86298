package rtmp

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
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// app is the RTMP application of all streams. The address of a stream is rtmp://host/live/NAME.
const app = "live"

// A Service serves publishers and viewers on one RTMP listener.
type Service struct {
	Acceptor   *Acceptor
	Gate       *access.Gate
	Refusals   *access.Refusals
	Handshakes *Handshakes // shared by all listeners
	Log        *slog.Logger

	TLS           *tls.Config     // nil if the listener does not use TLS
	Loopback      bool            // only this machine can reach the listener
	HeaderTimeout time.Duration   // time limit for the handshake and the request
	Draining      context.Context // ends when the shutdown begins
}

// acceptPause is the pause after Accept has failed, usually because too many files are open.
const acceptPause = 100 * time.Millisecond

// Serve serves the connections of ln until ln is closed.
func (v *Service) Serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			v.Log.Warn("no RTMP connection is accepted for a moment", "reason", err)
			time.Sleep(acceptPause)
		default:
			if p := proxy.Of(conn); p != nil && p.Direct() && p.Above() != nil {
				// Refuse the connection now, so that it takes no room in v.Handshakes.
				go v.refuse(conn, p.Above())
				continue
			}
			v.Handshakes.add(conn)
			go v.serveConn(conn)
		}
	}
}

// refuse closes a connection that has not sent a request, and records err as the reason.
func (v *Service) refuse(conn net.Conn, err error) {
	_ = conn.Close() // first, so that RemoteAddr does not wait
	client := conn.RemoteAddr().String()
	v.Refusals.Note(access.Unknown, unaccepted(err), "client", client)
}

// serveConn serves a connection. The caller must have added the connection to v.Handshakes. A
// client can publish several streams over the connection, one after another. serveConn returns when
// the last of these streams has ended. If the client watches a stream, serveConn returns as soon as
// other goroutines have started to serve the client. A panic is logged, and ends only this
// connection.
func (v *Service) serveConn(conn net.Conn) {
	client := conn.RemoteAddr().String()
	defer func() {
		if cause := recover(); cause != nil {
			v.Log.Error("serving an RTMP client failed", "client", client,
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			_ = conn.Close()
		}
	}()
	c, want, err := v.accept(conn)
	if err != nil {
		v.Refusals.Note(access.Unknown, unaccepted(err), "client", client)
		return
	}
	for want != nil {
		if publish := want.Publish; !v.serveRequest(conn, c, want) || !publish {
			return
		}
		again := c.Conn() // may be closed to make room, as before the first request
		v.Handshakes.add(again)
		want = c.Next(time.Now().Add(v.HeaderTimeout))
		v.Handshakes.remove(again)
	}
}

// serveRequest serves a client's request to publish or watch a stream. For a publisher, it returns
// when the publisher has ended. For a viewer, it returns as soon as other goroutines have started
// to serve the viewer. If the request is refused, serveRequest closes the connection and returns
// false.
func (v *Service) serveRequest(conn net.Conn, c *Conn, want *rtmp.Request) bool {
	client := conn.RemoteAddr().String()
	name, err := v.Check(want)
	asked := name
	if err == nil {
		err = checkAddress(conn, want.Publish)
	}
	if err == nil {
		name, err = v.serveAs(clientContext(conn), c, want, name)
	}
	if err != nil {
		who := access.Viewer
		if want.Publish {
			who = access.Publisher
		}
		logged := name
		if v.Gate.HasHook() && name == asked {
			logged = ""
		}
		v.Refusals.Note(who, v.Refusals.WithoutName(err, asked), "stream", clip(logged), "client",
			client, "program", clip(want.Client))
		c.Refuse(want, err)
	}
	return err == nil
}

// clientContext returns a context from which [address.Of] gets the [address.Account] of the client.
// The Account enforces the limits of the client's address.
func clientContext(conn net.Conn) context.Context {
	if p := proxy.Of(conn); p != nil {
		return address.NewContext(context.Background(), p)
	}
	return context.Background()
}

// checkAddress returns an error if the client's address has reached a limit. If the client wants to
// watch a stream, checkAddress also counts it as a viewer of the address.
func checkAddress(conn net.Conn, publish bool) error {
	c := proxy.Of(conn)
	if c == nil {
		return nil
	}
	err := c.Above()
	if err == nil && !publish {
		err = c.Account().Viewer()
	}
	return err
}

// unaccepted returns the refusal for a connection that failed with err before the client had sent
// an RTMP request.
func unaccepted(err error) error {
	if refuse.Of(err) != nil {
		return err
	}
	refused := refuse.New(0, "%v", err).For(refuse.Protocol)
	switch plain := (tls.RecordHeaderError{}); {
	case err == errEvicted:
		refused.Cause = refuse.Limit
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, os.ErrDeadlineExceeded):
		refused.Cause = refuse.Silent
	case errors.As(err, &plain):
		refused.Reason = "the client does not speak TLS, and this address does: use rtmps instead of rtmp"
	}
	return refused
}

// accept performs the handshake, and returns the client's request. It removes the connection from
// v.Handshakes.
func (v *Service) accept(conn net.Conn) (c *Conn, want *rtmp.Request, err error) {
	defer func() {
		if !v.Handshakes.remove(conn) && err != nil {
			err = errEvicted
		}
	}()
	if p := proxy.Of(conn); p != nil {
		if err = p.Err(); err == nil { // the PROXY header or other data has arrived
			v.Handshakes.begin(conn, p.RemoteAddr())
			err = p.Above()
		}
		if err != nil {
			_ = conn.Close()
			return nil, nil, err
		}
	}
	over := conn
	if v.TLS != nil {
		over = tls.Server(conn, v.TLS)
	}
	return v.Acceptor.Accept(over, time.Now().Add(v.HeaderTimeout))
}

func clip(text string) string { return fmt.Sprintf("%.100s", text) }

// Check returns the name of the stream that a client requests. If the request is not allowed, it
// returns a [refuse.Refusal]. If the path does not contain a valid name, Check returns the path as
// the name.
func (v *Service) Check(want *rtmp.Request) (name string, err error) {
	name, ok := strings.CutPrefix(want.Path, app+"/")
	if !ok {
		return want.Path, refuse.New(http.StatusNotFound,
			"streams are at rtmp://HOST/%[1]s/NAME: the server is rtmp://HOST/%[1]s, the stream key is NAME", app).
			For(refuse.Path)
	}
	if name, err = streamname.Published(name); err != nil {
		return want.Path, err
	}
	policy := v.Gate.Policy().On(v.Loopback)
	token := policy.QueryToken(want.RawQuery)
	if want.Publish {
		return name, policy.MayPublish(token, name, "NAME?token=TOKEN as the stream key")
	}
	return name, policy.MayRead(token, name, "NAME?token=TOKEN")
}

// serveAs lets a client publish or watch a stream. name is the name that the client has requested.
// If there is a hook, the hook decides whether the client is allowed, and may choose another name
// for the stream. serveAs returns the name under which the server has the stream.
func (v *Service) serveAs(ctx context.Context, c *Conn, want *rtmp.Request, name string) (_ string,
	err error) {
	var bound time.Duration
	if want.Query.Has("bound") && !want.Publish {
		if bound, err = live.ParseBound(want.Query.Get("bound")); err != nil {
			return name, err
		}
	}
	q := &hook.Request{Event: hook.PlayBegin, Stream: name, Protocol: "rtmp",
		Address: c.RemoteAddr(),
		Agent:   want.Client, Query: want.RawQuery,
		Token: v.Gate.Policy().QueryToken(want.RawQuery)}
	if v.TLS != nil {
		q.Protocol = "rtmps"
	}
	if want.Publish {
		q.Event = hook.Publish
	}
	if name, c.Terms, err = v.Gate.Ask(v.Draining, q); err != nil {
		if v.Draining.Err() != nil {
			err = refuse.ErrShutdown
		}
		return "", err
	}
	if want.Publish {
		err = c.Publish(name)
	} else {
		err = c.Watch(ctx, name, bound)
	}
	if err != nil {
		c.Terms.End(err.Error(), 0)
	}
	return name, err
}
