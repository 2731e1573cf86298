package hlscheck

import (
	"strings"
	"time"
)

// Media is a media playlist.
type Media struct {
	head
	Sequence        uint64    // media sequence number of Segments[0]
	Discontinuities uint64    // EXT-X-DISCONTINUITY-SEQUENCE
	Skipped         int       // number of segments that EXT-X-SKIP replaced
	Segments        []Segment // the complete segments
	Open            Segment   // the next segment, which has no URI but may have parts
	Hint            string    // URI of the next part
	Ended           bool

	hintLine, skipLine int
}

// head holds the values that must not change during a stream.
type head struct {
	Version                 int
	Target, PartTarget      time.Duration
	SkipUntil, PartHoldBack time.Duration
	BlockReload             bool
}

// A Segment is a media segment.
type Segment struct {
	MSN           uint64
	URI           string
	Duration      time.Duration
	Parts         []Part
	Map           string // URI of the initialization section
	Date          time.Time
	Break         bool   // after an EXT-X-DISCONTINUITY
	Gap           bool   // after an EXT-X-GAP; the segment cannot be fetched
	Discontinuity uint64 // discontinuity sequence number
	Line          int    // line of the URI, or of the first part
}

// A Part is a partial segment.
type Part struct {
	URI         string
	Duration    time.Duration
	Independent bool
	Line        int
}

// Next returns the media sequence number and the index of the next part.
func (m *Media) Next() (msn uint64, part int) { return m.Open.MSN, len(m.Open.Parts) }

// firstNumber returns the media sequence number of m.Segments[0].
func (m *Media) firstNumber() uint64 { return m.Open.MSN - uint64(len(m.Segments)) }

// Segment returns the complete or open segment with the media sequence number msn, or nil.
func (m *Media) Segment(msn uint64) *Segment {
	switch {
	case msn == m.Open.MSN:
		return &m.Open
	case msn >= m.firstNumber() && msn < m.Open.MSN:
		return &m.Segments[msn-m.firstNumber()]
	}
	return nil
}

// epoch returns the epoch of the server that writes the playlist. It is the epoch in the URI of the
// hint or, if the playlist has ended, in the URI of the last segment. If a live playlist has no
// hint, epoch returns "", because another server may be about to continue the stream.
func (m *Media) epoch() string {
	name := m.Hint
	if m.Ended && len(m.Segments) > 0 {
		name = m.Segments[len(m.Segments)-1].URI
	}
	return epochOf(name)
}

// epochOf returns the epoch in a URI, the text before the first "-". A server chooses a new epoch
// when it begins a stream or takes it over.
func epochOf(uri string) string {
	epoch, _, _ := strings.Cut(uri, "-")
	return epoch
}

// epoch returns the epoch of s, which must have a URI or a part.
func (s *Segment) epoch() string {
	if s.URI == "" {
		return epochOf(s.Parts[0].URI)
	}
	return epochOf(s.URI)
}

// Duration returns the total duration of the complete segments.
func (m *Media) Duration() time.Duration { return segmentsDuration(m.Segments) }

// toEnd returns the time from the start of segment msn to the end of the last part.
func (m *Media) toEnd(msn uint64) time.Duration {
	return segmentsDuration(m.Segments[msn-m.firstNumber():]) + partsDuration(m.Open.Parts)
}

func segmentsDuration(segments []Segment) (d time.Duration) {
	for _, s := range segments {
		d += s.Duration
	}
	return d
}

func partsDuration(parts []Part) (d time.Duration) {
	for _, p := range parts {
		d += p.Duration
	}
	return d
}

// partsTolerance is the maximum difference between the total duration of n parts and the duration
// of their segment. Each duration is rounded to a millisecond.
func partsTolerance(n int) time.Duration { return time.Duration(n+1) * time.Millisecond }

// hasAllParts reports whether the playlist lists all parts of s. It compares their total duration
// with the duration of s.
func (s *Segment) hasAllParts() bool {
	return s.Duration-partsDuration(s.Parts) <= partsTolerance(len(s.Parts))
}

