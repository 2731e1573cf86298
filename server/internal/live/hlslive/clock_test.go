package hlslive

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
)

// A mediaClock dates fragments of 100 ms by their arrival. The dates follow a publisher that has
// paused, but not a delay in the network. No date is before the previous one.
func TestMediaClock(t *testing.T) {
	const step = 100 * time.Millisecond
	for _, test := range []struct {
		name string
		came func(i int) time.Duration // arrival of fragment i, from the start
		want time.Duration             // delay of the last fragment according to its date
		slop time.Duration
	}{
		{"steady", func(i int) time.Duration { return time.Duration(i+1) * step }, 0, 0},
		{"the publisher waits for a minute", func(i int) time.Duration {
			if i >= 100 {
				return time.Minute + time.Duration(i+1)*step
			}
			return time.Duration(i+1) * step
		}, 0, 0},
		{"the network waits for five seconds", func(i int) time.Duration {
			if at := time.Duration(i+1) * step; i < 100 || i >= 150 {
				return at
			}
			return 150 * step
		}, 0, 0},
		{"all comes at once", func(int) time.Duration { return 0 }, -40 * time.Second, 0},
		{"half a second late from some time on", func(i int) time.Duration {
			if i >= 100 {
				return time.Duration(i+6) * step
			}
			return time.Duration(i+1) * step
		}, 500 * time.Millisecond, 100 * time.Millisecond},
		{"a clock that is slow by a thousandth", func(i int) time.Duration {
			return time.Duration(i+1) * step * 1001 / 1000
		}, 0, 5 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			var c mediaClock
			c.begin(start)
			var before time.Time
			var late time.Duration
			for i := range 400 {
				f := Fragment{FragmentInfo: mp4.FragmentInfo{Start: time.Duration(i) * step,
					End: time.Duration(i+1) * step}}
				came := start.Add(test.came(i))
				lasts, at := c.add(f, false, time.Second, came)
				if lasts != step || at.Sub(before) < step-clockStep {
					t.Fatalf("fragment %d lasts %v and is dated %v after the one before", i, lasts,
						at.Sub(before))
				}
				before, late = at, came.Sub(at.Add(step))
			}
			if (late - test.want).Abs() > test.slop {
				t.Errorf("the last fragment is %v late, want %v", late, test.want)
			}
		})
	}
}

// A jump of the publisher's clock is not mistaken for a long fragment, and does not move the dates.
func TestMediaClockJump(t *testing.T) {
	start := time.Now()
	var c mediaClock
	c.begin(start)
	c.add(Fragment{}, true, time.Second, start)
	f := Fragment{FragmentInfo: mp4.FragmentInfo{Start: time.Hour, End: time.Hour + time.Second}}
	if lasts, at := c.add(f, false, 2*time.Second, start); lasts != 2*time.Second ||
		!at.Equal(start) {
		t.Errorf("it lasts %v, %v after the start", lasts, at.Sub(start))
	}
	f.Start, f.End = time.Second, 2*time.Second
	if lasts, at := c.add(f, false, 2*time.Second, start); lasts != time.Second ||
		at.Sub(start) > 2*time.Second {
		t.Errorf("after a jump back it lasts %v, %v after the start", lasts, at.Sub(start))
	}
}
