package hlscheck

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The tags that Millrace writes in media playlists and multivariant playlists. The string for a tag
// is a list of words:
//
//   - "once" means that the tag may occur only once in a playlist.
//   - A word in capitals is an attribute of the tag. If it ends with "!", the tag must have that
//     attribute.
//   - Any other word is the type of the tag's value: integer, extinf or date.
var (
	mediaTags = map[string]string{
		"EXTM3U":                       "once",
		"EXT-X-VERSION":                "once integer",
		"EXT-X-TARGETDURATION":         "once integer",
		"EXT-X-MEDIA-SEQUENCE":         "once integer",
		"EXT-X-DISCONTINUITY-SEQUENCE": "once integer",
		"EXT-X-ENDLIST":                "once",
		"EXT-X-PART-INF":               "once PART-TARGET!",
		"EXT-X-SERVER-CONTROL":         "once CAN-SKIP-UNTIL PART-HOLD-BACK CAN-BLOCK-RELOAD",
		"EXT-X-SKIP":                   "once SKIPPED-SEGMENTS!",
		"EXT-X-PRELOAD-HINT":           "once TYPE! URI!",
		"EXT-X-DISCONTINUITY":          "",
		"EXT-X-GAP":                    "",
		"EXT-X-MAP":                    "URI!",
		"EXT-X-PROGRAM-DATE-TIME":      "date",
		"EXT-X-PART":                   "URI! DURATION! INDEPENDENT",
		"EXTINF":                       "extinf",
	}
	multivariantTags = map[string]string{
		"EXTM3U":           "once",
		"EXT-X-VERSION":    "once integer",
		"EXT-X-STREAM-INF": "BANDWIDTH! AVERAGE-BANDWIDTH CODECS RESOLUTION FRAME-RATE",
	}
)

// forms maps the names of attributes to regular expressions for their values. The keys "integer",
// "extinf" and "date" are for the values of tags.
var forms = func() map[string]*regexp.Regexp {
	const (
		integer = `\d{1,16}`
		seconds = `\d{1,9}(\.\d{1,9})?`
		quoted  = `"[^"]+"`
	)
	m := map[string]*regexp.Regexp{}
	for name, form := range map[string]string{
		"integer": integer, "extinf": seconds + `,.*`,
		"date":        `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`,
		"PART-TARGET": seconds, "CAN-SKIP-UNTIL": seconds, "PART-HOLD-BACK": seconds,
		"DURATION": seconds, "FRAME-RATE": seconds,
		"SKIPPED-SEGMENTS": integer, "BANDWIDTH": integer, "AVERAGE-BANDWIDTH": integer,
		"RESOLUTION": `\d{1,5}x\d{1,5}`,
		"URI":        quoted, "CODECS": quoted, "CAN-BLOCK-RELOAD": "YES", "INDEPENDENT": "YES",
		"TYPE": "PART",
	} {
		m[name] = regexp.MustCompile("^(" + form + ")$")
	}
	return m
}()

var attribute = regexp.MustCompile(`^([A-Z-]+)=("[^"]*"|[^",]*)(,|$)`)

type line struct {
	n     int
	tag   string            // the tag without #; empty if the line is a URI
	value string            // the text after the tag's colon, or the URI
	attrs map[string]string // the tag's attributes, without quotes
}

func (l *line) has(name string) bool              { return l.attrs[name] != "" }
func (l *line) seconds(name string) time.Duration { return parseSeconds(l.attrs[name]) }
func (l *line) integer(name string) uint64        { return parseInteger(l.attrs[name]) }

// parseSeconds parses a number of seconds, such as "4.5". If s is invalid, it returns 0.
func parseSeconds(s string) time.Duration { d, _ := time.ParseDuration(s + "s"); return d }

// parseInteger parses a decimal number. If s is invalid, it returns 0. A number above 2⁵³ becomes
// 2⁵³.
func parseInteger(s string) uint64 { n, _ := strconv.ParseUint(s, 10, 64); return min(n, 1<<53) }

// parseLines splits a playlist into tags and URIs, and checks their syntax. It ignores comments,
// empty lines, unknown tags, and invalid attributes.
func parseLines(text string, tags map[string]string, r *report) (lines []line) {
	if !strings.HasPrefix(text, "#EXTM3U\n") {
		r.add("extm3u", 1, "%.20q", text)
	}
	seen := map[string]bool{}
	for i, s := range strings.Split(text, "\n") {
		if s == "" || s[0] == '#' && !strings.HasPrefix(s, "#EXT") {
			continue
		}
		l := line{n: i + 1, value: s}
		if s[0] == '#' {
			l.tag, l.value, _ = strings.Cut(s[1:], ":")
			form, known := tags[l.tag]
			form, once := strings.CutPrefix(form, "once")
			switch {
			case !known:
				r.add("tag-unknown", l.n, "%s", s)
				continue
			case once && seen[l.tag]:
				r.add("tag-duplicate", l.n, "%s", s)
				continue
			case !l.parse(strings.Fields(form)):
				r.add("tag-value", l.n, "%s", s)
			}
			seen[l.tag] = true
		}
		lines = append(lines, l)
	}
	return lines
}

// parse parses the value of a tag, and reports whether it is valid. form describes a valid value:
//
//   - If form is empty, the tag has no value.
//   - If form is the type integer, extinf or date, the value has this type.
//   - Otherwise the value is a list of attributes, and form has the names of the attributes. A name
//     that ends with ! is required.
func (l *line) parse(form []string) bool {
	if len(form) == 0 {
		return l.value == ""
	}
	if re := forms[form[0]]; re != nil && strings.ToLower(form[0]) == form[0] {
		return re.MatchString(l.value)
	}
	l.attrs = map[string]string{}
	ok := true
	for rest := l.value; rest != ""; {
		a := attribute.FindStringSubmatch(rest)
		if a == nil || a[0] == rest && a[3] == "," {
			return false
		}
		known := slices.Contains(form, a[1]) || slices.Contains(form, a[1]+"!")
		if rest = rest[len(a[0]):]; !known || l.has(a[1]) || !forms[a[1]].MatchString(a[2]) {
			ok = false
			continue
		}
		l.attrs[a[1]] = strings.Trim(a[2], `"`)
	}
	return ok && !slices.ContainsFunc(form, func(name string) bool {
		name, required := strings.CutSuffix(name, "!")
		return required && !l.has(name)
	})
}
