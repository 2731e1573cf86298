package hlscheck

import (
	"strings"
	"time"
)

// Media is a media playlist.
type Media struct {
	Version         int
	Target          time.Duration // EXT-X-TARGETDURATION
	PartTarget      time.Duration
	Control         Control
	Sequence        uint64 // media sequence number of Segments[0]
	Discontinuities uint64 // EXT-X-DISCONTINUITY-SEQUENCE
	Independent     bool   // EXT-X-INDEPENDENT-SEGMENTS
	Type            string
	Skipped         int       // segments that EXT-X-SKIP replaced; a Checker has filled them in
	Segments        []Segment // complete ones
	Open            Segment   // the segment that comes next: no URI, and perhaps parts
	Hint            string    // URI of the part that comes next
	Ended           bool

	hasSequence, hasDiscontinuities bool
	hintLine, skipLine, controlLine int
}

// Control is EXT-X-SERVER-CONTROL.
type Control struct {
	SkipUntil, HoldBack, PartHoldBack time.Duration
	SkipDateRanges, BlockReload       bool
}

// A Segment is a media segment.
type Segment struct {
	MSN           uint64
	URI           string
	Duration      time.Duration
	Parts         []Part
	Map           string // URI of its initialization section
	Date          time.Time
	Break         bool   // EXT-X-DISCONTINUITY stands before it
	Discontinuity uint64 // its discontinuity sequence number
	Gap           bool
	Line          int
}

// A Part is a partial segment.
type Part struct {
	URI              string
	Duration         time.Duration
	Independent, Gap bool
	Line             int
}

// Next returns the media sequence number and the index of the part that comes after the last.
func (m *Media) Next() (msn uint64, part int) { return m.Open.MSN, len(m.Open.Parts) }

// Segment returns a segment that m lists, complete or open, or nil.
func (m *Media) Segment(msn uint64) *Segment {
	switch {
	case msn == m.Open.MSN:
		return &m.Open
	case msn >= m.first() && msn < m.Open.MSN:
		return &m.Segments[msn-m.first()]
	}
	return nil
}

// Duration returns the sum of the durations of complete segments.
func (m *Media) Duration() time.Duration { return segmentsDuration(m.Segments) }

// toEnd returns how far the beginning of a listed segment is from the end of the last part.
func (m *Media) toEnd(msn uint64) time.Duration {
	return segmentsDuration(m.Segments[msn-m.first():]) + m.Open.partsDuration()
}

func segmentsDuration(segments []Segment) (d time.Duration) {
	for _, s := range segments {
		d += s.Duration
	}
	return d
}

func (s *Segment) partsDuration() (d time.Duration) {
	for _, p := range s.Parts {
		d += p.Duration
	}
	return d
}

// partsTolerance is by how much the durations of n parts and of their segment may differ: each is rounded to a
// millisecond.
func partsTolerance(n int) time.Duration { return time.Duration(n+1) * time.Millisecond }

// hasAllParts reports whether the parts that are listed are as long as the segment.
func (s *Segment) hasAllParts() bool {
	return s.Duration-s.partsDuration() <= partsTolerance(len(s.Parts))
}

// first returns the media sequence number of the first segment that is listed or filled in.
func (m *Media) first() uint64 { return m.Open.MSN - uint64(len(m.Segments)) }

// number sets sequence numbers of segments and of discontinuities.
func (m *Media) number() {
	msn, d := m.Sequence, m.Discontinuities
	if m.Skipped > 0 && (len(m.Segments) == 0 || m.Segments[0].Line > 0) {
		msn += uint64(m.Skipped) // not filled in yet
	}
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.Break {
			d++
		}
		s.MSN, s.Discontinuity = msn, d
		msn++
	}
	if m.Open.Break {
		d++
	}
	m.Open.MSN, m.Open.Discontinuity = msn, d
}

