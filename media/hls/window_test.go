package hls_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
)

// TestCut has a line for each rule about the ends of parts and segments.
func TestCut(t *testing.T) {
	for _, test := range []struct{ rule, in, want string }{
		{"a part ends when one more fragment would be too long", "init K40 P40x3", ""},
		{"and not a fragment later", "init K40 P40x4", "i0 10: 200i"},
		{"a part that would be below 85 % waits for a fragment that fits",
			"init K40 P40x4 P60x2 P45 P35", "i0 10: 200i 200"},
		{"and ends if none comes", "init K40 P40x4 P60x2 P45 P60", "i0 10: 200i 165"},
		{"a part with a keyframe may be short", "init K120", "i0 10: 120i"},
		{"a part has a keyframe wherever it is", "init K40 P40x5 K40 P40x4", "i0 10: 200ix2"},
		{"durations are rounded together", "init K33.333333 P33.333333x11", "i0 10: 200i 200"},
		{"which can leave a part short if Part has no millisecond to spare",
			"init K33.4 P33.4x11", "i0 10: 200i 167"},
		{"a segment ends at the first keyframe after a second", "init K40 P40x24 K40",
			"i0 10: 200i 200x4 = 1000"},
		{"at once if the keyframe is announced", "init K40 P40x23 P40!",
			"i0 10: 200i 200x4 = 1000"},
		{"its last part may be short", "init K40 P40x25 K40", "i0 10: 200i 200x4 40 = 1040"},
		{"that of a segment like the one before is about as long as the others",
			"init K20 P20x52 K20 P20x52 K20",
			"i0 10: 200i 200x4 60 = 1060 | 11: 180i 180x4 160 = 1060"},
		{"not at an earlier keyframe", "init K200 P200x3 K200 P200", "i0 10: 200i 200x3 200i 200"},
		{"a longer group of pictures is cut in time",
			"init K200 P200x12", "i0 10: 200i 200x11 = 2400 | 11: 200"},
		{"in the last moment if a fragment is longer than the one before",
			"init K200 P200x10 P40x6 P120", "i0 10: 200i 200x11 40 = 2440"},
		{"and the segment after that ends at the next keyframe",
			"init K200 P200x12 K200", "i0 10: 200i 200x11 = 2400 | 11: 200 = 200 | 12: 200i"},
		{"a fragment longer than a part is a segment",
			"init K40 P40x4 P300 P40x5", "i0 10: 200i = 200 | 11: = 300 | 12: 200"},
		{"several are one", "init K300 P300x6 P200", "i0 10: = 2100 | 11: 200"},
		{"which ends as others do", "init K300 P300x4 K300 P300x7 P200",
			"i0 10: = 1500 | 11: = 2400 | 12: 200"},
		{"a fragment longer than a segment is listed as 2.499 s", "init K9000 K200",
			"i0 10: = 2499 | 11: 200i"},
		{"no time at all is no harm", "init K0x3 P-5 P200", "i0 10: 200i"},
		{"fragments before the init segment are ignored", "K200 P200 init P200", "i0 10: 200"},
		{"an init segment that replaces one without fragments is no discontinuity",
			"init init K200", "i1 10: 200i"},
		{"another one is, and ends the segment",
			"init K40 P40 init K200", "i0 10: 80i = 80 | D i1 11: 200i"},
		{"it may come again and again", "init K40 init init break K200",
			"i0 10: 40i = 40 | D i2 11: 200i"},
		{"a break has no new init segment", "init K40 P40 break P200",
			"i0 10: 80i = 80 | D 11: 200"},
		{"a break may come before all", "break init break K200", "D i0 10: 200i"},
		{"a flush ends the segment", "init K40 P40 flush P200", "i0 10: 80i = 80 | 11: 200"},
		{"and does nothing twice", "init flush K40 flush flush K200", "i0 10: 40i = 40 | 11: 200i"},
		{"the end ends the segment", "init K40 P40 end", "i0 10: 80i = 80 | end"},
		{"and there is nothing behind it", "init K40 end K200 init break flush end K200",
			"i0 10: 40i = 40 | end"},
		{"a large segment is cut", "init K40=300000 P40=300000 P40", "i0 10: 80i = 80"},
		{"three segments are listed, if they last for six seconds",
			"init K200 P200x9 K200 P200x9 K200 P200x9 K200 P200x9 K200",
			"i0 11: 200i 200x9 = 2000 | 12: 200i 200x9 = 2000 | " +
				"13: 200i 200x9 = 2000 | 14: 200i"},
	} {
		got := newRig(t, config).play(test.in).playlist().String()
		if got != test.want {
			t.Errorf("%s: %s\n got %s\nwant %s", test.rule, test.in, got, test.want)
		}
	}
}

