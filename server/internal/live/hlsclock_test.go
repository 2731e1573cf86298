package live_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live"
)

// A timedFrame is a video or audio frame of a publisher, with its timestamp and its time of
// arrival.
type timedFrame struct {
	kind   flv.Type
	key    bool
	ts, at float64 // ms
}

// A source makes a publisher's frames: video with the given steps, and audio.
type source struct {
	steps func(i int) float64 // ms between video frame i and the next
	group int                 // distance between keyframes, in frames
	audio float64             // ms between audio frames; 0 means no audio
	odd   func(f *timedFrame, i int)
	// The allowed difference between two video frames, if audio determines the parts.
	slack time.Duration
}

// frames returns frames for a duration, in order of arrival. The argument i of odd counts the
// frames of a track.
func (s source) frames(ms float64) (all []timedFrame) {
	add := func(f timedFrame, i int) {
		if s.odd != nil {
			s.odd(&f, i)
		}
		all = append(all, f)
	}
	for i, at := 0, 0.0; at < ms; i++ {
		add(timedFrame{flv.TypeVideo, i%s.group == 0, at, at}, i)
		at += s.steps(i)
	}
	for i := 0; s.audio > 0 && float64(i)*s.audio < ms; i++ {
		add(timedFrame{flv.TypeAudio, false, float64(i) * s.audio, float64(i) * s.audio}, i)
	}
	slices.SortStableFunc(all, func(a, b timedFrame) int {
		return int(a.at*1000) - int(b.at*1000)
	})
	return all
}

// every returns equal steps.
func every(ms float64) func(int) float64 { return func(int) float64 { return ms } }

