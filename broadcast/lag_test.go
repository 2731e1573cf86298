package broadcast_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := broadcast.New(broadcast.MaxFrames(3))
		c := r.Cursor()
		want := func(want broadcast.Lag) {
			t.Helper()
			if got := c.Lag(); got != want {
				t.Errorf("Lag = %+v, want %+v", got, want)
			}
		}
		publish(t, r, "a", false)
		want(broadcast.Lag{}) // it waits for a key frame
		publish(t, r, "kk", true)
		time.Sleep(time.Second)
		publish(t, r, "b", false)
		time.Sleep(time.Second)
		want(broadcast.Lag{Bytes: 3, Frames: 2, Time: 2 * time.Second})
		take(t, c)
		want(broadcast.Lag{})
		for range 4 {
			publish(t, r, "cc", false)
			time.Sleep(time.Second)
		}
		want(broadcast.Lag{Bytes: 8, Frames: 4, Time: 4 * time.Second}) // the first, which is evicted, counts
		c.Close()
		want(broadcast.Lag{})
		r.Close()
	})
}

// The Lag of a reader that takes nothing grows without bound, however the ring
// moves its cursor meanwhile, until a Take tells it what it has lost.
func TestLagOfADeadReader(t *testing.T) {
	const frames = 200
	for name, test := range map[string]struct {
		opts  []broadcast.CursorOption
		every int // so many frames from one key frame to the next
		holes int // every so many frames one is refused; 0: none
		why   broadcast.Reason
	}{
		"every frame is a key frame":    {[]broadcast.CursorOption{broadcast.MaxLagFrames(4)}, 1, 0, broadcast.LagFrames},
		"every tenth is":                {[]broadcast.CursorOption{broadcast.MaxLagFrames(4)}, 10, 0, broadcast.LagFrames},
		"over its allowance in bytes":   {[]broadcast.CursorOption{broadcast.MaxLagBytes(9)}, 10, 0, broadcast.LagBytes},
		"over its allowance in time":    {[]broadcast.CursorOption{broadcast.MaxLagTime(4 * time.Second)}, 5, 0, broadcast.LagTime},
		"evicted, key frames come":      {nil, 30, 0, broadcast.Evicted},
		"evicted, one key frame":        {nil, frames, 0, broadcast.Evicted},
		"refused, key frames come":      {[]broadcast.CursorOption{broadcast.MaxLagFrames(1)}, 10, 15, broadcast.LagFrames},
		"refused, one key frame":        {nil, frames, 7, broadcast.Evicted},
		"the ring's own limits are all": {[]broadcast.CursorOption{broadcast.MaxLagFrames(0)}, 10, 0, broadcast.Evicted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := broadcast.New(broadcast.MaxFrames(16), broadcast.MaxBytes(100))
				defer r.Close()
				opts := append([]broadcast.CursorOption{broadcast.BatchBytes(1)}, test.opts...)
				c := r.Cursor(opts...)
				defer c.Close()
				var want broadcast.Lag
				for i := range frames {
					if test.holes > 0 && i%test.holes == test.holes-1 {
						refuse(t, r, 101)
					} else {
						publish(t, r, "abc", i%test.every == 0)
						want.Bytes += 3
					}
					want.Frames++
					time.Sleep(time.Second)
					want.Time += time.Second
					if got := c.Lag(); got != want {
						t.Fatalf("after %d frames: Lag = %+v, want %+v", i+1, got, want)
					}
					check(t, r)
				}
				publish(t, r, "abc", true)
				_, b := take(t, c)
				if b.Missed.Why != test.why || b.Frames != 1 {
					t.Errorf("Take = %+v, want a frame and %v", b, test.why)
				}
				got := c.Lag()
				if got.Frames+b.Missed.Frames+b.Frames != frames+1 || got.Bytes+b.Missed.Bytes+int64(b.Bytes) != want.Bytes+3 {
					t.Errorf("Lag = %+v after %+v, of %d frames and %d bytes", got, b, frames+1, want.Bytes+3)
				}
				if age := time.Duration(max(got.Frames-1, 0)) * time.Second; got.Time != age {
					t.Errorf("Lag.Time = %v after Take told of the loss, want %v", got.Time, age)
				}
			})
		})
	}
}

// refuse publishes a frame of n bytes, which is above MaxBytes.
func refuse(t testing.TB, r *broadcast.Ring, n int) {
	t.Helper()
	var p millrace.Chain
	p.AppendCopy(make([]byte, n))
	var tooLarge *broadcast.FrameTooLargeError
	if err := r.Publish(&p, broadcast.Frame{}); !errors.As(err, &tooLarge) {
		t.Fatal("Publish:", err)
	}
}
