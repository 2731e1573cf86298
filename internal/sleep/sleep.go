// Package sleep pauses a goroutine for a duration, or until a context ends.
package sleep

import (
	"context"
	"time"
)

// For blocks for the duration d, and then returns true. If ctx ends first, For returns false at
// once.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
