package hlscheck

import (
	"slices"
	"strings"
	"time"
)

// A Checker checks the playlists of one stream in the order in which they were made. It is not safe for concurrent use.
type Checker struct {
	multivariant *Multivariant
	media        *Media
	segmentAt    time.Time // when the newest segment was first seen
	partAt       time.Time // when the newest part was first seen
}

// New returns a Checker that has seen nothing.
func New() *Checker { return &Checker{} }

// Playlist returns the last media playlist, with the segments that a delta update skipped. It is nil before the first.
func (c *Checker) Playlist() *Media { return c.media }

// Media checks the next version of the media playlist. A zero time leaves out the rules about when segments and parts
// come; otherwise at is when the playlist was received.
func (c *Checker) Media(text string, at time.Time) []Problem {
	r := &report{}
	m := parseMedia(text, r)
	m.check(r)
	if c.multivariant != nil && c.multivariant.Independent && m.Independent {
		r.add("independent-twice", 0, "in both playlists")
	}
	prev := c.media
	if m.Skipped > 0 {
		m.fill(prev, r)
	}
	if prev != nil {
		compareHead(prev, m, r)
		compareSegments(prev, m, r)
		compareHint(prev, m, r)
		c.compareTimes(prev, m, at, r)
	}
	if prev == nil || m.Open.MSN > prev.Open.MSN {
		c.segmentAt, c.partAt = at, at
	} else if len(m.Open.Parts) > len(prev.Open.Parts) {
		c.partAt = at
	}
	c.media = m
	return r.problems
}

// fill puts the segments that a delta update skipped before its own.
func (m *Media) fill(prev *Media, r *report) {
	if prev == nil || len(prev.Segments) == 0 || m.Sequence < prev.first() ||
		m.Sequence+uint64(m.Skipped) > prev.Open.MSN {
		r.add("skip-unknown", m.skipLine, "segments from %d, %d of them", m.Sequence, m.Skipped)
		return
	}
	from := m.Sequence - prev.first()
	skipped := slices.Clone(prev.Segments[from : from+uint64(m.Skipped)])
	for i := range skipped {
		skipped[i].Line = 0
	}
	last := skipped[len(skipped)-1].Map
	m.Segments = append(skipped, m.Segments...)
	for i := range m.Segments {
		if s := &m.Segments[i]; s.Map == "" {
			s.Map = last
		} else {
			last = s.Map
		}
	}
	if m.Open.Map == "" {
		m.Open.Map = last
	}
	m.number()
}

func compareHead(prev, m *Media, r *report) {
	if m.Target != prev.Target {
		r.add("target-changed", 0, "from %v to %v", prev.Target, m.Target)
	}
	if m.PartTarget != prev.PartTarget {
		r.add("part-target-changed", 0, "from %v to %v", prev.PartTarget, m.PartTarget)
	}
	if m.Control != prev.Control {
		r.add("head-changed", m.controlLine, "from %+v to %+v", prev.Control, m.Control)
	}
	if m.Type != prev.Type || m.Version != prev.Version && m.Skipped == 0 && prev.Skipped == 0 {
		r.add("head-changed", 0, "from version %d %q to %d %q", prev.Version, prev.Type, m.Version, m.Type)
	}
	if m.Sequence < prev.Sequence {
		r.add("sequence-back", 0, "from %d to %d", prev.Sequence, m.Sequence)
	}
	if m.Discontinuities < prev.Discontinuities {
		r.add("discontinuity-back", 0, "from %d to %d", prev.Discontinuities, m.Discontinuities)
	}
	if prev.Ended && (!m.Ended || m.Open.MSN > prev.Open.MSN) {
		r.add("ended-changed", 0, "from segment %d on", prev.Open.MSN)
	}
	if m.Sequence > prev.Sequence {
		if left := m.Duration(); left < 3*m.Target && !m.Ended {
			r.add("window-short", 0, "%v are left of segments, target duration %v", left, m.Target)
		}
		if m.Type != "" {
			r.add("live-type", 0, "%s, and segment %d was removed", m.Type, prev.Sequence)
		}
		if !prev.hasDiscontinuities && slices.ContainsFunc(prev.Segments, func(s Segment) bool { return s.Break }) {
			r.add("discontinuity-untagged", 0, "segment %d was removed", prev.Sequence)
		}
	}
}

