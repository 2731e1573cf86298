package hls_test

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
)

// config is the Config of most tests: parts of 200 ms, segments of at least 1 s.
var config = hls.Config{
	FirstMSN: 10, FirstDiscontinuity: 3,
	Target: 2 * time.Second, Part: 200 * time.Millisecond, Segment: time.Second, Segments: 3,
	MaxBytes: 1 << 20,
}

// playlist is a parsed media playlist.
type playlist struct {
	constant           string // the lines that must not change
	target, partTarget int    // in ms
	msn, dsn, skipped  int
	segments           []segment // in a delta, only the listed ones
	hint               string
	ended              bool
}

// segment is a segment of a playlist. The last one may have parts only.
type segment struct {
	msn, dsn      int
	discontinuity bool
	gap           bool
	init          string // the EXT-X-MAP that applies
	date          string
	parts         []part
	duration      int // in ms
	uri           string
}

type part struct {
	uri         string
	duration    int // in ms
	independent bool
}

// parse reads a playlist line by line. It only knows the init segments that this text names.
func parse(t testing.TB, text string) (p playlist) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if lines[0] != "#EXTM3U" || lines[len(lines)-1] != "" {
		t.Fatalf("first or last line of\n%s", text)
	}
	var s segment
	for i, line := range lines[1 : len(lines)-1] {
		tag, value, _ := strings.Cut(line, ":")
		if p.ended || p.hint != "" {
			t.Fatalf("line %d behind the end: %s", i, line)
		}
		switch tag {
		case "#EXT-X-VERSION", "#EXT-X-SERVER-CONTROL":
			p.constant += line + "\n"
		case "#EXT-X-TARGETDURATION":
			p.constant += line + "\n"
			p.target = 1000 * integer(t, value)
		case "#EXT-X-PART-INF":
			p.constant += line + "\n"
			p.partTarget = ms(t, attribute(value, "PART-TARGET"))
		case "#EXT-X-MEDIA-SEQUENCE":
			p.msn = integer(t, value)
		case "#EXT-X-DISCONTINUITY-SEQUENCE":
			p.dsn = integer(t, value)
			s.msn, s.dsn = p.msn, p.dsn
		case "#EXT-X-SKIP":
			p.skipped = integer(t, attribute(value, "SKIPPED-SEGMENTS"))
			s.msn += p.skipped
		case "#EXT-X-DISCONTINUITY":
			s.discontinuity = true
			s.dsn++
		case "#EXT-X-GAP":
			s.gap = true
		case "#EXT-X-MAP":
			s.init = attribute(value, "URI")
		case "#EXT-X-PROGRAM-DATE-TIME":
			s.date = value
		case "#EXT-X-PART":
			s.parts = append(s.parts, part{attribute(value, "URI"),
				ms(t, attribute(value, "DURATION")),
				attribute(value, "INDEPENDENT") == "YES"})
		case "#EXTINF":
			s.duration = ms(t, strings.TrimSuffix(value, ","))
		case "#EXT-X-PRELOAD-HINT":
			p.hint = attribute(value, "URI")
		case "#EXT-X-ENDLIST":
			p.ended = true
		default:
			if tag[0] == '#' {
				t.Fatalf("line %d is an unknown tag: %s", i, line)
			}
			s.uri = line
			p.segments = append(p.segments, s)
			s = segment{msn: s.msn + 1, dsn: s.dsn, init: s.init}
		}
	}
	if len(s.parts) > 0 {
		p.segments = append(p.segments, s)
	}
	if p.ended && p.hint != "" {
		t.Fatalf("hint and end of\n%s", text)
	}
	return p
}

// attribute returns the value of an attribute of a list, without quotes, or "".
func attribute(list, name string) string {
	for list != "" {
		key, rest, _ := strings.Cut(list, "=")
		end := ","
		if strings.HasPrefix(rest, `"`) {
			rest, end = rest[1:], `"`
		}
		var value string
		value, list, _ = strings.Cut(rest, end)
		list = strings.TrimPrefix(list, ",")
		if key == name {
			return value
		}
	}
	return ""
}

