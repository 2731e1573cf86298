package broadcast_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// next returns the result of a call of Next, and the time at which it returned.
func next(ctx context.Context, c *broadcast.Cursor) string {
	began := time.Now()
	var dst millrace.Chain
	defer dst.Release()
	b, err := c.Next(ctx, &dst)
	return fmt.Sprintf("%q %v more=%v missed=%v %v", dst.Bytes(), time.Since(began), b.More,
		b.Missed.Frames, err)
}

// Next waits for new frames. Frames within the ring's latency are one batch.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(broadcast.Latency(50 * time.Millisecond))
		c := r.Cursor(broadcast.BatchFrames(3))
		defer c.Close()
		publish(t, r, "k", true)
		want := func(want string) {
			t.Helper()
			if got := next(t.Context(), c); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		want(`"k" 0s more=false missed=0 <nil>`) // the first call does not wait
		go func() {
			time.Sleep(time.Second)
			for _, s := range []string{"a", "b", "c", "d"} {
				publish(t, r, s, false)
				time.Sleep(10 * time.Millisecond)
			}
		}()
		want(`"abc" 1.05s more=true missed=0 <nil>`)
		want(`"d" 0s more=false missed=0 <nil>`)
		go func() {
			publish(t, r, "e", false)
			r.Close()
		}()
		want(`"e" 0s more=true missed=0 <nil>`)
		want(`"" 0s more=false missed=0 EOF`)
		want(`"" 0s more=false missed=0 EOF`)
	})
}

// A waiting Next ends with its context, and with its cursor.
func TestNextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New()
		defer r.Close()
		c := r.Cursor()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want := `"" 1s more=false missed=0 context deadline exceeded`
		if got := next(ctx, c); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		time.AfterFunc(time.Second, c.Close)
		if got, want := next(t.Context(), c),
			`"" 1s more=false missed=0 broadcast: closed`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		closed := r.Cursor()
		closed.Close()
		if got, want := next(t.Context(), closed),
			`"" 0s more=false missed=0 broadcast: closed`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if n := r.Stats().Watchers; n != 0 {
			t.Errorf("%d watchers are left", n)
		}
	})
}

// A loss at the end of the stream is reported before io.EOF.
func TestNextTellsOfALossAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(broadcast.MaxFrames(1))
		c := r.Cursor()
		defer c.Close()
		publish(t, r, "k", true)
		publish(t, r, "a", false) // evicts k
		r.Close()
		if got, want := next(t.Context(), c), `"" 0s more=true missed=2 <nil>`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		var dst millrace.Chain
		if _, err := c.Next(t.Context(), &dst); err != io.EOF {
			t.Error(err)
		}
	})
}
