package live_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A timedTag is sent after a pause.
type timedTag struct {
	pause time.Duration
	tag   []byte
}

// A timeline makes the tags of publishers with odd clocks.
type timeline struct {
	tags []timedTag
	ts   uint32  // time of the next video frame
	rate float64 // of the publisher's clock

	heard float64 // ms from ts to the next audio frame
	sent  float64 // ms from ts to the newest tag
}

// soundStep is the duration of an AAC frame, in ms, with the tests' sequence header.
const soundStep = 1024 / 44.1

// add adds a tag that is sent ms after l.ts.
func (l *timeline) add(ms float64, kind flv.Type, ts uint32, data ...byte) {
	pause := time.Duration(max(0, ms-l.sent) / l.rate * 1e6)
	l.tags = append(l.tags, timedTag{pause, flvTag(kind, ts, data)})
	l.sent = max(ms, l.sent)
}

// pictures adds n video frames of ms each, with a keyframe every group frames. If sound is set, it
// also adds the audio of the same time.
func (l *timeline) pictures(n int, ms uint32, group int, sound bool) *timeline {
	for i := range n {
		first := byte(0x27)
		if i%group == 0 {
			first = 0x17
		}
		l.add(0, flv.TypeVideo, l.ts, append([]byte{first, 1, 0, 0, 0},
			unit(make([]byte, 300))...)...)
		if sound {
			l.soundsTo(float64(ms))
		}
		l.pass(ms)
	}
	return l
}

// soundsTo adds audio up to ms after l.ts.
func (l *timeline) soundsTo(ms float64) {
	for ; l.heard < ms; l.heard += soundStep {
		l.add(l.heard, flv.TypeAudio, l.ts+uint32(l.heard),
			append([]byte{0xaf, 1}, make([]byte, 50)...)...)
	}
}

// pass advances the time by ms.
func (l *timeline) pass(ms uint32) {
	l.ts += ms
	l.sent -= float64(ms)
	l.heard = max(0, l.heard-float64(ms))
}

// sounds adds n audio frames.
func (l *timeline) sounds(n int) *timeline {
	ms := uint32(float64(n) * soundStep)
	l.soundsTo(float64(ms))
	l.pass(ms)
	return l
}

func (l *timeline) jump(ms int) *timeline { l.ts += uint32(ms); return l }

func (l *timeline) config(tags ...[]byte) *timeline {
	for _, tag := range tags {
		l.tags = append(l.tags, timedTag{0, tag})
	}
	return l
}

