package live_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live"
)

// After a jump of the publisher's clock, or a pause of the publisher, the dates of a playlist are
// right from the second segment on, wherever in a GOP that was.
func TestHLSDatesAfterAJump(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leaps  float64 // jump of the timestamps, in ms
		pauses float64 // pause of the publisher, in ms
		video  bool    // only the video jumps
	}{
		{"7 s ahead", 7000, 0, false},
		{"7 s back", -7000, 0, false},
		{"2 s ahead", 2000, 0, false},
		{"0.7 s ahead", 700, 0, false},
		{"0.7 s back", -700, 0, false},
		{"an hour ahead", 3600_000, 0, false},
		{"an hour back", -3600_000, 0, false},
		{"7 s ahead in video alone", 7000, 0, true},
		{"7 s back in video alone", -7000, 0, true},
		{"a pause of 7 s", 7000, 7000, false},
		{"a pause of 2 s", 2000, 2000, false},
		{"a pause of 7 s, and a clock that stands still", 0, 7000, false},
		{"a pause of 7 s, and a clock that goes back", -3000, 7000, false},
		{"a pause of 7 s, and a clock that leaps further", 20_000, 7000, false},
	} {
		for _, jump := range []float64{15_000, 15_960, 16_000, 16_040} {
			t.Run(fmt.Sprintf("%s at %g", tt.name, jump), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testHLSDates(t, func(f *timedFrame) {
						if f.at < jump {
							return
						}
						f.at += tt.pauses
						if f.kind == flv.TypeVideo || !tt.video {
							f.ts += tt.leaps
						}
					}, time.Duration((jump+tt.pauses)*1e6))
				})
			})
		}
	}
}

// testHLSDates publishes half a minute of frames, changed by odd, and checks the dates after a
// time.
func testHLSDates(t *testing.T, odd func(f *timedFrame), after time.Duration) {
	h := newHubTest(t, func(c *live.Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
	p := h.open()
	p.Begin(flv.Header{HasAudio: true, HasVideo: true})
	h.send(p, avcHeader())
	h.send(p, flvTag(flv.TypeAudio, 0, []byte("\xaf\x00\x12\x10")))
	result := make(chan []hlscheck.Problem)
	go func() {
		problems, _ := h.follow(t.Context())
		result <- problems
	}()
	start := time.Now()
	s := source{steps: every(40), group: 50, audio: 1024 / 44.1}
	for _, f := range s.frames(30_000) {
		odd(&f)
		time.Sleep(time.Until(start.Add(time.Duration(f.at * 1e6))))
		data := []byte{0xaf, 1, 0}
		if f.kind == flv.TypeVideo {
			data = append([]byte{0x27, 1, 0, 0, 0}, unitOf(fmt.Sprintf("at:%010d", int64(f.at)))...)
			if f.key {
				data[0] = 0x17
			}
		}
		h.send(p, flvTag(f.kind, uint32(10_000_000+f.ts), data))
	}
	synctest.Wait()
	h.checkDates(t, start, after)
	h.done(p, nil)
	// A keyframe that lasts for a pause is longer than a part. Its segment has no parts, although
	// one was hinted.
	for _, problem := range hlscheck.Without(<-result, "hint-broken") {
		t.Error(problem)
	}
	h.Close()
}

// checkDates compares the dates of cam's segments with the times in the data of their frames,
// starting with the second segment after a time.
func (h *hubTest) checkDates(t *testing.T, start time.Time, after time.Duration) {
	text, err := h.playlist(hls.Reload{}, false)
	if err != nil {
		t.Fatal(err)
	}
	c := hlscheck.New()
	c.Media(text)
	epoch, n := hint(t, text).Epoch, 0
	for _, s := range c.Playlist().Segments {
		var c millrace.Chain
		o := hls.Object{Kind: hls.KindSegment, Epoch: epoch, MSN: s.MSN}
		if err := live.NewHLS(h.Hub).Object(t.Context(), "cam", o, &c); err != nil {
			t.Fatal(o, err)
		}
		var made []int64
		for _, at := range bytes.Split(c.Bytes(), []byte("at:"))[1:] {
			ms, _ := strconv.ParseInt(string(at[:10]), 10, 64)
			made = append(made, ms)
		}
		c.Release()
		if len(made) == 0 {
			t.Errorf("segment %d has no frame", s.MSN)
			continue
		}
		first := time.Duration(slices.MinFunc(made, cmp.Compare[int64])) * time.Millisecond
		if first < after {
			continue
		}
		if n++; n == 1 {
			continue
		}
		if off := s.Date.Sub(start.Add(first)); off.Abs() > 200*time.Millisecond {
			t.Errorf("segment %d, made at %v, is dated %v later", s.MSN, first, off)
		}
	}
	if n < 3 {
		t.Errorf("%d segments after the jump in\n%s", n, text)
	}
}
