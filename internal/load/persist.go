package load

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// How long, and how often, to try to be let in. A server that was started with the load listens a
// moment later, and a name that a publisher has just left is free a moment later.
const (
	persistFor   = time.Second
	persistFirst = 50 * time.Millisecond // before the second attempt; then twice as long each time
	persistMost  = 250 * time.Millisecond
)

// persist calls open until it succeeds or fails in a way that does not pass. When ctx ends
// meanwhile, the error is that of the last attempt.
func persist[T any](ctx context.Context, open func() (T, error)) (T, error) {
	began := time.Now()
	for pause := persistFirst; ; pause = min(2*pause, persistMost) {
		v, err := open()
		if err == nil || !passing(err) || time.Since(began) >= persistFor ||
			!sleep.For(ctx, pause) {
			return v, err
		}
	}
}

func passing(err error) bool {
	var refused *RefusedError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &refused) &&
		strings.HasPrefix(refused.Status, "409")
}
