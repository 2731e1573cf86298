package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !For(t.Context(), time.Second) || time.Since(began) != time.Second {
			t.Errorf("%v instead of a second", time.Since(began))
		}
		if !For(t.Context(), -1) {
			t.Error("a time that is over")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if For(ctx, time.Hour) || time.Since(began) != time.Second {
			t.Errorf("the context ended %v ago", time.Since(began))
		}
		if For(ctx, 0) {
			t.Error("a context that has ended")
		}
	})
}
