package load

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// How long and how often the load test tries to connect. If the server was started at the same
// time, it may not listen yet. If another publisher of the stream has just left, the stream's name
// may not be free yet.
const (
	persistFor   = time.Second
	persistFirst = 50 * time.Millisecond // before the second attempt; doubled before each later one
	persistMost  = 250 * time.Millisecond
)

// persist calls the function open until it succeeds or returns a permanent error. If ctx ends or
// the time persistFor has passed, persist returns the error of the last attempt.
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
