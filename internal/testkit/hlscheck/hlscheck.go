// Package hlscheck checks live HLS against draft-pantos-hls-rfc8216bis, with the rules for low latency, and follows a
// stream as a player does.
//
// A [Checker] reads the playlists of one stream, one after the other, and names the rule and the line of each mistake. It
// remembers the last playlist, so that it sees what may not change, and it applies delta updates. A [Client] loads a
// stream over HTTP, gives each playlist to a Checker, and compares the bytes that the server sends:
//
//	c := hlscheck.Client{URL: server.URL + "/live/test/index.m3u8", Hints: true, Delta: true}
//	stats, err := c.Run(ctx) // until the stream or ctx ends
//	if err != nil || len(stats.Problems) > 0 {
//		t.Fatalf("%v\n%v", err, stats)
//	}
//
// The package shares no code with the playlists' makers. It knows fragmented MP4 only, and not: byte ranges, encryption,
// several renditions, date ranges, variables.
package hlscheck

import (
	"fmt"
	"slices"
)

// A Problem is a rule that a server did not keep.
type Problem struct {
	Rule    string // a key of Rules
	Section string // of draft-pantos-hls-rfc8216bis
	Should  bool   // the rule is a recommendation
	Line    int    // of the playlist, from 1; 0 if no line is at fault
	Text    string
}

// String returns the problem in a line.
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

// Must returns the problems that are no recommendations.
func Must(ps []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Should })
}

// Without returns the problems of all rules but these.
func Without(ps []Problem, rules ...string) []Problem {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return slices.Contains(rules, p.Rule) })
}

// A Rule is what a Checker or a Client looks for.
type Rule struct {
	Section string // of draft-pantos-hls-rfc8216bis; empty if it is the section of the tag
	Should  bool
	Text    string
}

