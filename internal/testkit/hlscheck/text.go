package hlscheck

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// scope says in which playlists a tag stands.
type scope uint8

const (
	inBoth scope = iota
	inMedia
	inMultivariant
)

// A tag is a row of section 4.4.
type tag struct {
	section string
	in      scope
	once    bool
	// value is the form of what follows the colon: "" (no colon), "int", "any" (read by the parser), or the attributes:
	// name, type and ! if it is required. Types are q (quoted string), i (decimal integer), f and s (decimal and signed
	// decimal number), r (resolution), x (hexadecimal), or the values of an enumeration with | between them.
	value string
}

const (
	keyAttributes = "METHOD=NONE|AES-128|SAMPLE-AES|SAMPLE-AES-CTR|AES-256-GCM! URI=q IV=x KEYFORMAT=q KEYFORMATVERSIONS=q"
	infAttributes = "BANDWIDTH=i! AVERAGE-BANDWIDTH=i SCORE=f CODECS=q SUPPLEMENTAL-CODECS=q RESOLUTION=r HDCP-LEVEL=TYPE-0|TYPE-1|NONE " +
		"ALLOWED-CPC=q VIDEO-RANGE=SDR|HLG|PQ REQ-VIDEO-LAYOUT=q STABLE-VARIANT-ID=q VIDEO=q PATHWAY-ID=q"
)

var tags = map[string]tag{
	"EXTM3U":                       {"4.4.1.1", inBoth, true, ""},
	"EXT-X-VERSION":                {"4.4.1.2", inBoth, true, "int"},
	"EXT-X-INDEPENDENT-SEGMENTS":   {"4.4.2.1", inBoth, true, ""},
	"EXT-X-START":                  {"4.4.2.2", inBoth, true, "TIME-OFFSET=s! PRECISE=YES|NO"},
	"EXT-X-DEFINE":                 {"4.4.2.3", inBoth, false, "NAME=q VALUE=q IMPORT=q QUERYPARAM=q"},
	"EXT-X-TARGETDURATION":         {"4.4.3.1", inMedia, true, "int"},
	"EXT-X-MEDIA-SEQUENCE":         {"4.4.3.2", inMedia, true, "int"},
	"EXT-X-DISCONTINUITY-SEQUENCE": {"4.4.3.3", inMedia, true, "int"},
	"EXT-X-ENDLIST":                {"4.4.3.4", inMedia, true, ""},
	"EXT-X-PLAYLIST-TYPE":          {"4.4.3.5", inMedia, true, "any"},
	"EXT-X-I-FRAMES-ONLY":          {"4.4.3.6", inMedia, true, ""},
	"EXT-X-PART-INF":               {"4.4.3.7", inMedia, true, "PART-TARGET=f!"},
	"EXT-X-SERVER-CONTROL": {"4.4.3.8", inMedia, true,
		"CAN-SKIP-UNTIL=f CAN-SKIP-DATERANGES=YES HOLD-BACK=f PART-HOLD-BACK=f CAN-BLOCK-RELOAD=YES"},
	"EXTINF":                  {"4.4.4.1", inMedia, false, "any"},
	"EXT-X-BYTERANGE":         {"4.4.4.2", inMedia, false, "any"},
	"EXT-X-DISCONTINUITY":     {"4.4.4.3", inMedia, false, ""},
	"EXT-X-KEY":               {"4.4.4.4", inMedia, false, keyAttributes},
	"EXT-X-MAP":               {"4.4.4.5", inMedia, false, "URI=q! BYTERANGE=q"},
	"EXT-X-PROGRAM-DATE-TIME": {"4.4.4.6", inMedia, false, "any"},
	"EXT-X-GAP":               {"4.4.4.7", inMedia, false, ""},
	"EXT-X-BITRATE":           {"4.4.4.8", inMedia, false, "int"},
	"EXT-X-PART":              {"4.4.4.9", inMedia, false, "URI=q! DURATION=f! INDEPENDENT=YES BYTERANGE=q GAP=YES"},
	"EXT-X-DATERANGE":         {"4.4.5.1", inMedia, false, "any"},
	"EXT-X-SKIP":              {"4.4.5.2", inMedia, true, "SKIPPED-SEGMENTS=i! RECENTLY-REMOVED-DATERANGES=q"},
	"EXT-X-PRELOAD-HINT":      {"4.4.5.3", inMedia, false, "TYPE=PART|MAP! URI=q! BYTERANGE-START=i BYTERANGE-LENGTH=i"},
	"EXT-X-RENDITION-REPORT":  {"4.4.5.4", inMedia, false, "URI=q LAST-MSN=i LAST-PART=i"},
	"EXT-X-MEDIA": {"4.4.6.1", inMultivariant, false, "TYPE=AUDIO|VIDEO|SUBTITLES|CLOSED-CAPTIONS! URI=q GROUP-ID=q! LANGUAGE=q " +
		"ASSOC-LANGUAGE=q NAME=q! STABLE-RENDITION-ID=q DEFAULT=YES|NO AUTOSELECT=YES|NO FORCED=YES|NO INSTREAM-ID=q " +
		"BIT-DEPTH=i SAMPLE-RATE=i CHARACTERISTICS=q CHANNELS=q"},
	"EXT-X-STREAM-INF":         {"4.4.6.2", inMultivariant, false, infAttributes + " FRAME-RATE=f AUDIO=q SUBTITLES=q CLOSED-CAPTIONS=q|NONE"},
	"EXT-X-I-FRAME-STREAM-INF": {"4.4.6.3", inMultivariant, false, infAttributes + " URI=q!"},
	"EXT-X-SESSION-DATA":       {"4.4.6.4", inMultivariant, false, "DATA-ID=q! VALUE=q URI=q FORMAT=JSON|RAW LANGUAGE=q"},
	"EXT-X-SESSION-KEY":        {"4.4.6.5", inMultivariant, false, keyAttributes},
	"EXT-X-CONTENT-STEERING":   {"4.4.6.6", inMultivariant, true, "SERVER-URI=q! PATHWAY-ID=q"},
}