// parseMedia reads a media playlist and checks all that can be said line by line.
func parseMedia(text string, r *report) *Media {
	m := &Media{}
	var cur Segment // what is applied to the next segment
	var currentMap string
	var extinf, versionLine int // lines
	needVersion, floats := 1, 0
	for _, l := range parseLines(text, inMedia, r) {
		if len(cur.Parts) > 0 && (l.tag == "EXT-X-DISCONTINUITY" || l.tag == "EXT-X-KEY" || l.tag == "EXT-X-MAP" ||
			l.tag == "EXT-X-PROGRAM-DATE-TIME") {
			r.add("part-tag-order", l.n, "%s after part %s", l.tag, cur.Parts[0].URI)
		}
		switch l.tag {
		case "": // a URI
			if extinf == 0 {
				r.add("extinf-missing", l.n, "%s", l.value)
			}
			cur.URI, cur.Map, cur.Line = l.value, currentMap, l.n
			m.Segments = append(m.Segments, cur)
			cur, extinf = Segment{}, 0
		case "EXT-X-VERSION":
			n, _ := parseInteger(l.value)
			m.Version, versionLine = int(min(n, 1<<20)), l.n
		case "EXT-X-TARGETDURATION":
			n, _ := parseInteger(l.value)
			m.Target = time.Duration(n) * time.Second
		case "EXT-X-MEDIA-SEQUENCE", "EXT-X-DISCONTINUITY-SEQUENCE":
			if len(m.Segments) > 0 || len(cur.Parts) > 0 || m.Skipped > 0 || cur.Break {
				r.addTag("sequence-late", l.tag, l.n, "after the first segment or discontinuity")
			}
			n, _ := parseInteger(l.value)
			if n > 1<<62 {
				r.addTag("tag-value", l.tag, l.n, "%d is too large for this checker", n)
				n = 0
			}
			if l.tag == "EXT-X-MEDIA-SEQUENCE" {
				m.Sequence, m.hasSequence = n, true
			} else {
				m.Discontinuities, m.hasDiscontinuities = n, true
			}
		case "EXT-X-ENDLIST":
			m.Ended = true
		case "EXT-X-PLAYLIST-TYPE":
			if m.Type = l.value; m.Type != "VOD" && m.Type != "EVENT" {
				r.addTag("tag-value", l.tag, l.n, "%q", l.value)
			}
		case "EXT-X-INDEPENDENT-SEGMENTS":
			m.Independent = true
		case "EXT-X-PART-INF":
			m.PartTarget = l.attrs.seconds("PART-TARGET")
		case "EXT-X-SERVER-CONTROL":
			m.controlLine = l.n
			m.Control = Control{l.attrs.seconds("CAN-SKIP-UNTIL"), l.attrs.seconds("HOLD-BACK"), l.attrs.seconds("PART-HOLD-BACK"),
				l.attrs.has("CAN-SKIP-DATERANGES"), l.attrs.has("CAN-BLOCK-RELOAD")}
		case "EXTINF":
			seconds, _, comma := strings.Cut(l.value, ",")
			d, ok := parseSeconds(seconds)
			if !ok || !comma {
				r.addTag("tag-value", l.tag, l.n, "%q", l.value)
			}
			if extinf != 0 {
				r.add("extinf-missing", l.n, "EXTINF of line %d has no segment", extinf)
			}
			cur.Duration, extinf = d, l.n
			if strings.Contains(seconds, ".") {
				floats = 3
			}
			if m.Target > 0 && (d+time.Second/2).Truncate(time.Second) > m.Target {
				r.add("segment-long", l.n, "%v, target duration %v", d, m.Target)
			}
		case "EXT-X-BYTERANGE":
			needVersion = max(needVersion, 4)
		case "EXT-X-KEY":
			needVersion = max(needVersion, 5)
		case "EXT-X-MAP":
			needVersion = max(needVersion, 6)
			currentMap = l.attrs["URI"]
		case "EXT-X-DEFINE":
			needVersion = max(needVersion, 8)
		case "EXT-X-DISCONTINUITY":
			cur.Break = true
		case "EXT-X-GAP":
			cur.Gap = true
		case "EXT-X-PROGRAM-DATE-TIME":
			var precise bool
			var err error
			if cur.Date, precise, err = parseDate(l.value); err != nil {
				r.addTag("tag-value", l.tag, l.n, "%v", err)
			} else if !precise {
				r.add("date-precision", l.n, "%s", l.value)
			}
		case "EXT-X-PART":
			p := Part{l.attrs["URI"], l.attrs.seconds("DURATION"), l.attrs.has("INDEPENDENT"), l.attrs.has("GAP"), l.n}
			if p.Duration > m.PartTarget && m.PartTarget > 0 {
				r.add("part-long", l.n, "%v, PART-TARGET %v", p.Duration, m.PartTarget)
			}
			cur.Parts = append(cur.Parts, p)
		case "EXT-X-SKIP":
			needVersion = max(needVersion, 9)
			if l.attrs.has("RECENTLY-REMOVED-DATERANGES") {
				needVersion = max(needVersion, 10)
			}
			if len(m.Segments) > 0 || len(cur.Parts) > 0 {
				r.add("skip-late", l.n, "after the first segment")
			}
			m.Skipped, m.skipLine = int(min(l.attrs.integer("SKIPPED-SEGMENTS"), 1<<20)), l.n
		case "EXT-X-PRELOAD-HINT":
			if l.attrs["TYPE"] != "PART" {
				break
			}
			if m.hintLine != 0 {
				r.add("hint-duplicate", l.n, "another is in line %d", m.hintLine)
				break
			}
			m.Hint, m.hintLine = l.attrs["URI"], l.n
		}
	}
	if extinf != 0 {
		r.add("extinf-missing", extinf, "EXTINF has no segment")
	}
	cur.Map = currentMap
	m.Open = cur
	m.number()
	checkVersion(m.Version, max(needVersion, floats), m.mayVersion(needVersion), versionLine, r)
	return m
}

