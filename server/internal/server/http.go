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

// maxHeaderBytes is the maximum size of a request's head. A browser sends about 1 KiB.
const maxHeaderBytes = 16 << 10

// These limits prevent a client without a token from making net/http use much memory for a
// connection. Otherwise, a client could send a frame of 1 MiB, or a body that no handler reads.
const (
	// http2Frame is the maximum size in bytes of a frame that a client may send. HTTP/2 does not
	// allow a smaller maximum. Larger frames are not needed.
	http2Frame = 16 << 10

	// http2Body is the maximum number of body bytes that a client may send on a connection before a
	// handler reads the bytes. The limit lets a publisher with a round trip of 100 ms send up to 20
	// Mbit/s.
	http2Body = 256 << 10

	// http2Streams is the maximum number of concurrent requests on a connection. RFC 9113, section
	// 6.5.2, recommends at least 100. A higher maximum would take more memory. Browsers send fewer
	// requests at once.
	http2Streams = 100
)

// httpServer returns an HTTP server with the handler h. The Loans count the memory of the server's
// requests.
func (s *Server) httpServer(h http.Handler, loans *memory.Loans) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.limitBodies(s.budget.Limit(loans, h)),
		Protocols:         protocols,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		// WriteTimeout limits the time for a complete short response, and for the data that
		// net/http sends after a handler has returned. Handlers of streams and files replace this
		// limit with a limit for the time without progress. Handlers of profiles extend this limit.
		WriteTimeout:   s.cfg.StallTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       log.New(errorLog{s.log}, "", 0),
		ConnContext:    connContext,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize:              http2Frame,
			MaxReceiveBufferPerConnection: http2Body,
			MaxReceiveBufferPerStream:     http2Body,
			MaxConcurrentStreams:          http2Streams,
			// If the client of an HTTP/2 connection accepts no data, all viewers and downloads on
			// the connection are blocked. The viewers and downloads end first, and the connection
			// is closed a little later, so that the log contains the reason for each viewer and
			// download.
			WriteByteTimeout: s.cfg.StallTimeout + time.Second/2,
		},
		// ReadTimeout is not set, because the body of a published stream has no end. The handler
		// limits the time without data instead.
	}
}

// limitBodies returns a handler that calls h. It limits the cost of request bodies that h does not
// read:
//
//   - Over HTTP/1, net/http reads a part of the body before it sends the response. limitBodies
//     therefore sets a read deadline. If h reads the body, h must replace this deadline.
//   - Over HTTP/2, net/http keeps the body in memory. limitBodies therefore discards the body,
//     unless the method is POST or PUT.
func (s *Server) limitBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Body == http.NoBody:
		case r.ProtoMajor == 1:
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.HeaderTimeout))
		case r.Method != http.MethodPost && r.Method != http.MethodPut:
			_ = r.Body.Close() // discards the body
		}
		h.ServeHTTP(w, r)
	})
}

// An errorLog is the io.Writer to which net/http logs its errors.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug // every port scan causes such an error
	}
	l.log.Log(context.Background(), level, strings.TrimSpace(string(p)))
	return len(p), nil
}