// numberSegments assigns sequence numbers. A segment without a Map gets the Map of the segment
// before it.
func (m *Media) numberSegments() {
	s := Segment{MSN: m.Sequence - 1, Discontinuity: m.Discontinuities}
	next := func(n *Segment) {
		n.MSN, n.Discontinuity = s.MSN+1, s.Discontinuity
		if n.Break {
			n.Discontinuity++
		}
		if n.Map == "" {
			n.Map = s.Map
		}
		s = *n
	}
	for i := range m.Segments {
		next(&m.Segments[i])
	}
	next(&m.Open)
}

func parseMedia(text string, r *report) *Media {
	m := &Media{}
	var cur Segment // the segment to which the next tags apply
	extinf := 0     // line of the segment's EXTINF; 0 if there is none yet
	for _, l := range parseLines(text, mediaTags, r) {
		switch l.tag {
		case "": // a URI
			if extinf == 0 {
				r.add("extinf-missing", l.n, "%s", l.value)
			}
			cur.URI, cur.Line = l.value, l.n
			m.Segments = append(m.Segments, cur)
			cur, extinf = Segment{}, 0
		case "EXT-X-VERSION":
			m.Version = int(parseInteger(l.value))
		case "EXT-X-TARGETDURATION":
			m.Target = time.Duration(parseInteger(l.value)) * time.Second
		case "EXT-X-MEDIA-SEQUENCE":
			m.Sequence = parseInteger(l.value)
		case "EXT-X-DISCONTINUITY-SEQUENCE":
			m.Discontinuities = parseInteger(l.value)
		case "EXT-X-ENDLIST":
			m.Ended = true
		case "EXT-X-PART-INF":
			m.PartTarget = l.seconds("PART-TARGET")
		case "EXT-X-SERVER-CONTROL":
			m.SkipUntil, m.PartHoldBack = l.seconds("CAN-SKIP-UNTIL"), l.seconds("PART-HOLD-BACK")
			m.BlockReload = l.has("CAN-BLOCK-RELOAD")
		case "EXT-X-SKIP":
			m.Skipped, m.skipLine = int(l.integer("SKIPPED-SEGMENTS")), l.n
		case "EXT-X-PRELOAD-HINT":
			m.Hint, m.hintLine = l.attrs["URI"], l.n
		case "EXT-X-DISCONTINUITY":
			cur.Break = true
		case "EXT-X-GAP":
			cur.Gap = true
		case "EXT-X-MAP":
			cur.Map = l.attrs["URI"]
		case "EXT-X-PROGRAM-DATE-TIME":
			var err error
			if cur.Date, err = time.Parse(time.RFC3339, l.value); err != nil {
				r.add("tag-value", l.n, "%v", err)
			}
		case "EXT-X-PART":
			cur.Parts = append(cur.Parts, Part{l.attrs["URI"], l.seconds("DURATION"),
				l.has("INDEPENDENT"), l.n})
			if len(cur.Parts) == 1 {
				cur.Line = l.n
			}
		case "EXTINF":
			if extinf != 0 {
				r.add("extinf-missing", l.n, "EXTINF of line %d has no segment", extinf)
			}
			value, _, _ := strings.Cut(l.value, ",")
			cur.Duration, extinf = parseSeconds(value), l.n
		}
	}
	if extinf != 0 {
		r.add("extinf-missing", extinf, "EXTINF has no segment")
	}
	m.Open = cur
	return m
}

