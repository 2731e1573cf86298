package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/millrace-io/millrace/frame/rtmp"
	"github.com/millrace-io/millrace/internal/relay"
)

// rtmpApp is the application of RTMP addresses: streams are at rtmp://host/live/NAME.
const rtmpApp = "live"

// An rtmpService serves one listener of RTMP: publishers and viewers of the streams at /live/.
type rtmpService struct {
	server  *Server
	tls     *tls.Config // nil without TLS
	publish *publishAuth
	read    *readAuth
}

// newRTMPService returns the service of a listener. config is nil without TLS.
func (s *Server) newRTMPService(ln net.Listener, config *tls.Config) *rtmpService {
	return &rtmpService{
		server: s, tls: config,
		publish: newPublishAuth(s.cfg.PublishToken, ln.Addr()),
		read:    newReadAuth(s.cfg.ReadToken, s.cfg.PublishToken, ln.Addr()),
	}
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
			return rtmpPort{a.Port, isLoopback(a)}
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
			v.server.log.Warn("no RTMP connection is accepted for a moment", "reason", err)
			time.Sleep(acceptPause)
		case v.server.handshakes.Acquire() == nil:
			go v.serveConn(conn)
		default:
			_ = conn.Close()
		}
	}
}

// maxHandshakes bounds the connections that have not said yet what they want. Each takes some 10 KiB, and 128 KiB at the
// very most, for --header-timeout at most. Publishers and viewers have limits of their own.
const maxHandshakes = 512

var errHandshakes = fmt.Errorf("%d connections of RTMP have not said yet what they want", maxHandshakes)

// serveConn serves a connection up to the end of its publisher, or until its viewer is served. A panic is logged, and ends
// this connection alone.
func (v *rtmpService) serveConn(conn net.Conn) {
	if v.tls != nil {
		conn = tls.Server(conn, v.tls)
	}
	client := conn.RemoteAddr().String()
	defer func() {
		if cause := recover(); cause != nil {
			v.server.log.Error("serving an RTMP client failed", "client", client,
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			_ = conn.Close()
		}
	}()
	c, want, err := v.accept(conn)
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			level = slog.LevelDebug // port scanners would fill the log
		}
		v.server.log.Log(context.Background(), level, "RTMP client refused", "client", client, "reason", err)
		return
	}
	name, err := v.admit(want)
	if err == nil && want.Publish {
		err = c.Publish(name)
	} else if err == nil {
		err = c.Watch(context.Background(), name)
	}
	if err != nil {
		who := "viewer refused"
		if want.Publish {
			who = "publisher refused"
		}
		v.server.log.Warn(who, "stream", name, "client", client, "program", want.Client,
			"status", relayStatus(err), "reason", err)
		c.Refuse(want, err)
	}
}

// accept returns what a client wants. The place among maxHandshakes is free then.
func (v *rtmpService) accept(conn net.Conn) (*relay.RTMPConn, *rtmp.Request, error) {
	defer v.server.handshakes.Release()
	return v.server.relay.AcceptRTMP(conn, time.Now().Add(v.server.cfg.HeaderTimeout))
}

// admit returns the name of the stream that a client wants, or a [relay.Refusal].
func (v *rtmpService) admit(want *rtmp.Request) (name string, err error) {
	name, ok := strings.CutPrefix(want.Path, rtmpApp+"/")
	if !ok {
		return "", &relay.Refusal{Status: 404, Reason: "streams are at rtmp://HOST/" + rtmpApp + "/NAME: the server is " +
			"rtmp://HOST/" + rtmpApp + ", the stream key is NAME"}
	}
	if name, err = relay.PublishName(name); err != nil {
		return "", err
	}
	token := want.Query.Get("token")
	status, reason := 0, ""
	if want.Publish {
		status, reason = v.publish.checkToken(token, "NAME?token=TOKEN as the stream key")
	} else {
		status, reason = v.read.checkToken(token, "NAME?token=TOKEN")
	}
	if status != 0 {
		return name, &relay.Refusal{Status: status, Reason: reason}
	}
	return name, nil
}
