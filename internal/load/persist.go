package load

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// How long and how often persist tries to connect. It must try repeatedly for two reasons. A server
// that was started together with the load listens only a moment later. And a name that a publisher
// has just left is free only a moment later.
const (
	persistFor   = time.Second
	persistFirst = 50 * time.Millisecond // before the second attempt; doubled for each further one
	persistMost  = 250 * time.Millisecond
)

// persist calls open until open succeeds or fails with a permanent error. If ctx ends before that,
// persist returns the error of the last attempt.
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
