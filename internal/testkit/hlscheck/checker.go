package hlscheck

import (
	"regexp"
	"slices"
	"strings"
)

// A Checker checks the playlists of one stream in the order of their creation. It is not safe for
// concurrent use.
type Checker struct {
	media *Media // the last playlist
}

// New returns a Checker for a new stream.
func New() *Checker { return &Checker{} }

// Playlist returns the media playlist that was checked last.
func (c *Checker) Playlist() *Media { return c.media }

// Media checks the next version of the media playlist and returns the problems.
func (c *Checker) Media(text string) []Problem {
	r := &report{}
	m, prev := parseMedia(text, r), c.media
	c.media = m
	if m.skipLine > 0 {
		m.checkSkip(r)
		if !m.fill(prev) {
			m.Sequence += uint64(m.Skipped)
			m.numberSegments()
			r.add("skip-unknown", m.skipLine, "segments from %d, %d of them", m.Sequence, m.Skipped)
			return r.problems
		}
	}
	m.numberSegments()
	m.check(r)
	if prev != nil {
		compareHead(prev, m, r)
		compareSegments(prev, m, r)
		compareHint(prev, m, r)
	}
	return r.problems
}

// checkSkip checks the rules for delta updates. It must be called before fill.
func (m *Media) checkSkip(r *report) {
	switch left := m.Duration(); {
	case m.Ended || m.Skipped > 0 && left < m.SkipUntil || m.SkipUntil == 0:
		r.add("skip-many", m.skipLine, "%v are left, CAN-SKIP-UNTIL is %v, ended %v", left,
			m.SkipUntil, m.Ended)
	case len(m.Segments) > 0 && left-m.Segments[0].Duration > m.SkipUntil:
		r.add("skip-few", m.skipLine, "%s is left, and ends %v before the end", m.Segments[0].URI,
			left-m.Segments[0].Duration)
	}
}

// fill adds the segments that the delta update m skips. It takes them from prev, the playlist
// before m, and returns false if prev does not have them.
func (m *Media) fill(prev *Media) bool {
	if prev == nil || m.Sequence < prev.firstNumber() || m.Sequence+uint64(m.Skipped) > prev.Open.MSN {
		return false
	}
	from := m.Sequence - prev.firstNumber()
	skipped := slices.Clone(prev.Segments[from : from+uint64(m.Skipped)])
	for i := range skipped {
		skipped[i].Parts = nil
	}
	m.Segments = append(skipped, m.Segments...)
	return true
}

func compareHead(prev, m *Media, r *report) {
	if m.head != prev.head {
		r.add("head-changed", 0, "from %+v to %+v", prev.head, m.head)
	}
	if m.Sequence < prev.Sequence || m.Discontinuities < prev.Discontinuities {
		r.add("sequence-back", 0, "from %d, %d to %d, %d", prev.Sequence, prev.Discontinuities,
			m.Sequence, m.Discontinuities)
	}
	if prev.Ended && (!m.Ended || m.Open.MSN > prev.Open.MSN) {
		r.add("ended-changed", 0, "from segment %d on", prev.Open.MSN)
	}
	if left := m.Duration(); m.Sequence > prev.Sequence && left < 3*m.Target && !m.Ended {
		r.add("window-short", 0, "%v are left of segments, target duration %v", left, m.Target)
	}
	if m.Open.MSN < prev.Open.MSN {
		r.add("segment-withdrawn", 0, "the last was %d, and is %d", prev.Open.MSN-1, m.Open.MSN-1)
	}
}

