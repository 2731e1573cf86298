// Package retry is how a client waits before it tries again: longer each time, at no common moment with others, and at
// least as long as the server asks.
package retry

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// MaxWait bounds the time between two tries, a server's own wish included: whoever looks on should see that it goes on.
const MaxWait = time.Minute

// Wait is how long to wait after so many failures in a row, at least 1: first twice that each time, from half of it to all,
// because clients that lost the same server should not all come back at once. It is not less than what the server asks
// for.
func Wait(first time.Duration, failures int, asked time.Duration) time.Duration {
	wait := min(first<<min(failures-1, 16), MaxWait)
	return max(wait/2+rand.N(wait/2+1), asked)
}

// After returns the seconds in a Retry-After, at most MaxWait. A date, which few send, is left to the backoff: 0.
func After(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 63)
	if err != nil {
		return 0
	}
	return time.Duration(min(n, uint64(MaxWait/time.Second))) * time.Second
}

// Sleep returns after d, or with the cause of ctx's end.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