func compareSegments(prev, m *Media, r *report) {
	if m.Open.MSN < prev.Open.MSN {
		r.add("segment-withdrawn", 0, "the last was %d, and is %d", prev.Open.MSN-1, m.Open.MSN-1)
	}
	var kept *Segment // an earlier segment that keeps parts
	for msn := max(prev.first(), m.first()); msn <= min(prev.Open.MSN, m.Open.MSN); msn++ {
		p, s := prev.Segment(msn), m.Segment(msn)
		wasOpen, isOpen := p.URI == "", s.URI == ""
		if !wasOpen && !isOpen {
			if s.URI != p.URI || s.Duration != p.Duration || s.Gap != p.Gap {
				r.add("segment-changed", s.Line, "%d was %s of %v and is %s of %v", msn, p.URI, p.Duration, s.URI, s.Duration)
			}
			if s.Discontinuity != p.Discontinuity {
				r.add("discontinuity-sequence", s.Line, "%d had %d and has %d", msn, p.Discontinuity, s.Discontinuity)
			}
		}
		// Before an open segment has parts, tags that apply to it may still be missing. A discontinuity may go with the
		// segment before it.
		if !wasOpen || len(p.Parts) > 0 {
			dated := !s.Date.IsZero() && !p.Date.IsZero() && !s.Date.Equal(p.Date)
			mapped := s.Map != "" && p.Map != "" && s.Map != p.Map
			if dated || mapped || s.Break != p.Break && msn != m.first() {
				r.add("segment-changed", s.Line, "%d had date %v, map %s, discontinuity %v and has %v, %s, %v", msn,
					p.Date, p.Map, p.Break, s.Date, s.Map, s.Break)
			}
		}
		compareParts(m, p, s, kept, r)
		if len(s.Parts) > 0 && kept == nil {
			kept = s
		}
	}
}

// compareParts compares the parts of a segment that was p and is s. An earlier segment keeps its parts if kept is not
// nil.
func compareParts(m *Media, p, s, kept *Segment, r *report) {
	if len(p.Parts) == 0 {
		if p.URI != "" && len(s.Parts) > 0 {
			r.add("part-changed", s.Parts[0].Line, "segment %d was complete, without parts", s.MSN)
		}
		return
	}
	removed := len(p.Parts) // from the front
	if len(s.Parts) > 0 {
		removed = max(0, slices.IndexFunc(p.Parts, func(q Part) bool { return q.URI == s.Parts[0].URI }))
	}
	if removed > 0 {
		switch toEnd := 4 * m.Target; {
		case s.URI == "":
			r.add("part-withdrawn", 0, "%s", p.Parts[0].URI)
			return
		case kept != nil:
			r.add("part-removed-order", s.Line, "segment %d has none, and %d has", s.MSN, kept.MSN)
		default:
			if toEnd = m.toEnd(s.MSN); toEnd <= 3*m.Target {
				r.add("part-removed-early", s.Line, "segment %d begins %v before the end", s.MSN, toEnd)
			}
		}
	}
	left := p.Parts[removed:]
	for i, q := range left {
		if i >= len(s.Parts) {
			r.add("part-withdrawn", s.Line, "%s", q.URI)
			return
		}
		if q.Line = s.Parts[i].Line; q != s.Parts[i] {
			r.add("part-changed", q.Line, "%+v is %+v", q, s.Parts[i])
		}
	}
	if p.URI != "" && len(s.Parts) > len(left) {
		r.add("part-changed", s.Parts[len(left)].Line, "segment %d was complete", s.MSN)
	}
}

// compareHint checks that the part which prev hinted is the next one, unless a discontinuity has changed the plan.
func compareHint(prev, m *Media, r *report) {
	if prev.Hint == "" || prev.Ended || m.Ended {
		return
	}
	msn, part := prev.Next()
	s, cut := m.Segment(msn), false
	if s != nil && s.URI != "" && len(s.Parts) <= part { // it got no further part
		s, part, cut = m.Segment(msn+1), 0, part > 0
	}
	switch {
	case s == nil || s.Break && part == 0:
	case len(s.Parts) > part && s.Parts[part].URI != prev.Hint:
		rule := "hint-broken"
		if cut {
			rule = "hint-cut"
		}
		r.add(rule, s.Parts[part].Line, "%s was hinted, %s came", prev.Hint, s.Parts[part].URI)
	case s == &m.Open && len(s.Parts) == part && !cut && m.Hint != prev.Hint:
		r.add("hint-broken", m.hintLine, "%s was hinted, and %s is, with no part between", prev.Hint, m.Hint)
	}
}

// compareTimes checks when segments and parts come. A playlist may have been on its way for a while, so that parts have
// twice their time.
func (c *Checker) compareTimes(prev, m *Media, at time.Time, r *report) {
	if at.IsZero() || c.segmentAt.IsZero() || prev.Ended || m.Ended {
		return
	}
	if since := at.Sub(c.segmentAt); since > m.Target*3/2 {
		r.add("segment-late", 0, "%v after segment %d", since, prev.Open.MSN-1)
		c.segmentAt = at
	}
	if since := at.Sub(c.partAt); since > 2*m.PartTarget && m.PartTarget > 0 {
		r.add("part-late", 0, "%v without a part, segment %d has %d", since, prev.Open.MSN, len(prev.Open.Parts))
		c.partAt = at
	}
}

