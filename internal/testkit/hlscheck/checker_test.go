package hlscheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// edit replaces pairs of old and new text, each of which must be there.
func edit(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			panic(fmt.Sprintf("no %q in\n%s", pairs[i], text))
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// live returns a playlist of six segments, 10 to 15, and of parts of the segment 16.
func live(parts int, pairs ...string) string {
	s := stream{parts: 6*perSegment + parts, window: 6}
	return edit(s.render(false), pairs...)
}

// long returns a playlist of nine segments.
func long(s stream, delta bool, pairs ...string) string {
	s.window = 9
	if s.parts == 0 {
		s.parts = 9*perSegment + 2
	}
	return edit(s.render(delta), pairs...)
}

// ended returns a playlist of six segments that is complete.
func ended(pairs ...string) string {
	s := stream{parts: 6 * perSegment, window: 6, ended: true}
	return edit(s.render(false), pairs...)
}

// date returns the line of a segment's date.
func date(msn int) string {
	return "#EXT-X-PROGRAM-DATE-TIME:" + epoch.Add(time.Duration(msn-firstMSN)*targetSecs*time.Second).Format("2006-01-02T15:04:05.000Z\n")
}

// part returns the line of a part.
func part(msn, k int) string {
	s := fmt.Sprintf("#EXT-X-PART:DURATION=0.500,URI=\"e-%d.%d.m4s\"", msn, k)
	if k == 0 {
		s += ",INDEPENDENT=YES"
	}
	return s + "\n"
}

func parts(msn int) string { return part(msn, 0) + part(msn, 1) + part(msn, 2) + part(msn, 3) }

const (
	hint2   = "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.2.m4s\"\n"
	mapLine = "#EXT-X-MAP:URI=\"e-i0.mp4\"\n"
	control = "CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.5,CAN-SKIP-UNTIL=12"
)

// mediaCases are rules and the playlists of which the last breaks just that rule.
var mediaCases = []struct {
	rule      string
	playlists []string
}{
	{"text", []string{live(2, "#EXT-X-PART-INF", " #EXT-X-PART-INF")}},
	{"text", []string{live(2, "#EXT-X-PART-INF", "\xff\n#EXT-X-PART-INF", "\xff", "#\xff")}},
	{"text", []string{live(2, "#EXTINF:2.00000,", "#EXTINF:2.00000,a\x00b")}},
	{"extm3u", []string{live(2, "#EXTM3U\n", "")}},
	{"extm3u", []string{live(2, "#EXTM3U\n", "#EXTM3U8\n", "#EXTM3U8", "#\n#EXTM3U")}},
	{"tag-unknown", []string{live(2, mapLine, mapLine+"#EXT-X-CUE-OUT\n")}},
	{"tag-duplicate", []string{live(2, mapLine, "#EXT-X-TARGETDURATION:2\n"+mapLine)}},
	{"tag-value", []string{live(2, mapLine, "#EXT-X-BITRATE:fast\n"+mapLine)}},
	{"tag-value", []string{live(2, mapLine, "#EXT-X-GAP:YES\n"+mapLine)}},
	{"tag-value", []string{live(2, "#EXTINF:2.00000,", "#EXTINF:2.00000")}},
	{"tag-value", []string{live(2, "#EXTINF:2.00000,", "#EXTINF:2.,", date(11), "", date(12), "", date(13), "", date(14), "", date(15), "", date(16), "")}},
	{"tag-value", []string{live(2, date(11), "#EXT-X-PROGRAM-DATE-TIME:today\n")}},
	{"tag-value", []string{live(2, mapLine, "#EXT-X-PLAYLIST-TYPE:LIVE\n"+mapLine)}},
	{"tag-misplaced", []string{live(2, mapLine, "#EXT-X-STREAM-INF:BANDWIDTH=1\n"+mapLine)}},
	{"attribute-syntax", []string{live(2, control, control+",")}},
	{"attribute-syntax", []string{live(2, control, control+", CAN-SKIP-DATERANGES=YES")}},
	{"attribute-syntax", []string{live(2, hint2, hint2+"#EXT-X-PRELOAD-HINT:TYPE=MAP,URI=\"x\"y\n")}},
	{"attribute-duplicate", []string{live(2, control, control+",CAN-BLOCK-RELOAD=YES")}},
	{"attribute-unknown", []string{live(2, control, control+",CAN-FLY=YES")}},
	{"attribute-type", []string{live(2, control, control+",HOLD-BACK=\"6\"")}},
	{"attribute-type", []string{live(2, control, control+",HOLD-BACK=six")}},
	{"attribute-type", []string{live(2, control, control+",CAN-SKIP-DATERANGES=NO")}},
	{"attribute-type", []string{live(2, ",INDEPENDENT=YES", ",INDEPENDENT=YES,BYTERANGE=7@0")}},
	{"attribute-missing", []string{live(2, hint2, hint2+"#EXT-X-PRELOAD-HINT:URI=\"x\"\n")}},
	{"version-low", []string{live(2, "VERSION:9", "VERSION:5")}},
	{"version-low", []string{live(2, "#EXT-X-VERSION:9\n", "")}},
	{"version-low", []string{long(stream{}, false), long(stream{}, true, "VERSION:9", "VERSION:8")}},
	{"version-high", []string{live(2, "VERSION:9", "VERSION:10")}},
	{"version-high", []string{live(2, "VERSION:9", "VERSION:7", ",CAN-SKIP-UNTIL=12", "")}},
	{"target-missing", []string{ended("#EXT-X-TARGETDURATION:2\n", "", parts(13), "", parts(14), "", parts(15), "")}},
	{"target-missing", []string{ended("#EXT-X-TARGETDURATION:2\n", "#EXT-X-TARGETDURATION:0\n", parts(13), "", parts(14), "", parts(15), "")}},
	{"sequence-late", []string{live(2, "#EXT-X-MEDIA-SEQUENCE:10\n", "", "e-10.m4s\n", "e-10.m4s\n#EXT-X-MEDIA-SEQUENCE:10\n")}},
	{"sequence-late", []string{live(2, "#EXT-X-DISCONTINUITY-SEQUENCE:3\n", "#EXT-X-DISCONTINUITY\n#EXT-X-DISCONTINUITY-SEQUENCE:3\n")}},
	{"part-inf-missing", []string{live(2, "#EXT-X-PART-INF:PART-TARGET=0.5\n", "")}},
	{"skip-until-short", []string{live(2, "CAN-SKIP-UNTIL=12", "CAN-SKIP-UNTIL=11.999")}},
	{"skip-dateranges-alone", []string{live(2, "CAN-SKIP-UNTIL=12", "CAN-SKIP-DATERANGES=YES")}},
	{"hold-back-short", []string{live(2, control, control+",HOLD-BACK=5.9")}},
	{"part-hold-back-missing", []string{live(2, "PART-HOLD-BACK=1.5,", "")}},
	{"part-hold-back-short", []string{live(2, "PART-HOLD-BACK=1.5", "PART-HOLD-BACK=0.9")}},
	{"part-hold-back-low", []string{live(2, "PART-HOLD-BACK=1.5", "PART-HOLD-BACK=1.4")}},
	{"block-reload-missing", []string{live(2, "CAN-BLOCK-RELOAD=YES,", "")}},
	{"live-type", []string{live(2, mapLine, "#EXT-X-PLAYLIST-TYPE:EVENT\n"+mapLine),
		live(4, mapLine, "#EXT-X-PLAYLIST-TYPE:EVENT\n"+mapLine)}},
	{"extinf-missing", []string{live(2, "#EXTINF:2.00000,\ne-11.m4s\n", "e-11.m4s\n", date(12), "", date(13), "", date(14), "", date(15), "", date(16), "")}},
	{"extinf-missing", []string{live(2, "e-11.m4s\n", "", date(12), "", date(13), "", date(14), "", date(15), "", date(16), "")}},
	{"extinf-missing", []string{ended("#EXT-X-ENDLIST", "#EXTINF:2.0,\n#EXT-X-ENDLIST")}},
	{"segment-long", []string{ended("#EXTINF:2.00000,\ne-10", "#EXTINF:2.5,\ne-10", date(11), "", date(12), "", date(13), "", date(14), "", date(15), "")}},
	{"map-missing", []string{edit(stream{parts: 2, window: 6}.text(), mapLine, "")}},
	{"date-missing", []string{edit(stream{parts: 6, window: 6}.text(), date(10), "", date(11), "")}},
	{"date-discontinuity", []string{live(2, date(12), "#EXT-X-DISCONTINUITY\n")}},
	{"date-precision", []string{live(2, ":02.000Z", ":02Z")}},
	{"date-precision", []string{live(2, ":02.000Z", ":02.000")}},
	{"date-overlap", []string{live(2, ":04.000Z", ":02.900Z", date(13), "", date(14), "", date(15), "", date(16), "")}},
	{"date-drift", []string{live(2, ":10.000Z", ":10.150Z", ":12.000Z", ":12.150Z")}},
	{"uri-duplicate", []string{live(2, "e-11.m4s", "e-10.m4s")}},
	{"part-long", []string{live(2, part(16, 1), edit(part(16, 1), "0.500", "0.501"))}},
	{"part-short", []string{live(2, part(15, 1), edit(part(15, 1), "0.500", "0.424"), part(15, 2), part(15, 2)+part(15, 3), part(15, 3), edit(part(15, 3), "0.500", "0.076", ".3.", ".9."))}},
	{"part-tag-order", []string{live(2, date(16), "", part(16, 0), part(16, 0)+date(16))}},
	{"part-orphan", []string{live(2, hint2, "#EXT-X-ENDLIST\n")}},
	{"parts-incomplete", []string{live(2, part(15, 3), "")}},
	{"parts-excess", []string{live(2, part(15, 3), part(15, 3)+edit(part(15, 3), ".3.", ".4."))}},
	{"parts-old", []string{long(stream{}, false, date(14), date(14)+parts(14))}}, // 14 ends 8 s before the end
	{"independent-none", []string{edit(stream{parts: 2, window: 6}.text(), ",INDEPENDENT=YES", "")}},
	{"independent-none", []string{live(2, part(16, 0), edit(part(16, 0), ",INDEPENDENT=YES", ""), mapLine, "#EXT-X-INDEPENDENT-SEGMENTS\n"+mapLine)}},
	{"hint-missing", []string{live(2, hint2, "")}},
	{"hint-ended", []string{ended("#EXT-X-ENDLIST", "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.0.m4s\"\n#EXT-X-ENDLIST")}},
	{"hint-duplicate", []string{live(2, hint2, hint2+"#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.3.m4s\"\n")}},
	{"hint-listed", []string{live(2, "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.2", "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.1")}},
	{"skip-support", []string{long(stream{}, false, ",CAN-SKIP-UNTIL=12", ""), long(stream{}, true, ",CAN-SKIP-UNTIL=12", "")}},
	{"skip-support", []string{long(stream{parts: 36}, false), long(stream{parts: 36, ended: true}, true)}},
	{"skip-late", []string{live(2), live(2, "e-10.m4s\n", "e-10.m4s\n#EXT-X-SKIP:SKIPPED-SEGMENTS=0\n")}},
	{"skip-many", []string{long(stream{}, false), long(stream{}, true, "SEGMENTS=3", "SEGMENTS=4", date(13), "", "#EXTINF:2.00000,\ne-13.m4s\n", "")}},
	{"skip-few", []string{long(stream{}, false), long(stream{}, true, "SEGMENTS=3", "SEGMENTS=1",
		date(13), date(11)+"#EXTINF:2.0,\ne-11.m4s\n"+date(12)+"#EXTINF:2.0,\ne-12.m4s\n"+date(13))}},
	{"skip-unknown", []string{long(stream{}, true)}},
	{"skip-unknown", []string{stream{parts: 4, window: 9}.text(), long(stream{}, true)}},
	{"target-changed", []string{live(2, "CAN-SKIP-UNTIL=12", "CAN-SKIP-UNTIL=18"), live(2, "TARGETDURATION:2", "TARGETDURATION:3", "CAN-SKIP-UNTIL=12", "CAN-SKIP-UNTIL=18")}},
	{"part-target-changed", []string{live(2, "PART-TARGET=0.5", "PART-TARGET=0.51"), live(2)}},
	{"head-changed", []string{live(2), live(2, "PART-HOLD-BACK=1.5", "PART-HOLD-BACK=1.6")}},
	{"head-changed", []string{live(2), live(2, "VERSION:9", "VERSION:6")}},
	{"sequence-back", []string{stream{parts: 24, window: 5}.text(), stream{parts: 24, window: 6}.text()}},
	{"discontinuity-back", []string{live(0, "DISCONTINUITY-SEQUENCE:3", "DISCONTINUITY-SEQUENCE:4"), live(0, mapLine, "#EXT-X-DISCONTINUITY\n"+mapLine)}},
	{"discontinuity-sequence", []string{live(0), live(0, "DISCONTINUITY-SEQUENCE:3", "DISCONTINUITY-SEQUENCE:4")}},
	{"discontinuity-untagged", []string{live(3, "#EXT-X-DISCONTINUITY-SEQUENCE:3\n", "", date(12), "#EXT-X-DISCONTINUITY\n"+date(12)),
		live(4, "#EXT-X-DISCONTINUITY-SEQUENCE:3\n", "", date(12), "#EXT-X-DISCONTINUITY\n"+date(12))}},
	{"segment-changed", []string{live(2), live(2, "e-12.m4s", "f-12.m4s")}},
	{"segment-changed", []string{live(2), live(2, "#EXTINF:2.00000,\ne-12", "#EXTINF:2.05,\ne-12")}},
	{"segment-changed", []string{live(2), live(2, ":02.000Z", ":02.050Z")}},
	{"segment-changed", []string{live(2), live(2, mapLine, edit(mapLine, "i0", "i1"))}},
	{"segment-withdrawn", []string{ended("#EXT-X-ENDLIST\n", "#EXTINF:2,\ne-16.m4s\n"+"#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-17.0.m4s\"\n"),
		ended("#EXT-X-ENDLIST\n", "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-17.0.m4s\"\n")}},
	{"window-short", []string{stream{parts: 12, window: 6}.text(), stream{parts: 14, window: 2}.text()}},
	{"part-changed", []string{live(2), live(3, part(16, 1), edit(part(16, 1), "0.500", "0.499"))}},
	{"part-changed", []string{live(2), live(2, part(15, 3), part(15, 3)+edit(part(15, 3), ".3.", ".4.", "0.500", "0.001"))}},
	{"part-changed", []string{live(2, parts(15), ""), live(2)}},
	{"part-withdrawn", []string{live(2), live(2, part(16, 1), "", "e-16.2.m4s", "e-16.1.m4s")}},
	{"part-removed-early", []string{live(0), live(0, parts(13), "", parts(14), "")}},
	{"part-removed-order", []string{live(0), live(4, parts(14), "", date(13), date(13)+parts(13))}},
	{"hint-broken", []string{live(2), live(3, "e-16.2.m4s", "e-16.9.m4s")}},
	{"hint-broken", []string{live(3, "e-16.3.m4s", "e-16.8.m4s"), live(5)}},
	{"hint-broken", []string{live(0, "e-16.0.m4s", "e-15.4.m4s"), live(1)}},
	{"hint-cut", []string{live(0, "e-16.0.m4s", "e-15.4.m4s", parts(15), part(15, 0)+part(15, 1)+part(15, 2)+part(15, 3), "#EXTINF:2.00000,\ne-15.m4s\n", ""), live(1)}},
	{"hint-broken", []string{live(2), live(2, "e-16.2.m4s", "e-17.0.m4s")}},
	{"ended-changed", []string{ended(), live(0)}},
	{"ended-changed", []string{ended(), ended("#EXT-X-ENDLIST", "#EXTINF:2.0,\ne-16.m4s\n#EXT-X-ENDLIST")}},
	{"independent-twice", []string{
		edit(multivariant, "#EXT-X-STREAM-INF", "#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-STREAM-INF"),
		live(2, mapLine, "#EXT-X-INDEPENDENT-SEGMENTS\n"+mapLine)}},
}

func (s stream) text() string { return s.render(false) }

// multivariantCases are rules and edits that break just them.
var multivariantCases = []struct {
	rule, old, new string
}{
	{"variant-none", multivariant[strings.Index(multivariant, "#EXT-X-STREAM"):], ""},
	{"variant-uri", "media.m3u8\n", "media.m3u8\nother.m3u8\n"},
	{"variant-uri", "media.m3u8\n", "media.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"mp4a.40.2\"\n"},
	{"variant-uri", "media.m3u8\n", "media.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"mp4a.40.2\"\n#EXT-X-INDEPENDENT-SEGMENTS\n"},
	{"variant-duplicate", "media.m3u8\n", "media.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"mp4a.40.2\"\nmedia.m3u8\n"},
	{"bandwidth", "BANDWIDTH=2000000", "BANDWIDTH=1499999"},
	{"bandwidth", "BANDWIDTH=2000000,AVERAGE-BANDWIDTH=1500000", "BANDWIDTH=0"},
	{"codecs", "CODECS=\"avc1.64001f,mp4a.40.2\",", ""},
	{"codecs-syntax", "avc1.64001f,", "avc1.64001f, "},
	{"codecs-syntax", "mp4a.40.2", "mp4a"},
	{"codecs-syntax", "mp4a.40.2", ""},
	{"resolution", "RESOLUTION=1280x720,", ""},
	{"frame-rate", ",FRAME-RATE=25.000", ""},
	{"frame-rate", "FRAME-RATE=25.000", "FRAME-RATE=29.97003"},
	{"group-missing", "FRAME-RATE", "AUDIO=\"a\",FRAME-RATE"},
	{"attribute-type", "=1500000", "=1.5e6"},
	{"tag-misplaced", "#EXT-X-STREAM-INF", "#EXT-X-TARGETDURATION:2\n#EXT-X-STREAM-INF"},
	{"version-low", "#EXT-X-STREAM-INF", "#EXT-X-DEFINE:NAME=\"a\",VALUE=\"b\"\n#EXT-X-STREAM-INF" /* with VERSION:7, below */},
}

// rulesOf returns the names of the rules, sorted, each once.
func rulesOf(ps []Problem) []string {
	names := map[string]bool{}
	for _, p := range ps {
		names[p.Rule] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func TestMediaRules(t *testing.T) {
	for i, tc := range mediaCases {
		t.Run(fmt.Sprintf("%s-%d", tc.rule, i), func(t *testing.T) {
			c := New()
			var ps []Problem
			for _, text := range tc.playlists {
				if strings.Contains(text, "#EXT-X-STREAM-INF:BANDWIDTH=2") {
					ps = c.Multivariant(text)
				} else {
					ps = c.Media(text, time.Time{})
				}
			}
			if got := rulesOf(ps); !slices.Equal(got, []string{tc.rule}) {
				t.Errorf("rules %v: %v\n%s", got, ps, tc.playlists[len(tc.playlists)-1])
			}
			for _, p := range ps {
				if p.Section == "" || p.Text == "" || !strings.HasPrefix(p.String(), tc.rule) {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

func TestMultivariantRules(t *testing.T) {
	if ps := New().Multivariant(multivariant); len(ps) > 0 {
		t.Fatal(ps)
	}
	for i, tc := range multivariantCases {
		t.Run(fmt.Sprintf("%s-%d", tc.rule, i), func(t *testing.T) {
			text := edit(multivariant, tc.old, tc.new)
			if tc.rule == "version-low" {
				text = edit(text, "VERSION:9", "VERSION:7")
			}
			if ps := New().Multivariant(text); !slices.Equal(rulesOf(ps), []string{tc.rule}) {
				t.Errorf("%v\n%s", ps, text)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parts []int
		at    []float64 // seconds
		want  []string
	}{
		{"in time", []int{0, 1, 2, 3, 4, 5}, []float64{0, 0.5, 1, 1.6, 2.1, 2.5}, nil},
		{"a part late", []int{0, 1, 2}, []float64{0, 0.5, 1.6}, []string{"part-late"}},
		{"no part", []int{1, 1, 1}, []float64{0, 0.5, 1.1}, []string{"part-late"}},
		{"a segment late", []int{0, 1, 2, 3, 3}, []float64{0, 0.9, 1.8, 2.7, 3.1}, []string{"segment-late"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := New()
			var all []Problem
			for i, n := range tc.parts {
				all = append(all, c.Media(live(n), epoch.Add(time.Duration(tc.at[i]*1e9)))...)
			}
			if got := rulesOf(all); !slices.Equal(got, tc.want) {
				t.Errorf("%v", all)
			}
		})
	}
}

// TestGood follows streams that keep the rules, part by part, with full playlists, delta updates, and some that are left out.
func TestGood(t *testing.T) {
	for _, window := range []int{6, 9} {
		for _, delta := range []bool{false, true} {
			for _, step := range []int{1, 2, 3, 4, 7, 50} {
				s := &stream{window: window, breaks: map[int]bool{14: true, 19: true, 20: true}}
				c := New()
				for s.parts = 1; s.parts < 25*perSegment; s.parts += step {
					text := s.render(delta && s.parts > 1 && step < 10)
					if ps := c.Media(text, time.Time{}); len(ps) > 0 {
						t.Fatalf("window %d, delta %v, step %d: %v\n%s", window, delta, step, ps, text)
					}
					full := parseMedia(s.render(false), &report{})
					got := c.Playlist()
					if len(got.Segments) != len(full.Segments) || got.first() != full.Sequence || got.Open.MSN != full.Open.MSN {
						t.Fatalf("delta gives segments from %d, %d of them", got.first(), len(got.Segments))
					}
					for i := range full.Segments {
						g, w := got.Segments[i], full.Segments[i]
						if g.URI != w.URI || g.MSN != w.MSN || g.Discontinuity != w.Discontinuity || g.Map != w.Map || !g.Date.Equal(w.Date) {
							t.Fatalf("delta gives %+v, want %+v", g, w)
						}
					}
				}
				s.parts, s.ended = 25*perSegment, true
				if ps := c.Media(s.render(false), time.Time{}); len(ps) > 0 {
					t.Fatal(ps)
				}
			}
		}
	}
}

func FuzzMedia(f *testing.F) {
	for _, tc := range mediaCases {
		f.Add(tc.playlists[0], tc.playlists[len(tc.playlists)-1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c := New()
		c.Multivariant(a)
		c.Media(a, time.Time{})
		for _, p := range append(c.Media(b, epoch), c.Media(a, epoch.Add(time.Hour))...) {
			if _, ok := Rules[p.Rule]; !ok || p.Section == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
