package load

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// How long and how often to connect. A server started at the same time may not listen yet, and the
// stream's name may not be free yet if another publisher has just left.
const (
	persistFor   = time.Second
	persistFirst = 50 * time.Millisecond // before the second attempt; doubled before each later one
	persistMost  = 250 * time.Millisecond
)

// persist calls open until it succeeds or fails with a permanent error, for at most persistFor. If
// ctx ends first, it returns the last error.
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