// check checks one playlist against the rules of HLS and reports problems to r. It does not check
// changes since an earlier playlist. If m is a delta update, the caller must first add the skipped
// segments to m.Segments.
func (m *Media) check(r *report) {
	all := m.Segments
	if len(m.Open.Parts) > 0 {
		all = append(all[:len(all):len(all)], m.Open)
	}
	var parts, dated, independent bool
	for _, s := range all {
		parts, dated = parts || len(s.Parts) > 0, dated || !s.Date.IsZero()
		for _, p := range s.Parts {
			independent = independent || p.Independent
		}
	}
	for _, rule := range []struct {
		name   string
		broken bool
	}{
		{"version-low", m.Version < 9},
		{"target-missing", m.Target < time.Second},
		{"part-inf-missing", parts && m.PartTarget == 0},
		{"skip-until-short", m.SkipUntil != 0 && m.SkipUntil < 6*m.Target},
		{"part-hold-back-short", m.PartTarget > 0 && m.PartHoldBack < 3*m.PartTarget},
		{"block-reload-missing", parts && !m.Ended && !m.BlockReload},
		{"hint-missing", parts && !m.Ended && m.Hint == ""},
		{"hint-ended", m.Ended && m.Hint != ""},
		{"part-orphan", m.Ended && len(m.Open.Parts) > 0},
		{"date-missing", parts && !dated},
		{"independent-none", parts && !independent},
	} {
		if rule.broken {
			r.add(rule.name, 0, "%+v, hint %q, ended %v", m.head, m.Hint, m.Ended)
		}
	}
	uris := map[string]bool{m.Hint: true}
	once := func(uri string, line int) {
		if uris[uri] && uri != "" {
			r.add("uri-duplicate", line, "%s", uri)
		}
		uris[uri] = true
	}
	toEnd := m.Duration() // from the end of s to the end of the last complete segment
	var date time.Time    // expected start of s
	for i := range all {
		s := &all[i]
		toEnd -= s.Duration
		once(s.URI, s.Line)
		if s.Map == "" {
			r.add("map-missing", s.Line, "segment %d", s.MSN)
		}
		if m.Target > 0 && s.Duration.Round(time.Second) > m.Target {
			r.add("segment-long", s.Line, "%v, target duration %v", s.Duration, m.Target)
		}
		if i > 0 && !s.Break && s.epoch() != all[i-1].epoch() {
			r.add("server-change", s.Line, "segment %d", s.MSN)
		}
		if s.Break && dated && s.Date.IsZero() {
			r.add("date-discontinuity", s.Line, "segment %d", s.MSN)
		}
		if !s.Date.IsZero() && !date.IsZero() {
			switch off := s.Date.Sub(date); {
			case off <= -time.Second, !s.Date.After(all[i-1].Date):
				r.add("date-overlap", s.Line,
					"segment %d begins %v before the end of the one before", s.MSN, -off)
			case off.Abs() >= 100*time.Millisecond && !s.Break:
				r.add("date-drift", s.Line, "segment %d is off by %v", s.MSN, off)
			}
		}
		if !s.Date.IsZero() {
			date = s.Date
		}
		if !date.IsZero() {
			date = date.Add(s.Duration)
		}
		m.checkParts(s, toEnd, i == 0 || len(all[i-1].Parts) == 0, r)
		for _, p := range s.Parts {
			once(p.URI, p.Line)
		}
	}
}

// checkParts checks the parts of s. toEnd is the time from the end of s to the end of the last
// complete segment. If trimmed is set, s may lack its first parts.
func (m *Media) checkParts(s *Segment, toEnd time.Duration, trimmed bool, r *report) {
	if len(s.Parts) == 0 {
		return
	}
	if s.Gap {
		r.add("gap-parts", s.Line, "segment %d", s.MSN)
	}
	if s.URI != "" {
		if toEnd > 3*m.Target {
			r.add("parts-old", s.Line, "segment %d ends %v before the end", s.MSN, toEnd)
		}
		d := partsDuration(s.Parts)
		if d-s.Duration > partsTolerance(len(s.Parts)) || !s.hasAllParts() && !trimmed {
			r.add("parts-duration", s.Line, "parts of %v, segment of %v", d, s.Duration)
		}
	}
	for k, p := range s.Parts {
		if p.Duration > m.PartTarget && m.PartTarget > 0 {
			r.add("part-long", p.Line, "%v, PART-TARGET %v", p.Duration, m.PartTarget)
		}
		if p.Duration*100 < 85*m.PartTarget && k < len(s.Parts)-1 && !p.Independent {
			r.add("part-short", p.Line, "%v, PART-TARGET %v", p.Duration, m.PartTarget)
		}
	}
}
