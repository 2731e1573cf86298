package server

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/memory"
)

// maxHeaderBytes bounds a request's head. A browser sends about 1 KiB.
const maxHeaderBytes = 16 << 10

// Without these bounds a client that sends a frame of 1 MiB, or a body that no handler reads, makes
// net/http hold as much for each connection, without any token.
const (
	// http2Frame is the longest frame that a client may send: the least that HTTP/2 allows, and
	// enough for any body.
	http2Frame = 16 << 10

	// http2Body is how many bytes of bodies a connection may send before a handler has read them. A
	// publisher with a round trip of 100 ms sends up to 20 Mbit/s through it.
	http2Body = 256 << 10

	// http2Streams limits the concurrent requests of a connection. Each holds memory, so this is
	// the minimum that HTTP/2 recommends; browsers open fewer.
	http2Streams = 100
)

// httpServer returns the HTTP server of a listener. Its requests hold memory of requests.
func (s *Server) httpServer(h http.Handler, requests *memory.Loans) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.limitBodies(s.budget.Limit(requests, h)),
		Protocols:         protocols,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		// This limits a short answer as a whole, and what net/http sends after a handler has
		// returned. Streams and files limit each silence instead, and profiles take longer.
		WriteTimeout:   s.cfg.StallTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       log.New(errorLog{s.log}, "", 0),
		ConnContext:    connContext,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize:              http2Frame,
			MaxReceiveBufferPerConnection: http2Body,
			MaxReceiveBufferPerStream:     http2Body,
			MaxConcurrentStreams:          http2Streams,
			// A connection of HTTP/2 that takes nothing blocks all of its viewers and downloads. It
			// is closed a little later than they are, so that the log has their reasons.
			WriteByteTimeout: s.cfg.StallTimeout + time.Second/2,
		},
		// No ReadTimeout: a stream has no end. Its handler limits each silence.
	}
}

// limitBodies limits the cost of a body that no handler reads. Over HTTP/1, net/http waits for some
// of it before it sends the response; over HTTP/2, it keeps the body. A handler that reads a body
// sets its own deadline.
func (s *Server) limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Body == http.NoBody:
		case r.ProtoMajor == 1:
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.HeaderTimeout))
		case r.Method != http.MethodPost && r.Method != http.MethodPut:
			_ = r.Body.Close() // which drops it
		}
		next.ServeHTTP(w, r)
	})
}

// An errorLog logs the errors of net/http.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug // every port scanner makes one
	}
	l.log.Log(context.Background(), level, strings.TrimSpace(string(p)))
	return len(p), nil
}