// mayVersion returns the version that the playlist may have because its delta updates need it.
func (m *Media) mayVersion(need int) int {
	switch {
	case m.Control.SkipDateRanges:
		return max(need, 10)
	case m.Control.SkipUntil > 0:
		return max(need, 9)
	}
	return max(need, 3)
}

func checkVersion(version, need, may, line int, r *report) {
	if max(version, 1) < need {
		r.add("version-low", line, "%d, the tags need %d", version, need)
	}
	if version > max(need, may) {
		r.add("version-high", line, "%d, the tags need %d", version, may)
	}
}

// check checks what can be said of a playlist without those before it.
func (m *Media) check(r *report) {
	if m.Target < time.Second {
		r.add("target-missing", 0, "%v", m.Target)
	}
	parts := len(m.Open.Parts) > 0
	for _, s := range m.Segments {
		parts = parts || len(s.Parts) > 0
	}
	if parts && m.PartTarget == 0 {
		r.add("part-inf-missing", 0, "no PART-TARGET")
	}
	m.checkControl(parts, r)
	m.checkHint(parts, r)
	m.checkSkip(r)
	m.checkSegments(parts, r)
}

func (m *Media) checkControl(parts bool, r *report) {
	c, n := m.Control, m.controlLine
	if c.SkipUntil != 0 && c.SkipUntil < 6*m.Target {
		r.add("skip-until-short", n, "%v, target duration %v", c.SkipUntil, m.Target)
	}
	if c.SkipDateRanges && c.SkipUntil == 0 {
		r.add("skip-dateranges-alone", n, "no CAN-SKIP-UNTIL")
	}
	if c.HoldBack != 0 && c.HoldBack < 3*m.Target {
		r.add("hold-back-short", n, "%v, target duration %v", c.HoldBack, m.Target)
	}
	if m.PartTarget > 0 {
		switch {
		case c.PartHoldBack == 0:
			r.add("part-hold-back-missing", n, "PART-TARGET is %v", m.PartTarget)
		case c.PartHoldBack < 2*m.PartTarget:
			r.add("part-hold-back-short", n, "%v, PART-TARGET %v", c.PartHoldBack, m.PartTarget)
		case c.PartHoldBack < 3*m.PartTarget:
			r.add("part-hold-back-low", n, "%v, PART-TARGET %v", c.PartHoldBack, m.PartTarget)
		}
	}
	if parts && !m.Ended && !c.BlockReload {
		r.add("block-reload-missing", n, "no CAN-BLOCK-RELOAD=YES")
	}
}

func (m *Media) checkHint(parts bool, r *report) {
	switch {
	case m.Ended && m.Hint != "":
		r.add("hint-ended", m.hintLine, "%s", m.Hint)
	case !m.Ended && m.Hint == "" && parts:
		r.add("hint-missing", 0, "no EXT-X-PRELOAD-HINT of a part")
	}
	if m.Ended && len(m.Open.Parts) > 0 {
		r.add("part-orphan", m.Open.Parts[0].Line, "%s", m.Open.Parts[0].URI)
	}
}

