package server

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/millrace-io/millrace/internal/relay"
)

// errShutdown refuses requests while the server shuts down.
var errShutdown = errors.New("the server is shutting down")

// A limiter bounds how many requests are served at a time, counts the others, and says why they are refused.
type limiter struct {
	*relay.Limiter
	refusal error        // of a request above the limit
	refused atomic.Int64 // requests above the limit
}

// newLimiter returns a limiter of max requests. reason is its refusal, with a %d for max.
func newLimiter(max int, reason string) *limiter {
	return &limiter{Limiter: relay.NewLimiter(max), refusal: fmt.Errorf(reason, max)}
}

// acquire lets a request in, until Release.
func (l *limiter) acquire() error {
	switch {
	case l.Acquire():
		return nil
	case l.Closed():
		return errShutdown
	}
	l.refused.Add(1)
	return l.refusal
}
