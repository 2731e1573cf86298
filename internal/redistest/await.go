package redistest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// patience is how long anything may take on a machine that is busy with other tests; only a failure waits for it.
const patience = 30 * time.Second

// final ends a poll at once.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll calls f until it returns nil or a final error, or ctx ends. It returns what f returned last.
func poll(ctx context.Context, f func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := f()
		var end final
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// await polls f; the test fails when it does not come to nil.
func await(t testing.TB, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := poll(ctx, func() error { return f(ctx) }); err != nil {
		t.Fatalf("redistest: waited %v for %s: %v", patience, what, err)
	}
}
