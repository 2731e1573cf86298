// Package hlscheck checks live HLS against draft-pantos-hls-rfc8216bis, including the rules for low
// latency, and follows a stream as a player does.
//
// A [Checker] checks the playlists of one stream, compares each with the one before, and applies
// delta updates. A [Client] loads a stream over HTTP, passes each playlist to a Checker, and
// compares the bytes that the server sends:
//
//	c := hlscheck.Client{URL: server.URL + "/live/test/index.m3u8", Hints: true, Delta: true}
//	stats, err := c.Run(ctx) // until the stream or ctx ends
//	if err != nil || len(stats.Problems) > 0 {
//		t.Fatalf("%v\n%v", err, stats)
//	}
//
// The package shares no code with the packages that write playlists. It accepts only the tags and
// attributes that Millrace writes.
//
// A third of the code is the Client.
package hlscheck

import (
	"fmt"
	"slices"
)

// A Problem is a violation of a rule.
type Problem struct {
	Rule    string // a key of Rules
	Section string // section of draft-pantos-hls-rfc8216bis
	Should  bool   // the rule is only a recommendation
	Line    int    // line in the playlist, from 1; 0 if the problem has no single line
	Text    string
}

// String returns the problem as one line.
func (p Problem) String() string {
	s := p.Rule + " (" + p.Section + ")"
	if p.Should {
		s += " should"
	}
	if p.Line > 0 {
		s += fmt.Sprintf(", line %d", p.Line)
	}
	return s + ": " + p.Text
}

// Must returns the problems that violate a requirement. It omits the problems that violate only a
// recommendation.
func Must(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Should })
}

// Without returns the problems except violations of the named rules.
func Without(problems []Problem, rules ...string) []Problem {
	return slices.DeleteFunc(slices.Clone(problems),
		func(p Problem) bool { return slices.Contains(rules, p.Rule) })
}

// A Rule is a requirement or recommendation that a Checker or a Client checks.
type Rule struct {
	Section string // section of draft-pantos-hls-rfc8216bis
	Should  bool
	Text    string
}