func compareSegments(prev, m *Media, r *report) {
	for msn := max(prev.firstNumber(), m.firstNumber()); msn <= min(prev.Open.MSN, m.Open.MSN); msn++ {
		p, s := prev.Segment(msn), m.Segment(msn)
		if p.URI != "" && s.URI != "" {
			if s.URI != p.URI || s.Duration != p.Duration || s.Gap != p.Gap {
				r.add("segment-changed", s.Line, "%d was %s of %v and is %s of %v", msn, p.URI,
					p.Duration, s.URI, s.Duration)
			}
			if s.Discontinuity != p.Discontinuity {
				r.add("discontinuity-sequence", s.Line, "%d had %d and has %d", msn,
					p.Discontinuity, s.Discontinuity)
			}
		}
		// Compare the other tags only if both playlists have the segment's URI or a part of the
		// segment. Otherwise a playlist may have only some of the segment's tags, and a
		// discontinuity at its end may be for the previous segment.
		if (p.URI != "" || len(p.Parts) > 0) && (s.URI != "" || len(s.Parts) > 0) {
			dated := !s.Date.IsZero() && !p.Date.IsZero() && !s.Date.Equal(p.Date)
			if dated || s.Map != p.Map || s.Break != p.Break && msn != m.firstNumber() {
				r.add("segment-changed", s.Line,
					"%d had date %v, map %s, discontinuity %v and has %v, %s, %v", msn,
					p.Date, p.Map, p.Break, s.Date, s.Map, s.Break)
			}
		}
		compareParts(prev.epoch(), m, p, s, r)
	}
}

// compareParts compares the parts of a segment, p in the earlier playlist and s in m.
func compareParts(prevEpoch string, m *Media, p, s *Segment, r *report) {
	if prevEpoch != m.epoch() { // the server of the new epoch does not have the parts
		return
	}
	removed := len(p.Parts) // number of parts removed from the start
	if len(s.Parts) > 0 {
		removed = max(0, slices.IndexFunc(p.Parts,
			func(q Part) bool { return q.URI == s.Parts[0].URI }))
	}
	if removed > 0 {
		if s.URI == "" {
			r.add("part-withdrawn", 0, "%s", p.Parts[0].URI)
			return
		}
		if toEnd := m.toEnd(s.MSN); toEnd <= 3*m.Target {
			r.add("part-removed-early", s.Line, "segment %d begins %v before the end", s.MSN, toEnd)
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
		r.add("part-changed", s.Line, "segment %d was complete", s.MSN)
	}
}

// compareHint checks that the next part in m is the part in the preload hint of prev. After a
// discontinuity, any part may follow.
func compareHint(prev, m *Media, r *report) {
	if prev.Hint == "" || prev.Ended || m.Ended || prev.epoch() != m.epoch() {
		return
	}
	msn, part := prev.Next()
	s, rule := m.Segment(msn), "hint-broken"
	if s != nil && s.URI != "" && len(s.Parts) <= part { // the hinted part does not exist
		if part > 0 {
			rule = "hint-cut"
		}
		s, part = m.Segment(msn+1), 0
	}
	next := m.Hint
	switch {
	case s == nil || s.Break && part == 0:
		return
	case len(s.Parts) > part:
		next = s.Parts[part].URI
	case s != &m.Open || len(s.Parts) < part || rule == "hint-cut":
		return
	}
	if next != prev.Hint {
		r.add(rule, s.Line, "%s was hinted, %s came", prev.Hint, next)
	}
}

type variant struct {
	uri       string
	bandwidth uint64
}

var codecs = regexp.MustCompile(
	`^(avc1|hvc1|mp4a)\.[0-9A-Za-z.]+(,(avc1|hvc1|mp4a)\.[0-9A-Za-z.]+)?$`)

// parseMultivariant parses and checks a multivariant playlist, which must have one variant.
func parseMultivariant(text string, r *report) (v variant) {
	lines := parseLines(text, multivariantTags, r)
	if n := len(lines); n < 2 || lines[n-2].tag != "EXT-X-STREAM-INF" || lines[n-1].tag != "" {
		r.add("variant-none", 0, "no EXT-X-STREAM-INF with a URI at the end")
		return v
	}
	l := lines[len(lines)-2]
	v = variant{lines[len(lines)-1].value, l.integer("BANDWIDTH")}
	_, frac, _ := strings.Cut(l.attrs["FRAME-RATE"], ".")
	video := strings.Contains(l.attrs["CODECS"], "vc1")
	for _, rule := range []struct {
		name   string
		broken bool
	}{
		{"bandwidth", v.bandwidth == 0 || l.integer("AVERAGE-BANDWIDTH") > v.bandwidth},
		{"codecs", !codecs.MatchString(l.attrs["CODECS"])},
		{"resolution", video && !l.has("RESOLUTION")},
		{"frame-rate", video && !l.has("FRAME-RATE") || len(frac) > 3},
	} {
		if rule.broken {
			r.add(rule.name, l.n, "%s", l.value)
		}
	}
	return v
}