func (m *Media) checkSkip(r *report) {
	if m.skipLine == 0 {
		return
	}
	if m.Control.SkipUntil == 0 || m.Ended {
		r.add("skip-support", m.skipLine, "CAN-SKIP-UNTIL is %v, ended %v", m.Control.SkipUntil, m.Ended)
		return
	}
	left := m.Duration()
	if m.Skipped > 0 && left < m.Control.SkipUntil {
		r.add("skip-many", m.skipLine, "%v are left, CAN-SKIP-UNTIL is %v", left, m.Control.SkipUntil)
	}
	if len(m.Segments) > 0 && left-m.Segments[0].Duration > m.Control.SkipUntil {
		r.add("skip-few", m.skipLine, "%s is left, and ends %v before the end", m.Segments[0].URI, left-m.Segments[0].Duration)
	}
}

// checkSegments checks segments and parts, complete and open.
func (m *Media) checkSegments(parts bool, r *report) {
	var dated, independent bool
	all := m.Segments
	if len(m.Open.Parts) > 0 {
		all = append(all[:len(all):len(all)], m.Open)
	}
	for _, s := range all {
		dated = dated || !s.Date.IsZero()
	}
	if parts && !dated {
		r.add("date-missing", 0, "no EXT-X-PROGRAM-DATE-TIME")
	}
	uris := map[string]int{}
	once := func(uri string, line int) {
		if before := uris[uri]; before != 0 {
			r.add("uri-duplicate", line, "%s is in line %d too", uri, before)
		} else if uri != "" {
			uris[uri] = line
		}
		if uri != "" && uri == m.Hint {
			r.add("hint-listed", m.hintLine, "%s is in line %d", uri, line)
		}
	}
	toEnd := m.Duration() // from the end of a segment to the end of the last complete one
	var date time.Time    // when the segment begins, by the one before
	for i := range all {
		s := &all[i]
		open := s.URI == ""
		line := s.Line
		if open {
			line = s.Parts[0].Line
		}
		toEnd -= s.Duration
		once(s.URI, s.Line)
		if s.Map == "" && m.Skipped == 0 {
			r.add("map-missing", line, "segment %d", s.MSN)
		}
		if s.Break && dated && s.Date.IsZero() {
			r.add("date-discontinuity", line, "segment %d", s.MSN)
		}
		if !s.Date.IsZero() && !date.IsZero() {
			switch off := s.Date.Sub(date); {
			case off <= -time.Second, i > 0 && !s.Date.After(all[i-1].Date):
				r.add("date-overlap", line, "segment %d begins %v before the end of the one before", s.MSN, -off)
			case off.Abs() >= 100*time.Millisecond && !s.Break:
				r.add("date-drift", line, "segment %d is off by %v", s.MSN, off)
			}
		}
		if !s.Date.IsZero() {
			date = s.Date
		}
		if !date.IsZero() {
			date = date.Add(s.Duration)
		}
		if len(s.Parts) == 0 {
			continue
		}
		if !open && toEnd > 3*m.Target {
			r.add("parts-old", s.Parts[0].Line, "segment %d ends %v before the end", s.MSN, toEnd)
		}
		// The first parts of the oldest segment that lists any may have been removed.
		trimmed := i == 0 || len(all[i-1].Parts) == 0
		switch off := s.partsDuration() - s.Duration; {
		case open:
		case off > partsTolerance(len(s.Parts)):
			r.add("parts-excess", line, "parts of %v, segment of %v", s.partsDuration(), s.Duration)
		case !s.hasAllParts() && !trimmed:
			r.add("parts-incomplete", line, "parts of %v, segment of %v", s.partsDuration(), s.Duration)
		}
		for k, p := range s.Parts {
			once(p.URI, p.Line)
			independent = independent || p.Independent
			last := k == len(s.Parts)-1
			if p.Duration*100 < 85*m.PartTarget && !last && !p.Independent && !p.Gap && !s.Parts[k+1].Gap {
				r.add("part-short", p.Line, "%v, PART-TARGET %v", p.Duration, m.PartTarget)
			}
		}
		if m.Independent && !s.Parts[0].Independent && !trimmed {
			r.add("independent-none", s.Parts[0].Line, "first part of segment %d", s.MSN)
		}
	}
	if parts && !independent {
		r.add("independent-none", 0, "no part is INDEPENDENT")
	}
}