// Rules has all rules by name.
var Rules = map[string]Rule{
	// Rules for the text of a playlist.
	"extm3u":        {"4.4.1.1", false, "the first line is #EXTM3U"},
	"tag-unknown":   {"4.4", false, "a tag is one that Millrace writes in this kind of playlist"},
	"tag-duplicate": {"4.4", false, "a tag for the whole playlist stands there once"},
	"tag-value":     {"4.2", false, "a tag has a value of its form, and the attributes that it must have"},

	// Rules for the head of a media playlist.
	"version-low":      {"8", false, "EXT-X-VERSION is at least 9, as EXT-X-SKIP needs"},
	"target-missing":   {"4.4.3.1", false, "EXT-X-TARGETDURATION is there, and at least 1"},
	"part-inf-missing": {"4.4.3.7", false, "a playlist with parts has EXT-X-PART-INF"},
	"skip-until-short": {"4.4.3.8", false, "CAN-SKIP-UNTIL is at least six target durations"},
	"part-hold-back-short": {"4.4.3.8", false,
		"PART-HOLD-BACK is at least three times PART-TARGET"},
	"block-reload-missing": {"B.1", false, "a playlist with parts can be reloaded by waiting"},

	// Rules for segments and parts.
	"extinf-missing":     {"4.4.4.1", false, "each segment has EXTINF, and each EXTINF a segment"},
	"segment-long":       {"4.4.3.1", false, "a segment's rounded duration is at most the target duration"},
	"map-missing":        {"3.1.2", false, "EXT-X-MAP stands before segments and parts of fMP4"},
	"date-missing":       {"B.1", false, "a playlist with parts has EXT-X-PROGRAM-DATE-TIME"},
	"date-discontinuity": {"6.2.1", true, "a segment after a discontinuity has a date if others have"},
	"date-overlap":       {"6.2.1", false, "dates of segments do not overlap by a second or more, and go forward"},
	"date-drift":         {"6.2.1", true, "dates and durations differ by less than 100 ms"},
	"uri-duplicate":      {"6.2.1", false, "a URI names one segment or part, and the hint none of them"},
	"part-long":          {"4.4.4.9", false, "a part is at most PART-TARGET long"},
	"part-short":         {"4.4.4.9", false, "a part has 85% of PART-TARGET, unless it is independent or the last"},
	"part-orphan":        {"3.2", false, "parts of a playlist that has ended have a segment"},
	"parts-duration":     {"3.2", false, "parts are as long as their segment"},
	"parts-old":          {"6.2.2", true, "parts are listed for the last three target durations"},
	"gap-parts":          {"4.4.4.7", false, "a gap has no parts that can be had"},
	"independent-none":   {"4.4.4.9", true, "some part says INDEPENDENT"},

	// Rules for hints and delta updates.
	"hint-missing": {"B.1", false, "a live playlist with parts hints the next one"},
	"hint-ended":   {"4.4.5.3", false, "a playlist that has ended has no hint"},
	"skip-many":    {"6.2.5.1", false, "segments within CAN-SKIP-UNTIL from the end are not skipped, and none if the stream has ended"},
	"skip-few":     {"6.2.5.1", true, "all segments beyond CAN-SKIP-UNTIL are skipped"},
	"skip-unknown": {"6.3.7", false, "the playlist before has the segments that are skipped"},

	// Rules for changes from playlist to playlist.
	"head-changed": {"6.2.1", false,
		"version, target durations and server control do not change"},
	"sequence-back": {"6.2.2", false,
		"EXT-X-MEDIA-SEQUENCE and EXT-X-DISCONTINUITY-SEQUENCE do not decrease"},
	"discontinuity-sequence": {"6.2.2", false,
		"a segment's discontinuity sequence number does not change"},
	"segment-changed": {"6.2.1", false,
		"a segment keeps URI, duration, date, map and discontinuity"},
	"segment-withdrawn": {"6.2.1", false, "segments are not removed at the end"},
	"window-short": {"6.2.2", false,
		"three target durations are left when a segment is removed"},
	"part-changed": {"6.2.1", false,
		"a part stays as it is, and a complete segment gets no further ones"},
	"part-withdrawn": {"6.2.1", false,
		"parts are not removed at the end, unless another server continues"},
	"part-removed-early": {"6.2.2", false,
		"parts stay for three target durations, unless another server continues"},
	"server-change": {"6.2.1", false,
		"what another server adds begins with a discontinuity"},
	"hint-broken": {"4.4.5.3", false, "what was hinted is the next part"},
	"hint-cut": {"6.2.6", true,
		"what was hinted is the next part even if a segment ends before it"},
	"ended-changed": {"4.4.3.4", false, "EXT-X-ENDLIST stays, and adds no more segments"},

	// Rules for a multivariant playlist.
	"variant-none": {"4.4.6.2", false, "EXT-X-STREAM-INF and a URI make a variant"},
	"bandwidth":    {"4.4.6.2", false, "BANDWIDTH is above 0 and not below AVERAGE-BANDWIDTH"},
	"codecs":       {"4.4.6.2", false, "CODECS lists formats of RFC 6381"},
	"resolution":   {"4.4.6.2", true, "a variant with video has RESOLUTION"},
	"frame-rate":   {"4.4.6.2", true, "a variant with video has FRAME-RATE, with three decimals at most"},

	// Rules that a Client checks.
	"gzip":             {"6.2.1", true, "playlists are sent with gzip to clients that take it"},
	"reload-early":     {"6.2.5.2", false, "a reload waits for what it asks for"},
	"part-late":        {"6.2.1", false, "a part comes within PART-TARGET (checked: twice)"},
	"skip-ignored":     {"6.2.5.1", false, "a delta update is sent to those who ask for it"},
	"object-missing":   {"6.2.1", false, "what is listed can be fetched"},
	"object-changed":   {"6.2.1", false, "a URI has the same bytes each time"},
	"parts-differ":     {"3.2", false, "the parts of a segment have the segment's bytes"},
	"hint-unavailable": {"6.2.6", false, "a hinted part is sent when it is there"},
	"init-boxes":       {"3.1.2", false, "an initialization section is ftyp and moov, with mvex"},
	"media-boxes":      {"3.1.2", false, "segments and parts are moof and mdat, with tfdt"},
	"decode-time":      {"3", false, "decode times go forward between discontinuities"},
	"bandwidth-low":    {"4.4.6.2", true, "BANDWIDTH is at least a segment's bit rate"},
}

type report struct {
	problems []Problem
}

// add adds a violation of the named rule to the report. It panics if Rules does not have the rule.
func (r *report) add(rule string, line int, format string, args ...any) {
	d, ok := Rules[rule]
	if !ok {
		panic("hlscheck: no rule " + rule)
	}
	r.problems = append(r.problems, Problem{rule, d.Section, d.Should, line,
		fmt.Sprintf(format, args...)})
}