// The playlists of a publisher with a real encoder's clock follow all rules, and their times are
// those of the media.
func TestHLSKeepsTime(t *testing.T) {
	const aac = 1024 / 44.1
	rng := rand.New(rand.NewPCG(1, 2))
	late := func(ms float64) func(*timedFrame, int) {
		// Audio is sent in blocks, at the end of each block.
		return func(f *timedFrame, _ int) {
			if f.kind == flv.TypeAudio {
				f.at = float64(int(f.at/ms)+1) * ms
			}
		}
	}
	early := func(ms float64) func(*timedFrame, int) {
		return func(f *timedFrame, _ int) {
			if f.kind == flv.TypeAudio {
				f.at = max(0, float64(int(f.at/ms))*ms-1)
			}
		}
	}
	stray := func(kind flv.Type, n int, by float64) func(*timedFrame, int) {
		return func(f *timedFrame, i int) {
			if f.kind == kind && i%n == n-1 {
				f.ts += by
			}
		}
	}
	const video, audio = flv.TypeVideo, flv.TypeAudio
	// Of every 75 frames, n consecutive ones are odd, in both tracks if kind is 0.
	row := func(kind flv.Type, n int, by float64) func(*timedFrame, int) {
		return func(f *timedFrame, i int) {
			if (kind == 0 || f.kind == kind) && i%75 >= 75-n {
				f.ts += by
			}
		}
	}
	leap := func(kind flv.Type, by float64) func(*timedFrame, int) {
		return func(f *timedFrame, _ int) {
			if (kind == 0 || f.kind == kind) && f.ts >= 20_500 {
				f.ts += by
			}
		}
	}
	then := func(ms, a, b float64) func(int) float64 { // a before ms, b after it
		at := 0.0
		return func(i int) float64 {
			step := b
			if at < ms {
				step = a
			}
			at += step
			return step
		}
	}
	between := func(a, b float64) func(int) float64 {
		return func(int) float64 { return a + rng.Float64()*(b-a) }
	}
	for _, tt := range []struct {
		name string
		source
	}{
		{"steady", source{every(40), 50, aac, nil, 0}},
		{"the audio of a quarter second late", source{every(40), 50, aac, late(250), 0}},
		{"of half a second", source{every(40), 50, aac, late(500), 0}},
		{"of a second", source{every(40), 50, aac, late(1000), 0}},
		{"of two seconds", source{every(1000. / 30), 60, aac, late(2000), 0}},
		{"of a second early", source{every(40), 50, aac, early(1000), 0}},
		{"a video frame in 2 s", source{every(2000), 1, aac, nil, 0}},
		{"in 5 s", source{every(5000), 1, aac, nil, 0}},
		{"in 10 s", source{every(10_000), 1, aac, nil, 0}},
		{"in 2 s, and the audio of a second late", source{every(2000), 1, aac, late(1000), 0}},
		{"in 1 s, every fourth a keyframe", source{every(1000), 4, aac, nil, 0}},
		{"7 a second", source{every(1000. / 7), 14, aac, nil, 0}},
		{"30, then 24", source{then(8000, 1000./30, 1000./24), 60, aac, nil, 0}},
		{"30, then 7", source{then(8000, 1000./30, 1000./7), 60, aac, nil, 0}},
		{"30, then 15", source{then(8000, 1000./30, 1000./15), 60, aac, nil, 0}},
		{"60, then 20", source{then(8000, 1000./60, 1000./20), 60, aac, nil, 0}},
		{"25, then 29.97", source{then(8000, 1000./25, 1001./30), 60, aac, nil, 0}},
		{"25, then 30, without audio", source{then(8000, 40, 1000./30), 50, 0, nil, 0}},
		{"60, then 23.976, without audio", source{then(8000, 1000./60, 1001./24), 60, 0, nil, 0}},
		{"23.976, then 50, without audio", source{then(8000, 1001./24, 20), 60, 0, nil, 0}},
		{"a phone's frames", source{between(20, 80), 40, aac, nil, 0}},
		{"wild ones", source{between(10, 400), 10, aac, nil, 400 * time.Millisecond}},
		{"a shift of a millisecond", source{every(40), 50, aac, func(f *timedFrame, i int) {
			if f.ts >= 9000 {
				f.ts++
			}
		}, 0}},
		{"frames that jitter", source{every(1000. / 30), 60, aac,
			func(f *timedFrame, i int) { f.ts += rng.Float64() * 4 }, 0}},
		{"audio that jitters", source{every(40), 50, aac, func(f *timedFrame, i int) {
			if f.kind == flv.TypeAudio {
				f.ts += rng.Float64() * 30
			}
		}, 0}},
		{"audio in fours", source{every(40), 50, aac, func(f *timedFrame, i int) {
			if f.kind == flv.TypeAudio {
				f.ts -= float64(i%4) * aac
				f.at += float64(3-i%4) * aac
			}
		}, 0}},
		{"a keyframe in 4.8 s", source{every(80), 60, aac, nil, 0}},
		{"a keyframe in 10 s", source{every(40), 250, aac, nil, 0}},
		{"stray video half a second ahead", source{every(40), 50, aac,
			stray(flv.TypeVideo, 60, 500), 0}},
		{"3 s", source{every(40), 50, aac, stray(flv.TypeVideo, 60, 3000), 0}},
		{"60 s", source{every(40), 50, aac, stray(flv.TypeVideo, 60, 60_000), 0}},
		{"20 s back", source{every(40), 50, aac, stray(flv.TypeVideo, 60, -20_000), 0}},
		{"stray audio 20 s ahead", source{every(40), 50, aac, stray(flv.TypeAudio, 60, 20_000), 0}},
		{"a second back", source{every(40), 50, aac, stray(flv.TypeAudio, 60, -1000), 0}},
		{"three video frames in a row 5 s ahead",
			source{every(40), 50, aac, row(video, 3, 5000), 0}},
		{"ten video frames in a row 5 s ahead",
			source{every(40), 50, aac, row(video, 10, 5000), 0}},
		{"ten video frames in a row 20 s back",
			source{every(40), 50, aac, row(video, 10, -20_000), 0}},
		{"ten audio frames in a row 5 s ahead",
			source{every(40), 50, aac, row(audio, 10, 5000), 0}},
		{"ten frames of both in a row 5 s ahead", source{every(40), 50, aac, row(0, 10, 5000), 0}},
		{"ten frames in a row 5 s ahead, without audio",
			source{every(40), 50, 0, row(0, 10, 5000), 0}},
		{"odd keyframes", source{every(40), 50, aac, stray(flv.TypeVideo, 50, 5000), 0}},
		{"both leap ahead", source{every(40), 50, aac, leap(0, 7000), 0}},
		{"both leap back", source{every(40), 50, aac, leap(0, -7000), 0}},
		{"video leaps ahead", source{every(40), 50, aac, leap(video, 7000), 0}},
		{"video leaps back", source{every(40), 50, aac, leap(video, -7000), 0}},
		{"audio leaps ahead", source{every(40), 50, aac, leap(audio, 7000), 0}},
		{"both leap ahead, without audio", source{every(40), 50, 0, leap(0, 7000), 0}},
		{"both step back", source{every(40), 50, aac, leap(0, -480), 0}},
		{"video that comes late now and then",
			source{every(40), 50, aac, func(f *timedFrame, i int) {
				if f.kind == flv.TypeVideo && int(f.ts)%3000 > 2700 {
					f.at += 3000 - float64(int(f.ts)%3000)
				}
			}, 200 * time.Millisecond}},
		{"all that comes late now and then", source{every(40), 50, aac, func(f *timedFrame, i int) {
			if int(f.ts)%3000 > 2700 {
				f.at += 3000 - float64(int(f.ts)%3000)
			}
		}, 200 * time.Millisecond}},
		{"stray slides", source{every(2000), 1, aac, stray(flv.TypeVideo, 5, 20_000),
			2 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, func(c *live.Config) {
					c.HLS, c.PublisherReturn = hlsDefaults, 0
				})
				p := h.open()
				p.Begin(flv.Header{HasAudio: tt.audio > 0, HasVideo: true})
				h.send(p, avcHeader())
				if tt.audio > 0 {
					h.send(p, flvTag(flv.TypeAudio, 0, []byte("\xaf\x00\x12\x10")))
				}
				result := make(chan []hlscheck.Problem)
				go func() {
					problems, _ := h.follow(t.Context())
					result <- problems
				}()
				start := time.Now()
				const base = 100_000 // ms; the publisher's clock at the start
				for _, f := range tt.frames(40_000) {
					time.Sleep(time.Until(start.Add(time.Duration(f.at * 1e6))))
					head := []byte{0xaf, 1}
					if f.kind == flv.TypeVideo {
						head = []byte{0x27, 1, 0, 0, 0}
						if f.key {
							head[0] = 0x17
						}
					}
					h.send(p, flvTag(f.kind, uint32(base+f.ts),
						append(head, unit(make([]byte, 100))...)))
				}
				synctest.Wait()
				h.keepsTime(t, 50*time.Millisecond+tt.slack)
				h.done(p, nil)
				for _, problem := range hlscheck.Without(<-result, mayBreak[tt.name]...) {
					t.Error(problem)
				}
				h.Close()
			})
		})
	}
}

