package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// A headWatch logs the connections that end before a whole request has come, about which net/http says nothing: a client
// that stalls in its headers looks like this.
type headWatch struct {
	log   *slog.Logger
	limit time.Duration // --header-timeout
	idle  time.Duration // --idle-timeout
	conns sync.Map      // net.Conn to the time at which it was expected to send a request
}

type connKey struct{}

// connContext puts the connection where handler finds it.
func (h *headWatch) connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func (h *headWatch) connState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		h.conns.Store(c, time.Now())
	case http.StateClosed:
		since, waiting := h.conns.LoadAndDelete(c)
		if !waiting {
			return
		}
		level, reason := slog.LevelDebug, "closed by the client"
		waited := time.Since(since.(time.Time))
		if waited >= h.limit {
			level, reason = slog.LevelInfo, "no complete request head within --header-timeout"
		}
		if waited >= h.idle && h.idle > h.limit {
			reason = "no request within --idle-timeout, which is what bounds heads over HTTP/2"
		}
		h.log.Log(context.Background(), level, "connection ended without a request",
			"client", c.RemoteAddr().String(), "reason", reason)
	case http.StateHijacked:
		h.conns.Delete(c)
	}
}

// handler notes that a request has come.
func (h *headWatch) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			h.conns.Delete(c)
		}
		next.ServeHTTP(w, r)
	})
}