// Rules are all rules by name.
var Rules = map[string]Rule{
	// The text of a playlist.
	"text":                {"4.1", false, "a playlist is UTF-8 without a byte order mark, control characters and stray white space"},
	"extm3u":              {"4.4.1.1", false, "the first line is #EXTM3U"},
	"tag-unknown":         {"4.4", true, "a tag is one of the draft"},
	"tag-duplicate":       {"", false, "a tag for the whole playlist stands there once"},
	"tag-value":           {"", false, "a tag has a value of its form"},
	"tag-misplaced":       {"4.4.6", false, "tags of multivariant and of media playlists do not mix"},
	"attribute-syntax":    {"4.2", false, "attributes are NAME=value, separated by commas"},
	"attribute-duplicate": {"4.2", false, "an attribute stands there once"},
	"attribute-unknown":   {"", true, "an attribute is one of its tag"},
	"attribute-type":      {"", false, "an attribute's value has the attribute's type"},
	"attribute-missing":   {"", false, "required attributes are there"},
	"version-low":         {"8", false, "EXT-X-VERSION is as high as the tags need"},
	"version-high":        {"6.2.1", true, "EXT-X-VERSION is no higher than the tags need"},

	// A media playlist's head.
	"target-missing":         {"4.4.3.1", false, "EXT-X-TARGETDURATION is there, and at least 1"},
	"sequence-late":          {"", false, "the sequence tags stand before the first segment"},
	"part-inf-missing":       {"4.4.3.7", false, "a playlist with parts has EXT-X-PART-INF"},
	"skip-until-short":       {"4.4.3.8", false, "CAN-SKIP-UNTIL is at least six target durations"},
	"skip-dateranges-alone":  {"4.4.3.8", false, "CAN-SKIP-DATERANGES needs CAN-SKIP-UNTIL"},
	"hold-back-short":        {"4.4.3.8", false, "HOLD-BACK is at least three target durations"},
	"part-hold-back-missing": {"4.4.3.8", false, "a playlist with EXT-X-PART-INF has PART-HOLD-BACK"},
	"part-hold-back-short":   {"4.4.3.8", false, "PART-HOLD-BACK is at least twice PART-TARGET"},
	"part-hold-back-low":     {"4.4.3.8", true, "PART-HOLD-BACK is at least three times PART-TARGET"},
	"block-reload-missing":   {"B.1", false, "a playlist with parts can be reloaded by waiting"},
	"live-type":              {"6.2.2", false, "a playlist that loses segments has no EXT-X-PLAYLIST-TYPE"},

	// Segments and parts.
	"extinf-missing":     {"4.4.4.1", false, "each segment has EXTINF, and each EXTINF a segment"},
	"segment-long":       {"4.4.3.1", false, "a segment's rounded duration is at most the target duration"},
	"map-missing":        {"3.1.2", false, "EXT-X-MAP stands before segments and parts of fMP4"},
	"date-missing":       {"B.1", false, "a playlist with parts has EXT-X-PROGRAM-DATE-TIME"},
	"date-discontinuity": {"6.2.1", true, "a segment after a discontinuity has a date if others have"},
	"date-precision":     {"4.4.4.6", true, "a date has milliseconds and a time zone"},
	"date-overlap":       {"6.2.1", false, "dates of segments do not overlap by a second or more, and go forward"},
	"date-drift":         {"6.2.1", true, "dates and durations differ by less than 100 ms"},
	"uri-duplicate":      {"6.2.1", true, "a URI names one segment or part"},
	"part-long":          {"4.4.4.9", false, "a part is at most PART-TARGET long"},
	"part-short":         {"4.4.4.9", false, "a part has 85% of PART-TARGET, unless it is independent, a gap, before a gap, or the last"},
	"part-tag-order":     {"4.4.4.9", false, "discontinuity, key, map and date stand before a segment's first part"},
	"part-orphan":        {"3.2", false, "parts of a playlist that has ended have a segment"},
	"parts-incomplete":   {"3.2", false, "parts that begin a segment are as long as it"},
	"parts-excess":       {"3.2", false, "parts are no longer than their segment"},
	"parts-old":          {"6.2.2", true, "parts are listed for the last three target durations"},
	"independent-none":   {"4.4.4.9", true, "some part says INDEPENDENT, and with EXT-X-INDEPENDENT-SEGMENTS the first of each segment"},

	// Hints and delta updates.
	"hint-missing":   {"B.1", false, "a live playlist with parts hints the next one"},
	"hint-ended":     {"4.4.5.3", false, "a playlist that has ended has no hint"},
	"hint-duplicate": {"6.2.6", true, "there is one hint of a type"},
	"hint-listed":    {"4.4.5.3", false, "what is hinted is not listed yet"},
	"skip-support":   {"6.2.5.1", false, "EXT-X-SKIP needs CAN-SKIP-UNTIL and a playlist that has not ended"},
	"skip-late":      {"4.4.5.2", false, "EXT-X-SKIP stands where the segments stood: before the others"},
	"skip-many":      {"6.2.5.1", false, "segments within CAN-SKIP-UNTIL from the end are not skipped"},
	"skip-few":       {"6.2.5.1", true, "all segments beyond CAN-SKIP-UNTIL are skipped"},
	"skip-unknown":   {"6.3.7", false, "the playlist before has the segments that are skipped"},

	// From playlist to playlist.
	"target-changed":         {"6.2.1", false, "EXT-X-TARGETDURATION does not change"},
	"part-target-changed":    {"6.2.1", false, "PART-TARGET does not change"},
	"head-changed":           {"6.2.1", false, "version, type and server control do not change"},
	"sequence-back":          {"6.2.2", false, "EXT-X-MEDIA-SEQUENCE does not decrease"},
	"discontinuity-back":     {"6.2.2", false, "EXT-X-DISCONTINUITY-SEQUENCE does not decrease"},
	"discontinuity-sequence": {"6.2.2", false, "a segment's discontinuity sequence number does not change"},
	"discontinuity-untagged": {"6.2.2", false, "segments are removed after a discontinuity only with EXT-X-DISCONTINUITY-SEQUENCE"},
	"segment-changed":        {"6.2.1", false, "a segment keeps URI, duration, date, map and discontinuity"},
	"segment-withdrawn":      {"6.2.1", false, "segments are not removed at the end"},
	"window-short":           {"6.2.2", false, "three target durations are left when a segment is removed"},
	"part-changed":           {"6.2.1", false, "a part stays as it is, and a complete segment gets no further ones"},
	"part-withdrawn":         {"6.2.1", false, "parts are not removed at the end"},
	"part-removed-early":     {"6.2.2", false, "parts stay for three target durations"},
	"part-removed-order":     {"6.2.2", false, "parts are removed in their order"},
	"hint-broken":            {"4.4.5.3", false, "what was hinted is the next part"},
	"hint-cut":               {"6.2.6", true, "what was hinted is the next part even if a segment ends before it"},
	"ended-changed":          {"4.4.3.4", false, "EXT-X-ENDLIST stays, and adds no more segments"},
	"segment-late":           {"6.2.1", false, "a segment comes within 1.5 target durations"},
	"part-late":              {"6.2.1", false, "a part comes within PART-TARGET (checked: twice)"},

	// A multivariant playlist.
	"variant-none":      {"4.4.6.2", false, "there is a variant"},
	"variant-uri":       {"4.4.6.2", false, "EXT-X-STREAM-INF and a URI make a variant"},
	"variant-duplicate": {"4.4.6.2", true, "variants have URIs of their own"},
	"bandwidth":         {"4.4.6.2", false, "BANDWIDTH is above 0 and not below AVERAGE-BANDWIDTH"},
	"codecs":            {"4.4.6.2", true, "CODECS is there"},
	"codecs-syntax":     {"4.4.6.2", false, "CODECS lists formats of RFC 6381"},
	"resolution":        {"4.4.6.2", true, "a variant with video has RESOLUTION"},
	"frame-rate":        {"4.4.6.2", true, "a variant with video has FRAME-RATE, with three decimals at most"},
	"group-missing":     {"4.4.6.2", false, "a group that a variant names is there"},
	"independent-twice": {"4.4.2.1", true, "EXT-X-INDEPENDENT-SEGMENTS is in the multivariant playlist or in the media playlist"},

	// What a Client sees.
	"playlist-name":    {"4", false, "a playlist's path ends in .m3u8 or its Content-Type is one of HLS"},
	"gzip":             {"6.2.1", true, "playlists are sent with gzip to clients that take it"},
	"reload-early":     {"6.2.5.2", false, "a reload waits for what it asks for"},
	"reload-refused":   {"6.2.5.2", false, "a reload is answered, with 503 after three target durations"},
	"skip-ignored":     {"6.2.5.1", false, "a delta update is sent to those who ask for it"},
	"part-directive":   {"6.2.5.2", false, "_HLS_part without _HLS_msn is a bad request"},
	"reload-ahead":     {"6.2.5.2", true, "a reload far in the future is a bad request"},
	"not-found":        {"6.2.6", true, "what is neither listed nor hinted is not found"},
	"object-missing":   {"6.2.1", false, "what is listed can be fetched"},
	"object-changed":   {"6.2.1", false, "a URI has the same bytes each time"},
	"parts-differ":     {"3.2", false, "the parts of a segment have the segment's bytes"},
	"hint-unavailable": {"6.2.6", false, "a hinted part is sent when it is there"},
	"init-boxes":       {"3.1.2", false, "an initialization section is ftyp and moov, with mvex"},
	"media-boxes":      {"3.1.2", false, "segments and parts are moof and mdat, with tfdt"},
	"decode-time":      {"3", false, "decode times go forward between discontinuities"},
	"bandwidth-low":    {"4.4.6.2", true, "BANDWIDTH is at least a segment's bit rate"},
}

// A report collects problems.
type report struct {
	problems []Problem
}

// add notes a problem.
func (r *report) add(rule string, line int, format string, args ...any) {
	d, ok := Rules[rule]
	if !ok {
		panic("hlscheck: no rule " + rule)
	}
	r.problems = append(r.problems, Problem{rule, d.Section, d.Should, line, fmt.Sprintf(format, args...)})
}

// addTag notes a problem of a rule that is of several tags.
func (r *report) addTag(rule, tag string, line int, format string, args ...any) {
	r.add(rule, line, tag+": "+format, args...)
	if p := &r.problems[len(r.problems)-1]; p.Section == "" {
		p.Section = tags[tag].section
	}
}
