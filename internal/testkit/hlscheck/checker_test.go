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

// edit replaces pairs of old and new text. Each old text must be there.
func edit(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			panic(fmt.Sprintf("no %q in\n%s", pairs[i], text))
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// live returns a playlist of six segments, 10 to 15, and the first parts of segment 16.
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

// ended returns a complete playlist of six segments.
func ended(pairs ...string) string {
	s := stream{parts: 6 * perSegment, window: 6, ended: true}
	return edit(s.render(false), pairs...)
}

// date returns the line of a segment's date.
func date(msn int) string {
	return "#EXT-X-PROGRAM-DATE-TIME:" + epoch.Add(
		time.Duration(msn-firstMSN)*targetSecs*time.Second).Format("2006-01-02T15:04:05.000Z\n")
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

// mediaCases has a rule and playlists, the last of which breaks only that rule.
var mediaCases = []struct {
	rule      string
	playlists []string
}{
	{"extm3u", []string{live(2, "#EXTM3U\n", "")}},
	{"extm3u", []string{live(2, "#EXTM3U\n", "#EXTM3U8\n", "#EXTM3U8", "#\n#EXTM3U")}},
	{"tag-unknown", []string{live(2, mapLine, mapLine+"#EXT-X-CUE-OUT\n")}},
	{"tag-duplicate", []string{live(2, mapLine, "#EXT-X-TARGETDURATION:2\n"+mapLine)}},
	{"tag-value", []string{live(2, mapLine, "#EXT-X-DISCONTINUITY:YES\n"+mapLine)}},
	{"tag-value", []string{live(2, "#EXTINF:2.00000,", "#EXTINF:2.00000")}},
	{"tag-value", []string{live(2, "#EXTINF:2.00000,", "#EXTINF:2.,", date(11), "", date(12), "",
		date(13), "", date(14), "", date(15), "", date(16), "")}},
	{"tag-value", []string{live(2, date(11), "#EXT-X-PROGRAM-DATE-TIME:today\n")}},
	{"tag-unknown", []string{live(2, mapLine, "#EXT-X-STREAM-INF:BANDWIDTH=1\n"+mapLine)}},
	{"tag-value", []string{live(2, control, control+",")}},
	{"tag-value", []string{live(2, control, control+", CAN-SKIP-DATERANGES=YES")}},
	{"tag-value", []string{live(2, ",INDEPENDENT=YES", ",INDEPENDENT=\"YES\"y")}},
	{"tag-value", []string{live(2, control, control+",CAN-BLOCK-RELOAD=YES")}},
	{"tag-value", []string{live(2, control, control+",CAN-FLY=YES")}},
	{"tag-value", []string{live(2, control, control+",HOLD-BACK=\"6\"")}},
	{"tag-value", []string{live(2, control, control+",CAN-SKIP-DATERANGES=NO")}},
	{"tag-value", []string{live(2, ",INDEPENDENT=YES", ",INDEPENDENT=YES,BYTERANGE=7@0")}},
	{"tag-value", []string{live(2, "TYPE=PART,", "")}},
	{"version-low", []string{live(2, "VERSION:9", "VERSION:5")}},
	{"version-low", []string{live(2, "#EXT-X-VERSION:9\n", "")}},
	{"target-missing", []string{ended("#EXT-X-TARGETDURATION:2\n", "", parts(13), "", parts(14), "",
		parts(15), "")}},
	{"target-missing", []string{ended("#EXT-X-TARGETDURATION:2\n", "#EXT-X-TARGETDURATION:0\n",
		parts(13), "", parts(14), "", parts(15), "")}},
	{"part-inf-missing", []string{live(2, "#EXT-X-PART-INF:PART-TARGET=0.5\n", "")}},
	{"skip-until-short", []string{live(2, "CAN-SKIP-UNTIL=12", "CAN-SKIP-UNTIL=11.999")}},
	{"part-hold-back-short", []string{live(2, "PART-HOLD-BACK=1.5,", "")}},
	{"part-hold-back-short", []string{live(2, "PART-HOLD-BACK=1.5", "PART-HOLD-BACK=0.9")}},
	{"part-hold-back-short", []string{live(2, "PART-HOLD-BACK=1.5", "PART-HOLD-BACK=1.4")}},
	{"block-reload-missing", []string{live(2, "CAN-BLOCK-RELOAD=YES,", "")}},
	{"extinf-missing", []string{live(2, "#EXTINF:2.00000,\ne-11.m4s\n", "e-11.m4s\n", date(12), "",
		date(13), "", date(14), "", date(15), "", date(16), "")}},
	{"extinf-missing", []string{live(2, "e-11.m4s\n", "", date(12), "", date(13), "", date(14), "",
		date(15), "", date(16), "")}},
	{"extinf-missing", []string{ended("#EXT-X-ENDLIST", "#EXTINF:2.0,\n#EXT-X-ENDLIST")}},
	{"segment-long", []string{ended("#EXTINF:2.00000,\ne-10", "#EXTINF:2.5,\ne-10", date(11), "",
		date(12), "", date(13), "", date(14), "", date(15), "")}},
	{"map-missing", []string{edit(stream{parts: 2, window: 6}.text(), mapLine, "")}},
	{"date-missing", []string{edit(stream{parts: 6, window: 6}.text(), date(10), "", date(11),
		"")}},
	{"date-discontinuity", []string{live(2, date(12), "#EXT-X-DISCONTINUITY\n")}},
	{"date-overlap", []string{live(2, ":04.000Z", ":02.900Z", date(13), "", date(14), "", date(15),
		"", date(16), "")}},
	{"date-drift", []string{live(2, ":10.000Z", ":10.150Z", ":12.000Z", ":12.150Z")}},
	{"uri-duplicate", []string{live(2, "e-11.m4s", "e-10.m4s")}},
	{"part-long", []string{live(2, part(16, 1), edit(part(16, 1), "0.500", "0.501"))}},
	{"part-short", []string{live(2, part(15, 1), edit(part(15, 1), "0.500", "0.424"), part(15, 2),
		part(15, 2)+part(15, 3), part(15, 3), edit(part(15, 3), "0.500", "0.076", ".3.", ".9."))}},
	{"part-orphan", []string{live(2, hint2, "#EXT-X-ENDLIST\n")}},
	{"parts-duration", []string{live(2, part(15, 3), "")}},
	{"parts-duration", []string{live(2, part(15, 3), part(15, 3)+edit(part(15, 3), ".3.", ".4."))}},
	// Segment 14 ends 8 s before the end.
	{"parts-old", []string{long(stream{}, false, date(14), date(14)+parts(14))}},
	{"independent-none", []string{edit(stream{parts: 2, window: 6}.text(), ",INDEPENDENT=YES",
		"")}},
	{"hint-missing", []string{live(2, hint2, "")}},
	{"gap-parts", []string{live(2, "#EXTINF:2.00000,\ne-15",
		"#EXT-X-GAP\n#EXTINF:2.00000,\ne-15")}},
	{"server-change", []string{live(2, part(16, 0), edit(part(16, 0), "e-", "f-"), part(16, 1),
		edit(part(16, 1), "e-", "f-"))}},
	{"hint-ended", []string{ended("#EXT-X-ENDLIST",
		"#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.0.m4s\"\n#EXT-X-ENDLIST")}},
	{"uri-duplicate", []string{live(2, "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.2",
		"#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-16.1")}},
	{"skip-many", []string{long(stream{}, false, ",CAN-SKIP-UNTIL=12", ""),
		long(stream{}, true, ",CAN-SKIP-UNTIL=12", "")}},
	{"skip-many", []string{long(stream{parts: 36}, false),
		long(stream{parts: 36, ended: true}, true)}},
	{"skip-many", []string{long(stream{}, false),
		long(stream{}, true, "SEGMENTS=3", "SEGMENTS=4", date(13), "",
			"#EXTINF:2.00000,\ne-13.m4s\n", "")}},
	{"skip-few", []string{long(stream{}, false), long(stream{}, true, "SEGMENTS=3", "SEGMENTS=1",
		date(13), date(11)+"#EXTINF:2.0,\ne-11.m4s\n"+date(12)+
			"#EXTINF:2.0,\ne-12.m4s\n"+date(13))}},
	{"skip-unknown", []string{long(stream{}, true)}},
	{"skip-unknown", []string{stream{parts: 4, window: 9}.text(), long(stream{}, true)}},
	{"head-changed", []string{live(2, "CAN-SKIP-UNTIL=12", "CAN-SKIP-UNTIL=18"),
		live(2, "TARGETDURATION:2", "TARGETDURATION:3", "CAN-SKIP-UNTIL=12", "CAN-SKIP-UNTIL=18")}},
	{"head-changed", []string{live(2, "PART-TARGET=0.5", "PART-TARGET=0.51"), live(2)}},
	{"head-changed", []string{live(2), live(2, "PART-HOLD-BACK=1.5", "PART-HOLD-BACK=1.6")}},
	{"sequence-back", []string{stream{parts: 24, window: 5}.text(),
		stream{parts: 24, window: 6}.text()}},
	{"sequence-back", []string{live(0, "DISCONTINUITY-SEQUENCE:3", "DISCONTINUITY-SEQUENCE:4"),
		live(0, mapLine, "#EXT-X-DISCONTINUITY\n"+mapLine)}},
	{"discontinuity-sequence", []string{live(0),
		live(0, "DISCONTINUITY-SEQUENCE:3", "DISCONTINUITY-SEQUENCE:4")}},
	{"segment-changed", []string{live(2), live(2, "e-12.m4s", "e-12a.m4s")}},
	{"segment-changed", []string{live(2), live(2, "#EXTINF:2.00000,\ne-12",
		"#EXTINF:2.05,\ne-12")}},
	{"segment-changed", []string{live(2), live(2, ":02.000Z", ":02.050Z")}},
	{"segment-changed", []string{live(2), live(2, mapLine, edit(mapLine, "i0", "i1"))}},
	{"segment-withdrawn", []string{ended("#EXT-X-ENDLIST\n", "#EXTINF:2,\ne-16.m4s\n"+
		"#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-17.0.m4s\"\n"),
		ended("#EXT-X-ENDLIST\n", "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"e-17.0.m4s\"\n")}},
	{"window-short", []string{stream{parts: 12, window: 6}.text(),
		stream{parts: 14, window: 2}.text()}},
	{"part-changed", []string{live(2), live(3, part(16, 1), edit(part(16, 1), "0.500", "0.499"))}},
	{"part-changed", []string{live(2), live(2, part(15, 3),
		part(15, 3)+edit(part(15, 3), ".3.", ".4.", "0.500", "0.001"))}},
	{"part-changed", []string{live(2, parts(15), ""), live(2)}},
	{"part-withdrawn", []string{live(2), live(2, part(16, 1), "", "e-16.2.m4s", "e-16.1.m4s")}},
	{"part-removed-early", []string{live(0), live(0, parts(13), "", parts(14), "")}},
	{"hint-broken", []string{live(2), live(3, "e-16.2.m4s", "e-16.9.m4s")}},
	{"hint-broken", []string{live(3, "e-16.3.m4s", "e-16.8.m4s"), live(5)}},
	{"hint-broken", []string{live(0, "e-16.0.m4s", "e-15.4.m4s"), live(1)}},
	{"hint-cut", []string{live(0, "e-16.0.m4s", "e-15.4.m4s", parts(15),
		part(15, 0)+part(15, 1)+part(15, 2)+part(15, 3), "#EXTINF:2.00000,\ne-15.m4s\n", ""),
		live(1)}},
	{"hint-broken", []string{live(2), live(2, "e-16.2.m4s", "e-17.0.m4s")}},
	{"ended-changed", []string{ended(), live(0)}},
	{"ended-changed", []string{ended(), ended("#EXT-X-ENDLIST",
		"#EXTINF:2.0,\ne-16.m4s\n#EXT-X-ENDLIST")}},
}

func (s stream) text() string { return s.render(false) }

// multivariantCases has rules, and edits that break only the one rule.
var multivariantCases = []struct {
	rule, old, new string
}{
	{"variant-none", multivariant[strings.Index(multivariant, "#EXT-X-STREAM"):], ""},
	{"variant-none", "media.m3u8\n", "media.m3u8\nother.m3u8\n"},
	{"variant-none", "media.m3u8\n", "media.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"mp4a.40.2\"\n"},
	{"bandwidth", "BANDWIDTH=2000000", "BANDWIDTH=1499999"},
	{"bandwidth", "BANDWIDTH=2000000,AVERAGE-BANDWIDTH=1500000", "BANDWIDTH=0"},
	{"codecs", "CODECS=\"avc1.64001f,mp4a.40.2\",", ""},
	{"codecs", "avc1.64001f,", "avc1.64001f, "},
	{"codecs", "mp4a.40.2", "mp4a"},
	{"codecs", "mp4a.40.2", ""},
	{"resolution", "RESOLUTION=1280x720,", ""},
	{"frame-rate", ",FRAME-RATE=25.000", ""},
	{"frame-rate", "FRAME-RATE=25.000", "FRAME-RATE=29.97003"},
	{"tag-value", "=1500000", "=1.5e6"},
	{"tag-unknown", "#EXT-X-STREAM-INF", "#EXT-X-TARGETDURATION:2\n#EXT-X-STREAM-INF"},
}

// rulesOf returns the sorted names of the rules without duplicates.
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
				ps = c.Media(text)
			}
			if got := rulesOf(ps); !slices.Equal(got, []string{tc.rule}) {
				t.Errorf("rules %v, want the one that is broken: %v\n%s", got, ps,
					tc.playlists[len(tc.playlists)-1])
			}
			for _, p := range ps {
				if p.Section == "" || p.Text == "" || !strings.HasPrefix(p.String(), tc.rule) {
					t.Errorf("%+v, want the rule, its section and a text", p)
				}
			}
		})
	}
}

func TestMultivariantRules(t *testing.T) {
	var r report
	if v := parseMultivariant(multivariant, &r); len(r.problems) > 0 ||
		v != (variant{"media.m3u8", 2000000}) {
		t.Fatal(v, r.problems)
	}
	for i, tc := range multivariantCases {
		t.Run(fmt.Sprintf("%s-%d", tc.rule, i), func(t *testing.T) {
			var r report
			text := edit(multivariant, tc.old, tc.new)
			if parseMultivariant(text, &r); !slices.Equal(rulesOf(r.problems), []string{tc.rule}) {
				t.Errorf("%v, want the one rule that is broken\n%s", r.problems, text)
			}
		})
	}
}

func FuzzMedia(f *testing.F) {
	for _, tc := range mediaCases {
		f.Add(tc.playlists[0], tc.playlists[len(tc.playlists)-1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c, r := New(), report{}
		parseMultivariant(a, &r)
		c.Media(a)
		for _, p := range slices.Concat(r.problems, c.Media(b), c.Media(a)) {
			if _, ok := Rules[p.Rule]; !ok || p.Section == "" {
				t.Errorf("%+v names no rule of the table", p)
			}
		}
	})
}