// mayBreak are rules that cannot always be kept. A second of audio arrives together with a slide: a
// player may send a request between the two, when the keyframe is not known yet.
//
// If video is late and its audio is not, a part begins with video and ends with only audio, whose
// frames do not fit exactly.
var mayBreak = map[string][]string{
	"in 2 s, and the audio of a second late": {"hint-broken"},
	"ten frames of both in a row 5 s ahead":  {"part-short"},
}

// keepsTime compares the live playlist of cam with its media. They may differ by slack.
func (h *hubTest) keepsTime(t *testing.T, slack time.Duration) {
	text, err := h.playlist(hls.Reload{}, false)
	if err != nil {
		t.Fatal(err)
	}
	c := hlscheck.New()
	c.Media(text)
	m := c.Playlist()
	get := func(o hls.Object) []byte {
		var c millrace.Chain
		defer c.Release()
		if err := live.NewHLS(h.Hub).Object(t.Context(), "cam", o, &c); err != nil {
			t.Fatal(o, err)
		}
		return slices.Clone(c.Bytes())
	}
	epoch := hint(t, text).Epoch
	movie, err := mp4.ReadMovie(get(hls.Object{Kind: hls.KindInit, Epoch: epoch}))
	if err != nil {
		t.Fatal(err)
	}
	// Start times of segments with video, in the media and in the playlist.
	var media, listed []time.Duration
	longest := time.Duration(0)
	var all []byte
	at := time.Duration(0)
	for _, s := range m.Segments {
		if s.Break {
			t.Errorf("a discontinuity in front of segment %d", s.MSN)
		}
		b := get(hls.Object{Kind: hls.KindSegment, Epoch: epoch, MSN: s.MSN})
		all = append(all, b...)
		for len(b) > 0 {
			f, _, err := movie.ReadFragment(b)
			if err != nil {
				t.Fatal(err)
			}
			if f.Pictures > 0 && f.Key {
				media, listed = append(media, f.Start), append(listed, at)
				break
			}
			b = b[f.Size:]
		}
		at += s.Duration
		longest = max(longest, s.Duration)
	}
	ends := map[int]int64{} // by track
	for _, s := range stretches(t, all) {
		if end, ok := ends[s.track]; ok && s.at != end {
			t.Errorf("track %d ends at %d, and continues at %d", s.track, end, s.at)
		}
		ends[s.track] = s.end
	}
	if longest <= m.Target-time.Second {
		t.Errorf("the target duration is %v, and the longest segment %v", m.Target, longest)
	}
	if len(media) < 2 {
		t.Fatalf("%d segments with a keyframe in\n%s", len(media), text)
	}
	for i := range media {
		if off := (media[i] - media[0]) - (listed[i] - listed[0]); off.Abs() > slack {
			t.Errorf("segment %d begins at %v of the media, and %v of the playlist", i,
				media[i]-media[0], listed[i]-listed[0])
		}
	}
	last := m.Segments[len(m.Segments)-1]
	if behind := time.Since(last.Date); behind < 0 ||
		behind > last.Duration+m.Target+2*time.Second {
		t.Errorf("the last segment, of %v, began %v ago by its date", last.Duration, behind)
	}
}