func integer(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ms(t testing.TB, s string) int {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || len(s) < 5 {
		t.Fatalf("duration %q: %v, want decimals", s, err)
	}
	return int(math.Round(f * 1000))
}

// String prints the segments. "D i1 10: 200i 200 = 400" is segment 10 of 400 ms with a
// DISCONTINUITY and two parts. The first part is independent. i1 means that the segment has another
// init segment than the one before, namely 1. 200x3 means three parts.
func (p playlist) String() string {
	var out []string
	init := ""
	for _, s := range p.segments {
		var words []string
		if s.discontinuity {
			words = append(words, "D")
		}
		if s.gap {
			words = append(words, "gap")
		}
		if s.init != init {
			init = s.init
			words = append(words, strings.TrimSuffix(init[strings.Index(init, "-")+1:], ".mp4"))
		}
		words = append(words, fmt.Sprint(s.msn, ":"))
		for i := 0; i < len(s.parts); {
			n := i + 1
			same := func(a, b part) bool {
				return a.duration == b.duration && a.independent == b.independent
			}
			for n < len(s.parts) && same(s.parts[n], s.parts[i]) {
				n++
			}
			word := strconv.Itoa(s.parts[i].duration)
			if s.parts[i].independent {
				word += "i"
			}
			if n > i+1 {
				word += fmt.Sprint("x", n-i)
			}
			words, i = append(words, word), n
		}
		if s.uri != "" {
			words = append(words, fmt.Sprint("= ", s.duration))
		}
		out = append(out, strings.Join(words, " "))
	}
	if p.ended {
		out = append(out, "end")
	}
	return strings.Join(out, " | ")
}

// rig feeds a Window.
type rig struct {
	t     testing.TB
	w     *hls.Window
	added int // fragments
	news  string
}

func newRig(t testing.TB, c hls.Config) *rig {
	t.Helper()
	w, err := hls.NewWindow(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Release()
		if n := w.Bytes(); n != 0 {
			t.Errorf("%d bytes after Release", n)
		}
	})
	return &rig{t: t, w: w}
}

func chain(p []byte) (c millrace.Chain) {
	c.AppendCopy(p)
	return c
}

var word = regexp.MustCompile(`^([KP])(-?[0-9.]+)(?:=(\d+))?(?:x(\d+))?(!?)$`)

// play performs the words of in. K40 adds a keyframe of 40 ms, P40x3 adds three other video frames,
// and P40=9000 has 9000 bytes. P40! announces that a keyframe follows; in P40x3! it follows the
// last frame. The other words are the Window's methods. play records a letter for each call in
// r.news: n for news.
func (r *rig) play(in string) *rig {
	r.t.Helper()
	for _, w := range strings.Fields(in) {
		m := word.FindStringSubmatch(w)
		n := 1
		if m != nil && m[4] != "" {
			n, _ = strconv.Atoi(m[4])
		}
		for i := range n {
			var news bool
			switch {
			case w == "init":
				c := chain([]byte("init"))
				news = r.w.Init(&c)
			case w == "break":
				news = r.w.Break()
			case w == "flush":
				news = r.w.Flush()
			case w == "end":
				news = r.w.End()
			case m != nil:
				d, _ := strconv.ParseFloat(m[2], 64)
				f := hls.Fragment{Key: m[1] == "K", KeyNext: m[5] != "" && i == n-1,
					Duration: time.Duration(d * float64(time.Millisecond))}
				size, _ := strconv.Atoi(m[3])
				news = r.add(f, size)
			default:
				r.t.Fatalf("no such word: %s", w)
			}
			r.news += map[bool]string{true: "n", false: "."}[news]
		}
	}
	return r
}

// add adds a fragment of at least size bytes.
func (r *rig) add(f hls.Fragment, size int) bool {
	r.t.Helper()
	name := []byte(fmt.Sprintf("(%d)", r.added))
	r.added++
	c := chain(append(name, bytes.Repeat([]byte{'.'}, max(0, size-len(name)))...))
	news := r.w.Add(f, &c)
	if c.Len() != 0 {
		r.t.Fatalf("%d bytes left", c.Len())
	}
	return news
}

func (r *rig) playlist() playlist {
	r.t.Helper()
	return parse(r.t, string(r.w.AppendPlaylist(nil, false)))
}

// get returns the bytes of an object.
func (r *rig) get(name string) ([]byte, bool) {
	r.t.Helper()
	o, ok := hls.ParseObject(name)
	if !ok {
		r.t.Fatalf("name %q", name)
	}
	var c millrace.Chain
	defer c.Release()
	ok = r.w.Append(&c, o)
	if ok != (c.Len() > 0) {
		r.t.Fatalf("%s: %v and %d bytes", name, ok, c.Len())
	}
	return bytes.Clone(c.Bytes()), ok
}