// A line is a tag or a URI of a playlist.
type line struct {
	n     int
	tag   string // without #; empty for a URI
	value string // what follows the colon, or the URI
	attrs attributes
}

// attributes are those of a tag whose values have their types, quoted strings without the quotes.
type attributes map[string]string

func (a attributes) has(name string) bool              { _, ok := a[name]; return ok }
func (a attributes) seconds(name string) time.Duration { d, _ := parseSeconds(a[name]); return d }
func (a attributes) integer(name string) uint64        { n, _ := parseInteger(a[name]); return n }

// parseLines splits a playlist into tags and URIs, and checks the form of each. Comments and empty lines are left out, and
// so are tags whose value cannot be used.
func parseLines(text string, in scope, r *report) []line {
	if !utf8.ValidString(text) {
		r.add("text", 0, "not UTF-8")
	}
	if !strings.HasPrefix(text, "#EXTM3U\n") && !strings.HasPrefix(text, "#EXTM3U\r\n") {
		r.add("extm3u", 1, "%.20q", text)
	}
	var lines []line
	seen := map[string]bool{}
	for i, s := range strings.Split(text, "\n") {
		n := i + 1
		s = strings.TrimSuffix(s, "\r")
		if t := strings.TrimFunc(s, func(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' }); t != s {
			r.add("text", n, "white space or a byte order mark around %q", t)
			s = t
		}
		if strings.ContainsFunc(s, unicode.IsControl) {
			r.add("text", n, "control characters in %q", s)
		}
		if s == "" || s[0] == '#' && !strings.HasPrefix(s, "#EXT") {
			continue
		}
		if s[0] != '#' {
			lines = append(lines, line{n: n, value: s})
			continue
		}
		name, value, colon := strings.Cut(s[1:], ":")
		t, known := tags[name]
		if !known {
			r.add("tag-unknown", n, "%s", name)
			continue
		}
		if t.once && seen[name] {
			r.addTag("tag-duplicate", name, n, "again")
			continue
		}
		seen[name] = true
		if t.in != inBoth && t.in != in {
			r.add("tag-misplaced", n, "%s in the other kind of playlist", name)
			continue
		}
		l := line{n: n, tag: name, value: value}
		switch _, isInt := parseInteger(value); {
		case colon != (t.value != ""), t.value == "int" && !isInt:
			r.addTag("tag-value", name, n, "%q", s)
			continue
		case t.value != "" && t.value != "int" && t.value != "any":
			if l.attrs = parseAttributes(l, t, r); l.attrs == nil {
				continue
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// parseAttributes returns the attributes of a tag that can be used, or nil if there is a required one that cannot.
func parseAttributes(l line, t tag, r *report) attributes {
	types := map[string]string{}
	var required []string
	for _, f := range strings.Fields(t.value) {
		name, typ, _ := strings.Cut(f, "=")
		if strings.HasSuffix(typ, "!") {
			required = append(required, name)
		}
		types[name] = strings.TrimSuffix(typ, "!")
	}
	attrs := attributes{}
	for rest := l.value; ; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok || name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
			r.add("attribute-syntax", l.n, "%q in %s", rest, l.tag)
			break
		}
		value, more := after, false
		if quoted := strings.HasPrefix(after, `"`); quoted {
			end := strings.IndexByte(after[1:], '"')
			if end < 0 || len(after) > end+2 && after[end+2] != ',' {
				r.add("attribute-syntax", l.n, "quotes of %s in %s", name, l.tag)
				break
			}
			value, rest, more = after[:end+2], strings.TrimPrefix(after[end+2:], ","), len(after) > end+2
		} else {
			value, rest, more = strings.Cut(after, ",")
		}
		typ, known := types[name]
		switch clean, ok := attributeValue(value, typ); {
		case !known:
			r.addTag("attribute-unknown", l.tag, l.n, "%s", name)
		case attrs.has(name):
			r.add("attribute-duplicate", l.n, "%s in %s", name, l.tag)
		case !ok:
			r.addTag("attribute-type", l.tag, l.n, "%s=%s", name, value)
		default:
			attrs[name] = clean
		}
		if !more {
			break
		}
	}
	complete := true
	for _, name := range required {
		if !attrs.has(name) {
			// A value of a wrong type has been reported as such.
			if !strings.Contains(","+l.value, ","+name+"=") {
				r.addTag("attribute-missing", l.tag, l.n, "%s", name)
			}
			complete = false
		}
	}
	if !complete {
		return nil
	}
	return attrs
}

// attributeValue returns the value, without its quotes, if it has the type.
func attributeValue(value, typ string) (string, bool) {
	if quoted := strings.HasPrefix(value, `"`); quoted {
		return strings.Trim(value, `"`), typ == "q" || strings.HasPrefix(typ, "q|")
	}
	switch typ {
	case "q":
		return "", false
	case "i":
		_, ok := parseInteger(value)
		return value, ok
	case "f":
		_, ok := parseSeconds(value)
		return value, ok
	case "s":
		_, ok := parseSeconds(strings.TrimPrefix(value, "-"))
		return value, ok
	case "x":
		digits, ok := strings.CutPrefix(strings.ToLower(value), "0x")
		return value, ok && digits != "" && strings.Trim(digits, "0123456789abcdef") == ""
	case "r":
		w, h, _ := strings.Cut(value, "x")
		_, okW := parseInteger(w)
		_, okH := parseInteger(h)
		return value, okW && okH
	}
	for _, v := range strings.Split(typ, "|") {
		if v == value {
			return value, true
		}
	}
	return "", false
}

// parseInteger reads a decimal-integer.
func parseInteger(s string) (uint64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// parseSeconds reads a decimal-floating-point of seconds, exact to the nanosecond.
func parseSeconds(s string) (time.Duration, bool) {
	whole, frac, point := strings.Cut(s, ".")
	n, ok := parseInteger(whole)
	if !ok || n > math.MaxInt32 || point && (frac == "" || strings.Trim(frac, "0123456789") != "") {
		return 0, false
	}
	f, _ := strconv.ParseUint((frac + "000000000")[:9], 10, 64)
	return time.Duration(n)*time.Second + time.Duration(f), true
}

// parseDate reads a date of ISO 8601 as EXT-X-PROGRAM-DATE-TIME has it. precise says that it has milliseconds and a zone.
func parseDate(s string) (t time.Time, precise bool, err error) {
	for _, zone := range []string{"Z07:00", "Z0700", ""} {
		if t, err = time.Parse("2006-01-02T15:04:05"+zone, s); err == nil {
			_, frac, _ := strings.Cut(s, ".")
			return t, zone != "" && len(frac) > 3 && strings.Trim(frac[:3], "0123456789") == "", nil
		}
	}
	return time.Time{}, false, fmt.Errorf("no date: %q", s)
}