// TestCutBeforeTwoSeconds tests GOPs that are slightly shorter than Segment.
func TestCutBeforeTwoSeconds(t *testing.T) {
	c := config
	c.Segment = 2 * time.Second
	for in, want := range map[string]string{
		"init K200 P200x4 K200 P200x4 K200":     "i0 10: 200i 200x4 200i 200x4 = 2000 | 11: 200i",
		"init K200 P200x8 P190 K200":            "i0 10: 200i 200x8 190 = 1990 | 11: 200i",
		"init K200 P200x8 P190!":                "i0 10: 200i 200x8 190 = 1990",
		"init K200 P200x5 K200 P200x5 K200":     "i0 10: 200i 200x5 200i 200x5 = 2400 | 11: 200i",
		"init K200 P200x6 K200 P200":            "i0 10: 200i 200x6 = 1400 | 11: 200i 200",
		"init K200 P200x2 K200 P200x8 K200":     "i0 10: 200i 200x2 200i 200x8 = 2400 | 11: 200i",
		"init K200 P200x4 K200 P200x2 K200":     "i0 10: 200i 200x4 200i 200x2 200i",
		"init K200 P200x4 K200 P200x4! K200":    "i0 10: 200i 200x4 200i 200x4 = 2000 | 11: 200i",
		"init K200 P200x4! K200 P200x4 P200x10": "i0 10: 200i 200x4 200i 200x6 = 2400 | 11: 200x8",
	} {
		if got := newRig(t, c).play(in).playlist().String(); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// TestNews checks which calls report news, so that waiting requests are checked again.
func TestNews(t *testing.T) {
	for in, want := range map[string]string{
		"init K40 P40x5":           "n....n.",
		"init K200 P200":           "nnn",
		"init K40 P40 flush flush": "n..n.",
		"init K40 init break":      "n.n.",
		"init K40 break init":      "n.n.",
		"init K40 end end":         "n.n.",
		"end init K40 flush":       "n...",
		"K200 init K200":           ".nn",
		"init K0 P0 K40!":          "n...",
		"init K190 P5 P10":         "nn..",
	} {
		if got := newRig(t, config).play(in).news; got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestNext(t *testing.T) {
	for in, want := range map[string]string{
		"init K40":                      "10.0 3",
		"init K40 P40x4":                "10.1 3",
		"init K40 P40x4 init":           "11.0 4",
		"init K40 P40x4 init K40":       "11.0 4",
		"init K40 P40x4 break K40 init": "12.0 5",
		"init K40 flush K200":           "11.1 3",
		"init K300":                     "10.0 3",
		"init K300 P40":                 "11.0 3",
	} {
		r := newRig(t, config).play(in)
		msn, part := r.w.Next()
		if got := fmt.Sprint(msn, ".", part, " ", r.w.Discontinuity()); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
		if p := r.playlist(); p.hint != fmt.Sprintf("0-%d.%d.m4s", msn, part) {
			t.Errorf("%s: hint %s, want the next part", in, p.hint)
		}
	}
}

// A playlist never ends with a discontinuity. Players consider a discontinuity without a following
// part or segment a mistake.
func TestDiscontinuityWaitsForItsPart(t *testing.T) {
	for in, want := range map[string]int{
		"init K40 P40x4 init":              0,
		"init K40 P40x4 break":             0,
		"init K40 P40x4 init K40":          0,
		"init K40 P40x4 init K40 P40x4":    1,
		"init K40 P40x4 init K40 init K40": 1,
		"init K40 P40x4 init end":          0,
	} {
		text := string(newRig(t, config).play(in).w.AppendPlaylist(nil, false))
		if n := strings.Count(text, "#EXT-X-DISCONTINUITY\n"); n != want {
			t.Errorf("%s: %d discontinuities, want %d\n%s", in, n, want, text)
		}
	}
}

// TestObjects fetches objects that the playlist lists, and others.
func TestObjects(t *testing.T) {
	r := newRig(t, config).play("init K100 P100 P100 P100 init K100")
	for name, want := range map[string]string{
		"0-i0.mp4":   "init",
		"0-i1.mp4":   "init",
		"0-i2.mp4":   "",
		"0-10.m4s":   "(0)(1)(2)(3)",
		"0-10.0.m4s": "(0)(1)",
		"0-10.1.m4s": "(2)(3)",
		"0-10.2.m4s": "",
		"0-11.m4s":   "", // not complete
		"0-11.0.m4s": "",
		"0-12.m4s":   "",
		"0-9.m4s":    "",
		"1-10.m4s":   "", // of another publication
		"1-i0.mp4":   "",
	} {
		if got, ok := r.get(name); string(got) != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, want)
		}
	}
	var c millrace.Chain
	if r.w.Append(&c, hls.Object{MSN: 10}) ||
		r.w.Append(&c, hls.Object{Kind: hls.KindPart, MSN: 10, Part: -1}) {
		t.Error("objects that cannot be")
	}
}

// Parts and segments share the memory in which the fragments arrived.
func TestObjectsAreShares(t *testing.T) {
	r := newRig(t, config).play("init")
	at := map[*byte]bool{} // addresses of a fragment's bytes
	for i := range 10 {
		c := chain(make([]byte, 3000))
		for p := range c.All() {
			for k := range p {
				at[&p[k]] = true
			}
		}
		r.w.Add(hls.Fragment{Duration: 40 * time.Millisecond, Key: i == 0}, &c)
	}
	r.w.Flush()
	for name, want := range map[string]int{"0-10.0.m4s": 15_000, "0-10.1.m4s": 15_000,
		"0-10.m4s": 30_000} {
		o, _ := hls.ParseObject(name)
		var c millrace.Chain
		if r.w.Append(&c, o); c.Len() != want {
			t.Errorf("%s has %d bytes", name, c.Len())
		}
		for p := range c.All() {
			for k := range p {
				if !at[&p[k]] {
					t.Fatalf("%s has bytes of its own", name)
				}
			}
		}
		c.Release()
	}
}

func TestDelta(t *testing.T) {
	c := config
	c.Segments = 20
	r := newRig(t, c).play("init K200 P200x4 K200 P200x4 init")
	for range 7 {
		r.play("K200 P200x9 flush")
	}
	full := string(r.w.AppendPlaylist(nil, false))
	delta := string(r.w.AppendPlaylist(nil, true))
	// Two segments of 1 s and seven of 2 s: the third begins 14 s before the end of the playlist,
	// and ends 12 s before it.
	_, rest, _ := strings.Cut(full, "0-11.m4s\n")
	head, _, _ := strings.Cut(full, "#EXT-X-MAP")
	if want := head + "#EXT-X-SKIP:SKIPPED-SEGMENTS=2\n" + rest; delta != want {
		t.Errorf("got\n%s\nwant\n%s", delta, want)
	}
	r.play("end")
	if r.playlist().String() != parse(t, string(r.w.AppendPlaylist(nil, true))).String() {
		t.Error("a delta after the end")
	}
}

// TestShortPlaylistHasNoDelta tests a playlist without segments to skip.
func TestShortPlaylistHasNoDelta(t *testing.T) {
	w := newRig(t, config).play("init K200 P200x40").w
	if full, delta := w.AppendPlaylist(nil, false),
		w.AppendPlaylist(nil, true); string(full) != string(delta) {
		t.Errorf("got\n%s\nwant\n%s", delta, full)
	}
}

func TestDate(t *testing.T) {
	r := newRig(t, config).play("init")
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	r.add(hls.Fragment{Duration: 200 * time.Millisecond, Time: at}, 0)
	r.add(hls.Fragment{Duration: 200 * time.Millisecond, Time: at.Add(time.Hour)}, 0)
	if got := r.playlist().segments[0].date; got != "2026-01-02T02:04:05.678Z" {
		t.Error(got)
	}
}

// TestKept tests segments that have left the playlist. Segments last 2 s, and three are listed.
func TestKept(t *testing.T) {
	r := newRig(t, config).play("init")
	for range 8 {
		r.play("K200 P200x9!")
	}
	// A segment stays for its own 2 s and the 6 s of the playlist. Its parts stay for 12 s and one
	// fragment.
	if p := r.playlist(); p.msn != 15 {
		t.Errorf("the playlist begins with %d", p.msn)
	}
	for _, name := range []string{"0-10.m4s", "0-10.9.m4s"} {
		if _, ok := r.get(name); !ok {
			t.Errorf("%s is gone after 14 s", name)
		}
	}
	r.play("K200 P200x9!")
	for _, name := range []string{"0-10.m4s", "0-10.9.m4s"} {
		if _, ok := r.get(name); ok {
			t.Errorf("%s is there after 16 s", name)
		}
	}
}

// longRig returns a rig whose playlist may have 20 segments, after the given number of segments.
func longRig(t *testing.T, segments int) *rig {
	t.Helper()
	c := config
	c.Segments = 20
	r := newRig(t, c).play("init")
	for range segments {
		r.play("K200 P200x9!")
	}
	return r
}

// TestKeptLong tests a playlist that is longer than six times Target.
func TestKeptLong(t *testing.T) {
	r := longRig(t, 21)
	if p := r.playlist(); p.msn != 11 {
		t.Errorf("the playlist begins with %d", p.msn)
	}
	if _, ok := r.get("0-10.m4s"); !ok {
		t.Error("a segment is gone 40 s after it was listed")
	}
	if r.play("K200 P200x9!"); r.playlist().msn != 12 {
		t.Errorf("the playlist begins with %d", r.playlist().msn)
	}
	if _, ok := r.get("0-10.m4s"); ok {
		t.Error("a segment is there 42 s after it was listed")
	}
}

// TestShorten shortens a playlist to the length that the rules require. Segments that leave it stay
// available for a while.
func TestShorten(t *testing.T) {
	r := longRig(t, 12)
	if p := r.playlist(); p.msn != 10 {
		t.Errorf("the playlist begins with %d", p.msn)
	}
	if !r.w.Shorten(1 << 40) {
		t.Error("no news")
	}
	if p := r.playlist(); p.msn != 19 {
		t.Errorf("the shorter playlist begins with %d", p.msn)
	}
	if _, ok := r.get("0-17.m4s"); !ok {
		t.Error("a segment that has just left the playlist is gone")
	}
	if r.w.Shorten(1 << 40) {
		t.Error("news without a change")
	}
	if r.w.Shorten(64 << 10); r.w.Bytes() > 64<<10 {
		t.Errorf("%d bytes after Shorten, want 64 KiB at most", r.w.Bytes())
	}
}

// TestMaxBytes tests memory limits below the memory that the rules require.
func TestMaxBytes(t *testing.T) {
	c := config
	c.MaxBytes = 100_000
	r := newRig(t, c).play("init K200=10000 P200=10000x3")
	if got := r.playlist().String(); got != "i0 10: 200i 200x3" {
		t.Error(got)
	}
	r.play("P200=10000")
	if got := r.playlist().String(); got != "i0 10: 200i 200x4 = 1000" {
		t.Error(got)
	}
	r.play("P200=10000x6")
	if got := r.playlist().String(); got != "i0 11: 200x5 = 1000 | 12: 200" {
		t.Error(got)
	}
	r.play("P200=99000")
	if got := r.playlist().String(); got != "" {
		t.Error(got)
	}
	if p := r.playlist(); p.msn != 13 || p.dsn != 3 || p.hint != "0-13.0.m4s" {
		t.Errorf("%+v, want the first segment 13", p)
	}
	r.play("P200 break P200=100000")
	if p := r.playlist(); p.msn != 15 || p.dsn != 4 {
		t.Errorf("%+v, want the first segment 15", p)
	}
	before := r.w.Bytes()
	if r.play("K200x4"); r.w.Bytes() < before+4*32 { // parts cost memory, too
		t.Errorf("%d bytes, and %d with four parts", before, r.w.Bytes())
	}
	before = r.w.Bytes()
	// Even the smallest fragments count, because each may hold a block.
	if r.play("P0x3"); r.w.Bytes() < before+3*4096 {
		t.Errorf("%d bytes, and %d with three fragments", before, r.w.Bytes())
	}
	for range 1000 { // even the smallest segments count
		r.play("P0 flush")
	}
	if n := len(r.playlist().segments); n > 200 {
		t.Errorf("%d segments, want 200 at most", n)
	}
}

func TestBandwidth(t *testing.T) {
	r := newRig(t, config).play("init")
	check := func(peak, average int64) {
		t.Helper()
		if p, a := r.w.Bandwidth(); p != peak || a != average {
			t.Errorf("%d and %d, want %d and %d", p, a, peak, average)
		}
	}
	check(0, 0)
	r.play("K200=1000 P200=1000")
	check(0, 0)
	r.play("flush")
	check(40_000, 40_000)
	r.play("K200=3000x10 flush K200=2000x5 flush")
	check(120_000, 42_000*80/34)
	r.play("K200=9000 flush") // too short to be the peak, except together with the previous segment
	check(19_000*80/12, 51_000*80/36)

	// Segments that are together longer than 1.5 target durations do not count for the peak.
	long := config
	long.Segments = 10
	r = newRig(t, long).play("init K200=2000 P200=2000x3 flush")
	r.play("K200=100 P200=100x9 flush K200=2000 P200=2000x2 flush")
	r.play("K200=100 P200=100x9 flush K200=100 P200=100x9 flush K200=100 P200=100x9 flush")
	check(9000*80/28, 18_000*80/94)
}

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		field  string
		change func(*hls.Config)
	}{
		{"", func(c *hls.Config) {}},
		{"FirstMSN", func(c *hls.Config) { c.FirstMSN = 1<<52 + 1 }},
		{"FirstDiscontinuity", func(c *hls.Config) { c.FirstDiscontinuity = 1 << 60 }},
		{"Target", func(c *hls.Config) { c.Target = 0 }},
		{"Target", func(c *hls.Config) { c.Target = 61 * time.Second }},
		{"Target", func(c *hls.Config) { c.Target = 1500 * time.Millisecond }},
		{"Part", func(c *hls.Config) { c.Part = 0 }},
		{"Part", func(c *hls.Config) { c.Part = 2001 * time.Millisecond }},
		{"Part", func(c *hls.Config) { c.Part = 200_500 * time.Microsecond }},
		{"", func(c *hls.Config) { c.Part = c.Target }},
		{"Segment", func(c *hls.Config) { c.Segment = 0 }},
		{"Segment", func(c *hls.Config) { c.Segment = c.Target + 1 }},
		{"", func(c *hls.Config) { c.Segment = c.Target }},
		{"Segments", func(c *hls.Config) { c.Segments = 0 }},
		{"Segments", func(c *hls.Config) { c.Segments = 10_001 }},
		{"MaxBytes", func(c *hls.Config) { c.MaxBytes = 64<<10 - 1 }},
		{"", func(c *hls.Config) { c.MaxBytes = 64 << 10 }},
	} {
		c := config
		test.change(&c)
		_, err := hls.NewWindow(c)
		var e *hls.ConfigError
		if errors.As(err, &e) != (test.field != "") || e != nil && e.Field != test.field {
			t.Errorf("%+v: %v, want %s", c, err, test.field)
		}
	}
	c := config
	c.Part = 3 * time.Second
	_, err := hls.NewWindow(c)
	if want := "hls: Part is 3s: want whole milliseconds, from 10ms to Target"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestRelease(t *testing.T) {
	r := newRig(t, config).play("init K200 P200x20 init K40")
	r.w.Release()
	r.play("init K200 flush break end")
	if p := r.playlist(); p.String() != "end" {
		t.Error(p)
	}
	if _, ok := r.get("0-10.m4s"); ok {
		t.Error("a segment after Release")
	}
	if s := r.w.Status(hls.Reload{MSN: 1 << 50}); s != hls.Ready {
		t.Error(s)
	}
	r.w.Release()
}

// TestPast continues the playlist of another Window.
func TestPast(t *testing.T) {
	first := newRig(t, config).play("init K200 P200x9 K200 P200x9 break K200 P200x4 flush")
	c := config
	c.Epoch, c.Past = 1, first.w.Listed()
	c.FirstMSN, _ = first.w.Next()
	r := newRig(t, c)
	if got, want := r.playlist().String(), "i0 10: = 2000 | 11: = 2000 | D 12: = 1000"; got != want {
		t.Fatalf("before the first fragment: %s, want %s", got, want)
	}
	r.play("init K200 P200x9 K200")
	want := "i0 10: = 2000 | 11: = 2000 | D 12: = 1000 | D i0 13: 200i 200x9 = 2000 | 14: 200i"
	p := r.playlist()
	if got := p.String(); got != want || p.dsn != 3 || p.segments[3].dsn != 5 {
		t.Fatalf("%s from %d, want %s", got, p.dsn, want)
	}
	for name, want := range map[string]bool{"0-12.m4s": false, "1-12.m4s": false, "0-i0.mp4": false,
		"1-13.m4s": true, "1-i0.mp4": true} {
		if _, ok := r.get(name); ok != want {
			t.Errorf("%s: there: %v, want %v", name, ok, want)
		}
	}
	if peak, average := r.w.Bandwidth(); peak == 0 || peak > 1000 || average == 0 {
		t.Errorf("%d and %d bit/s, as if segments were empty that are elsewhere", peak, average)
	}
	r.play("P200x9 K200 P200x9 K200")
	if got, want := r.playlist().String(), "D i0 13: 200i 200x9 = 2000 | 14: 200i 200x9 = 2000 | 15: 200i 200x9 = 2000 | 16: 200i"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}

	c.Past = append(c.Past, hls.Listed{MSN: 13, Duration: time.Second, Number: 4, Gap: true})
	c.FirstMSN++
	r = newRig(t, c).play("init K200")
	if got, want := r.playlist().String(), "i0 10: = 2000 | 11: = 2000 | D 12: = 1000 | gap 13: = 1000 | D i0 14: 200i"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	for _, bad := range []func(p []hls.Listed){
		func(p []hls.Listed) { p[0].MSN++ },
		func(p []hls.Listed) { p[3].MSN = 1 << 60 },
		func(p []hls.Listed) { p[1].Number++ },
		func(p []hls.Listed) { p[2].Discontinuity = false },
		func(p []hls.Listed) { p[3].Duration = 2500 * time.Millisecond },
		func(p []hls.Listed) { p[3].Duration = -1 },
		func(p []hls.Listed) {
			p[0].Discontinuity, p[0].Number, p[1].Number, p[2].Number, p[3].Number = true, 0, 0, 1,
				1
		},
	} {
		wrong := c
		wrong.Past = slices.Clone(c.Past)
		bad(wrong.Past)
		if _, err := hls.NewWindow(wrong); err == nil {
			t.Errorf("a Window of %+v", wrong.Past)
		}
	}
}

// TestPastBytes continues with more segments than MaxBytes allows.
func TestPastBytes(t *testing.T) {
	c := config
	c.MaxBytes, c.Segments, c.FirstMSN = 64<<10, 10_000, 10_000
	for i := range uint64(10_000) {
		c.Past = append(c.Past, hls.Listed{MSN: i})
	}
	r := newRig(t, c)
	if n := r.w.Bytes(); n > c.MaxBytes/2 || n == 0 {
		t.Errorf("%d bytes, want half of MaxBytes at most, and some", n)
	}
	r.play("init K200")
	if p := r.playlist(); p.msn < 9900 || p.segments[len(p.segments)-1].msn != 10_000 {
		t.Errorf("the segments begin with %d, want 9900 or later", p.msn)
	}
}