// The playlists of publishers with odd clocks follow the rules. A player that waits for each part
// gets everything that is listed.
func TestHLSTimelines(t *testing.T) {
	const hour = 3600 * 1000
	sound, picture := flvTag(8, 0, []byte("\xaf\x00\x12\x10")), avcHeader()
	for _, tt := range []struct {
		name string
		line func(l *timeline)
		may  []string // rules that cannot be kept
		mute bool     // without a video sequence header at first
	}{
		{name: "steady", line: func(l *timeline) { l.pictures(1000, 40, 50, true) }},
		{name: "forwards by an hour", line: func(l *timeline) {
			l.pictures(300, 40, 50, true).jump(hour).pictures(500, 40, 50, true)
		}},
		{name: "back by an hour", line: func(l *timeline) {
			l.jump(2*hour).pictures(300, 40, 50, true).jump(-hour).pictures(500, 40, 50, true)
		}},
		{name: "forwards by 20 s", line: func(l *timeline) {
			l.pictures(300, 40, 50, true).jump(20_000).pictures(500, 40, 50, true)
		}},
		{name: "forwards by 20 hours", line: func(l *timeline) {
			l.pictures(300, 40, 50, true).jump(20*hour).pictures(500, 40, 50, true)
		}},
		{name: "wraps", line: func(l *timeline) { l.jump(-8000).pictures(800, 40, 50, true) }},
		{name: "half speed", line: func(l *timeline) {
			l.rate = 0.5
			l.pictures(800, 40, 50, true)
		}},
		{name: "double speed", line: func(l *timeline) {
			l.rate = 2
			l.pictures(1500, 40, 50, true)
		}},
		{name: "20 times as fast", line: func(l *timeline) {
			l.rate = 20
			l.pictures(3000, 40, 50, true)
		}},
		{name: "30 a second, then 5", line: func(l *timeline) {
			l.pictures(400, 33, 60, true).pictures(120, 200, 10, true)
		},
			// These frames are longer than a part, and are in segments without parts.
			may: []string{"hint-broken"}},
		{name: "5 a second, then 30", line: func(l *timeline) {
			l.pictures(100, 200, 10, true).pictures(600, 33, 60, true)
		}},
		{name: "one a second", line: func(l *timeline) { l.pictures(60, 1000, 4, false) }},
		{name: "one every five seconds", line: func(l *timeline) {
			l.pictures(30, 5000, 2, false)
		}},
		{name: "keyframes only", line: func(l *timeline) { l.pictures(800, 40, 1, true) }},
		{name: "no keyframe for 40 s", line: func(l *timeline) {
			l.pictures(250, 40, 50, true).pictures(1000, 40, 1000, true)
		}},
		{name: "shorter than a part", line: func(l *timeline) { l.pictures(3, 40, 50, true) }},
		{name: "sound, and pictures later", mute: true,
			line: func(l *timeline) { l.sounds(600).config(picture).pictures(700, 40, 50, true) }},
		{name: "pictures that go and come", line: func(l *timeline) {
			l.pictures(300, 40, 50, true).sounds(900).pictures(500, 40, 50, true)
		},
			may: []string{"part-short"}}, // a fragment of only audio is longer than half of a part
		{name: "damaged pictures", line: func(l *timeline) {
			l.pictures(300, 40, 50, true)
			for _, data := range []string{"\x17", "\x27\x01", "\x17\x01\x00\x00\x00", "\x17\x00",
				"\x17\x00\x00\x00\x00\x01\x02"} {
				l.config(flvTag(flv.TypeVideo, l.ts, []byte(data))).pictures(100, 40, 50, true)
			}
		}},
		{name: "times that stand still", line: func(l *timeline) {
			l.pictures(200, 40, 50, true).pictures(300, 0, 50, true).pictures(500, 40, 50, true)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, func(c *live.Config) {
					c.HLS, c.PublisherReturn = hlsDefaults, 0
				})
				l := &timeline{rate: 1}
				if !tt.mute {
					l.config(picture)
				}
				l.config(sound)
				tt.line(l)
				p := h.open()
				p.Begin(flv.Header{HasAudio: true, HasVideo: !tt.mute})
				followed, broken := make(chan []hlscheck.Problem), 0
				go func() {
					problems, n := h.follow(t.Context())
					broken = n
					followed <- problems
				}()
				for _, tag := range l.tags {
					if tag.pause > 0 {
						time.Sleep(tag.pause)
					}
					h.send(p, tag.tag)
				}
				h.done(p, nil)
				for _, problem := range hlscheck.Without(<-followed, tt.may...) {
					t.Error(problem)
				}
				if tt.name == "steady" && broken > 0 {
					t.Errorf("%d parts were promised and did not come", broken)
				}
				h.Close()
			})
		})
	}
}

// follow waits for each part of cam until the stream ends. It returns the mistakes in the
// playlists, and the number of announced parts that never came.
func (h *hubTest) follow(ctx context.Context) (problems []hlscheck.Problem, broken int) {
	promised := ""
	checker := hlscheck.New()
	want, blocks := hls.Reload{}, false
	fetched := map[string]bool{}
	segment := map[string][]byte{} // the concatenated parts of a segment
	for n := 0; ; n++ {
		text, err := h.playlist(want, blocks)
		var refused *refuse.Refusal
		if err != nil {
			if errors.As(err, &refused) {
				h.t.Errorf("%+v: %d %v", want, refused.Status, err)
			}
			return problems, broken
		}
		for _, p := range hlscheck.Must(checker.Media(text)) {
			if p.Line = 0; !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
		}
		m := checker.Playlist()
		get := func(uri string) []byte {
			o, ok := hls.ParseObject(uri)
			var c millrace.Chain
			defer c.Release()
			if err := live.NewHLS(h.Hub).Object(ctx, "cam", o, &c); err != nil || !ok {
				h.t.Errorf("%s: %v", uri, err)
			}
			return bytes.Clone(c.Bytes())
		}
		for _, s := range append(m.Segments, m.Open) {
			whole := len(s.Parts) > 0
			for _, part := range s.Parts {
				if !fetched[part.URI] {
					fetched[part.URI] = true
					name := part.URI[:strings.Index(part.URI, ".")]
					segment[name] = append(segment[name], get(part.URI)...)
				}
			}
			if s.URI != "" && !fetched[s.URI] {
				fetched[s.URI] = true
				if all, parts := get(s.URI), segment[strings.TrimSuffix(s.URI, ".m4s")]; whole &&
					!bytes.Equal(all, parts) {
					h.t.Errorf("%s has %d bytes, its parts %d", s.URI, len(all), len(parts))
				}
			}
		}
		if m.Ended {
			return problems, broken
		}
		if promised != "" && !fetched[promised] {
			broken++
		}
		promised = m.Hint
		want.MSN, want.Part = m.Next()
		want.Skip, blocks = n%3 == 1, true
	}
}
