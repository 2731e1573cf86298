package hlslive

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
)

// The durations of segments and parts are chosen from the durations of frames and the keyframe
// interval.
func TestDurations(t *testing.T) {
	video, sound := mp4.Movie{Video: true}, mp4.Movie{Audio: true}
	both := mp4.Movie{Video: true, Audio: true}
	for _, tt := range []struct {
		name         string
		movie        mp4.Movie
		group        int64 // ms
		lasts        []int // ms, of the fragments in turn; negative without video
		target, part time.Duration
	}{
		{"25 frames a second", video, 2000, []int{40}, 2 * time.Second, 282 * time.Millisecond},
		{"30, in whole milliseconds", video, 2000, []int{33, 33, 34}, 2 * time.Second,
			282 * time.Millisecond},
		{"24", video, 2000, []int{42, 41, 42}, 2 * time.Second, 282 * time.Millisecond},
		{"60", video, 1000, []int{17, 16, 17}, 2 * time.Second, 282 * time.Millisecond},
		{"15", video, 1000, []int{67, 66, 67}, 2 * time.Second, 282 * time.Millisecond},
		{"7", video, 1000, []int{143}, 2 * time.Second, 288 * time.Millisecond},
		{"5", video, 1000, []int{200}, 2 * time.Second, 402 * time.Millisecond},
		{"5, and audio", both, 1000, []int{200}, 2 * time.Second, 282 * time.Millisecond},
		{"one in 2 s, and audio", both, 2000, []int{-23, -23, 2000}, 2 * time.Second,
			282 * time.Millisecond},
		{"groups a little longer", video, 2002, []int{33, 34}, 2 * time.Second,
			282 * time.Millisecond},
		{"groups a little shorter", video, 1997, []int{40}, 2 * time.Second,
			282 * time.Millisecond},
		{"two groups a little shorter", both, 998, []int{40}, 2 * time.Second,
			282 * time.Millisecond},
		{"groups that do not fit", video, 1500, []int{40}, 3 * time.Second, 282 * time.Millisecond},
		{"12.5 a second, every 60 a keyframe", video, 4800, []int{80}, 5 * time.Second,
			322 * time.Millisecond},
		{"long groups", video, 10_000, []int{40}, 10 * time.Second, 282 * time.Millisecond},
		{"groups of a minute", video, 60_000, []int{40}, 16 * time.Second, 282 * time.Millisecond},
		{"groups that are not known", video, 0, []int{40}, 10 * time.Second,
			282 * time.Millisecond},
		{"a frame a second", video, 2000, []int{1000}, 2 * time.Second, 1002 * time.Millisecond},
		{"irregular frames", video, 2000, []int{33, 67}, 2 * time.Second, 447 * time.Millisecond},
		{"irregular frames, and audio", both, 2000, []int{33, 67}, 2 * time.Second,
			282 * time.Millisecond},
		{"segments of 2.05 s", video, 1025, []int{40}, 2 * time.Second, 282 * time.Millisecond},
		{"audio first", both, 2000, []int{-107, -106, -107, 40, 40, 40}, 2 * time.Second,
			282 * time.Millisecond},
		{"audio", sound, 0, []int{116, 117}, 2 * time.Second, 236 * time.Millisecond},
		{"fragments that do not last", video, 2000, []int{0}, 2 * time.Second,
			282 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := defaults
			if tt.group == 1025 {
				cfg.Segment = 2050 * time.Millisecond
			}
			p := probe{cfg: &cfg, source: &testSource{interval: time.Duration(
				tt.group) * time.Millisecond}}
			at := time.Duration(0)
			for i := range 60 {
				f := Fragment{Movie: &tt.movie, FragmentInfo: mp4.FragmentInfo{Start: at}}
				if tt.movie.Video {
					f.Pictures = 1
				}
				if tt.movie.Audio {
					f.Sounds = 1
				}
				d := time.Duration(tt.lasts[i%len(tt.lasts)]) * time.Millisecond
				if d < 0 {
					d, f.Pictures = -d, 0
				}
				at += d
				f.End = at
				p.add(f, new(millrace.Chain))
			}
			if tt.group == 0 && tt.movie.Video && p.isEnough() != (p.length() >= 4*time.Second) {
				t.Errorf("enough after %v", p.length())
			}
			c := p.config()
			if c.Target != tt.target || c.Part != tt.part {
				t.Errorf("target %v and part %v, want %v and %v", c.Target, c.Part, tt.target,
					tt.part)
			}
			if _, err := hls.NewWindow(c); err != nil {
				t.Error(err)
			}
		})
	}
}

// The first playlist of slides is made when their interval is known, even with few slides.
func TestEnoughFragments(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lasts time.Duration // of each fragment
		want  int           // number of fragments that suffice
	}{
		{"25 frames a second", 40 * time.Millisecond, 15},
		{"a frame a second", time.Second, 4},
		{"slides of 2 s", 2 * time.Second, 2},
		{"slides of 10 s", 10 * time.Second, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := probe{cfg: &defaults, source: &testSource{interval: tt.lasts}}
			n := 0
			for at := time.Duration(0); n < 100 && !p.isEnough(); n++ {
				f := Fragment{Movie: &mp4.Movie{Video: true},
					FragmentInfo: mp4.FragmentInfo{Start: at, End: at + tt.lasts, Pictures: 1,
						Key: true}}
				p.add(f, new(millrace.Chain))
				at += tt.lasts
			}
			if n != tt.want {
				t.Errorf("enough after %d fragments, want %d", n, tt.want)
			}
		})
	}
}

// The second segment begins where the first playlist is made, and ends at a keyframe that is more
// than some frames later, whenever the keyframe interval becomes known.
func TestFirstSegmentEndsBeforeKeyframes(t *testing.T) {
	const lasts = 40 * time.Millisecond
	for _, group := range []int{20, 25, 50, 100} {
		for known := range group + 1 {
			source := &testSource{}
			p := probe{cfg: &defaults, source: source}
			n := 0
			for ; n < 200 && !p.isEnough(); n++ {
				if n == known {
					source.interval = time.Duration(group) * lasts
				}
				at := time.Duration(n) * lasts
				info := mp4.FragmentInfo{Start: at, End: at + lasts, Pictures: 1, Key: n%group == 0}
				p.add(Fragment{Movie: &mp4.Movie{Video: true}, FragmentInfo: info},
					new(millrace.Chain))
			}
			rest := lasts*time.Duration((n+group-1)/group*group) - p.firstEnd().Truncate(lasts)
			if rest > 0 && rest < 160*time.Millisecond {
				t.Errorf("keyframes %d frames apart, known at %d: a segment of %v", group, known,
					rest)
			}
		}
	}
}

func TestPlayerEstimate(t *testing.T) {
	const period = 2 * time.Second
	var e playerEstimate
	at := int64(1)
	for second := range 20 {
		// Three players request each part of 200 ms, and one player requests a playlist every two
		// seconds.
		for range 5 {
			for range 3 {
				e.add(at, period, 200*time.Millisecond)
			}
			at += int64(200 * time.Millisecond)
		}
		if second%2 == 1 {
			e.add(at-1, period, period)
		}
		if n := e.size(at-1, period); second >= 4 && n != 4 {
			t.Errorf("after %d s: %d players, want 4", second, n)
		}
	}
	if n := e.size(at+int64(2*period), period); n != 0 {
		t.Errorf("%d players when all have gone", n)
	}
}