// Multivariant is a multivariant playlist.
type Multivariant struct {
	Version     int
	Independent bool
	Variants    []Variant
}

// A Variant is a row of a multivariant playlist.
type Variant struct {
	URI                string
	Bandwidth, Average uint64
	Codecs             []string
	Resolution         string
	FrameRate          string
	Line               int
}

// video are the beginnings of formats of pictures.
var video = []string{"avc1", "avc3", "hvc1", "hev1", "av01", "vp08", "vp09", "dvh1", "dvhe"}

// HasVideo reports whether CODECS names pictures.
func (v Variant) HasVideo() bool {
	return slices.ContainsFunc(v.Codecs, func(c string) bool {
		name, _, _ := strings.Cut(c, ".")
		return slices.Contains(video, name)
	})
}

// Multivariant checks the multivariant playlist.
func (c *Checker) Multivariant(text string) []Problem {
	r := &report{}
	m := &Multivariant{}
	var inf line
	groups := map[string]bool{}
	var wanted []line
	need, versionLine := 1, 0
	for _, l := range parseLines(text, inMultivariant, r) {
		if inf.tag != "" && l.tag != "" {
			r.add("variant-uri", inf.n, "no URI in the line after it")
			inf = line{}
		}
		switch l.tag {
		case "":
			if inf.tag == "" {
				r.add("variant-uri", l.n, "no EXT-X-STREAM-INF before %s", l.value)
				break
			}
			if slices.ContainsFunc(m.Variants, func(v Variant) bool { return v.URI == l.value }) {
				r.add("variant-duplicate", l.n, "%s", l.value)
			}
			m.Variants = append(m.Variants, newVariant(inf, l.value, r))
			inf = line{}
		case "EXT-X-VERSION":
			n, _ := parseInteger(l.value)
			m.Version, versionLine = int(min(n, 1<<20)), l.n
		case "EXT-X-INDEPENDENT-SEGMENTS":
			m.Independent = true
		case "EXT-X-DEFINE":
			need = max(need, 8)
		case "EXT-X-MEDIA":
			groups[l.attrs["TYPE"]+" "+l.attrs["GROUP-ID"]] = true
		case "EXT-X-STREAM-INF":
			inf = l
			wanted = append(wanted, l)
			if l.attrs.has("REQ-VIDEO-LAYOUT") {
				need = max(need, 12)
			}
		}
	}
	if inf.tag != "" {
		r.add("variant-uri", inf.n, "no URI in the line after it")
	}
	for _, l := range wanted {
		for _, typ := range []string{"AUDIO", "VIDEO", "SUBTITLES", "CLOSED-CAPTIONS"} {
			if id, ok := l.attrs[typ]; ok && id != "NONE" && !groups[typ+" "+id] {
				r.add("group-missing", l.n, "%s %s", typ, id)
			}
		}
	}
	if len(m.Variants) == 0 {
		r.add("variant-none", 0, "no EXT-X-STREAM-INF with a URI")
	}
	// The version is that of the media playlists too.
	checkVersion(m.Version, need, max(need, 10), versionLine, r)
	c.multivariant = m
	return r.problems
}

func newVariant(l line, uri string, r *report) Variant {
	a := l.attrs
	v := Variant{uri, a.integer("BANDWIDTH"), a.integer("AVERAGE-BANDWIDTH"), nil, a["RESOLUTION"], a["FRAME-RATE"], l.n}
	if v.Bandwidth == 0 || v.Average > v.Bandwidth {
		r.add("bandwidth", l.n, "BANDWIDTH %d, AVERAGE-BANDWIDTH %d", v.Bandwidth, v.Average)
	}
	if !a.has("CODECS") {
		r.add("codecs", l.n, "no CODECS")
		return v
	}
	v.Codecs = strings.Split(a["CODECS"], ",")
	for _, codec := range v.Codecs {
		name, rest, dot := strings.Cut(codec, ".")
		needsRest := slices.Contains(video, name) || name == "mp4a"
		if len(name) != 4 || strings.ContainsAny(codec, " \t") || dot == (rest == "") || needsRest && !dot {
			r.add("codecs-syntax", l.n, "%q in %q", codec, a["CODECS"])
		}
	}
	if v.HasVideo() {
		if v.Resolution == "" {
			r.add("resolution", l.n, "no RESOLUTION")
		}
		if _, frac, _ := strings.Cut(v.FrameRate, "."); v.FrameRate == "" || len(frac) > 3 {
			r.add("frame-rate", l.n, "FRAME-RATE %q", v.FrameRate)
		}
	}
	return v
}
