package record

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
)

const (
	// leastSegment is the minimum duration of a segment that ends at a keyframe.
	leastSegment = 2 * time.Second

	// leastTarget and mostTarget limit the target duration of a file's playlist. Within these
	// limits, the target duration is the duration of the file's first segment. If no keyframe comes
	// in time, a segment ends when it reaches the target duration, and the first segment ends when
	// it reaches mostTarget.
	leastTarget = 10 * time.Second
	mostTarget  = 30 * time.Second

	// timeSlack is the maximum gap between two fragments. A longer gap counts as a loss.
	timeSlack = time.Second

	// dateSlack is the maximum difference between the date of a segment and the time when the
	// segment arrived. Usually, the date is the date of the first segment plus the durations of all
	// segments since then, even if a segment arrives a moment late. If the difference exceeds
	// dateSlack, the date is set to the time of arrival.
	dateSlack = 5 * time.Second
)

// A segment is an entry of a playlist: a range of the media file.
type segment struct {
	offset, size int64
	start, end   time.Duration // in the stream's time
	date         time.Time     // date of the first fragment
	afterGap     bool          // fragments before this segment are missing
	missing      time.Duration // duration of the missing fragments
}

// A segmenter groups fragments into segments. Except for the dates, the same fragments always give
// the same segments, so that finish can rebuild them from the media file.
type segmenter struct {
	target time.Duration // target duration of the playlist; 0 before the first segment has ended
	open   segment       // the current segment; open.size is 0 if there is none

	placed   bool // a fragment was added
	sequence uint32
	line     mp4.Timeline
	zero     time.Time // the wall-clock time at the stream's time 0
}

// add adds the fragment f, which begins at offset in the file. If f begins a new segment, add
// returns the segment that has ended, and true.
//
// date is the time at which f arrived, or the zero time if it is unknown.
func (s *segmenter) add(f mp4.FragmentInfo, date time.Time, offset int64) (done segment, ok bool) {
	gap := s.placed && (f.Sequence != s.sequence+1 || f.Start-s.line.End() > timeSlack)
	last := s.line.End()
	if gap {
		s.line = mp4.Timeline{}
	}
	start, end := s.line.Add(f)
	if s.open.size > 0 && (gap || s.isFull(f.Key, start, end)) {
		done, ok = s.finish()
	}
	if s.open.size == 0 {
		if !date.IsZero() && (!s.placed || date.Sub(s.zero.Add(start)).Abs() > dateSlack) {
			s.zero = date.Add(-start)
		}
		s.open = segment{offset: offset, start: start, end: end, date: s.zero.Add(start),
			afterGap: gap}
		if gap {
			s.open.missing = max(start-last, 0)
		}
	}
	s.open.size += int64(f.Size)
	s.open.end = end
	s.placed, s.sequence = true, f.Sequence
	return done, ok
}

// isFull reports whether the next fragment must begin a new segment. The arguments start and end
// are the times of this fragment. The argument key is true if the fragment begins with a keyframe.
func (s *segmenter) isFull(key bool, start, end time.Duration) bool {
	limit := s.target
	if limit == 0 {
		limit = mostTarget
	}
	return key && start-s.open.start >= leastSegment || end-s.open.start > limit
}

func (s *segmenter) finish() (done segment, ok bool) {
	if s.open.size == 0 {
		return segment{}, false
	}
	done, s.open = s.open, segment{}
	if s.target == 0 {
		s.target = max(leastTarget, wholeSeconds(done.end-done.start))
	}
	return done, true
}

// wholeSeconds rounds d up to a multiple of one second.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// Values of EXT-X-PLAYLIST-TYPE.
const (
	growing  = "EVENT"
	finished = "VOD"
)

const endLine = "#EXT-X-ENDLIST\n"

const dateFormat = "2006-01-02T15:04:05.000Z"

// listHeader returns the first lines of a playlist. init is the size of the init segment.
func listHeader(kind, media string, init int64, target time.Duration) []byte {
	return fmt.Appendf(nil,
		"#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%d\n#EXT-X-PLAYLIST-TYPE:%s\n"+
			"#EXT-X-MAP:URI=%q,BYTERANGE=\"%d@0\"\n", target/time.Second, kind, media, init)
}

// appendEntry appends the lines of a segment to b. The name of the media file comes last: without
// it, players ignore the other lines. After a gap, the entry has EXT-X-DISCONTINUITY. EXT-X-GAP is
// not suitable, because some players request the missing segment anyway.
func (g *segment) appendEntry(b []byte, media string) []byte {
	date := g.date.UTC()
	if g.afterGap {
		b = fmt.Appendf(b,
			"#EXT-X-DISCONTINUITY\n#EXT-X-DATERANGE:ID=\"gap-%d\",CLASS=\"millrace.gap\",START-DATE=%q,DURATION=%.3f\n",
			g.offset, date.Add(-g.missing).Format(dateFormat), g.missing.Seconds())
	}
	return fmt.Appendf(b,
		"#EXT-X-PROGRAM-DATE-TIME:%s\n#EXTINF:%.6f,\n#EXT-X-BYTERANGE:%d@%d\n%s\n",
		date.Format(dateFormat), (g.end - g.start).Seconds(), g.size, g.offset, media)
}

// A list has the entries of a playlist, up to the first entry that could not be parsed.
type list struct {
	target  time.Duration // target duration; 0 if unknown
	entries []listEntry
	text    []byte
}

type listEntry struct {
	offset, end int64
	date        time.Time
	textEnd     int // end of the entry in list.text
}

// headForm matches the first lines of a playlist, and entryForm matches the lines of one segment.
// Blank lines may precede the lines of a segment.
var (
	headForm = regexp.MustCompile(
		`^#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:([1-9]\d{0,5})\n#EXT-X-PLAYLIST-TYPE:.*\n` +
			`#EXT-X-MAP:.*\n`)
	entryForm = regexp.MustCompile(
		`^\n*(?:#EXT-X-DISCONTINUITY\n#EXT-X-DATERANGE:.*\n)?#EXT-X-PROGRAM-DATE-TIME:(.*)\n` +
			`#EXTINF:.*\n#EXT-X-BYTERANGE:(\d+)@(\d+)\n(.*)\n`)
)

// parseList parses b, the playlist of the media file with the given name and size. init is the size
// of its init segment. The list borrows b.
//
// parseList stops at the first entry that this package did not write, and at a segment that is not
// completely in the media file.
func parseList(b []byte, media string, init, size int64) (l list) {
	head := headForm.FindSubmatch(b)
	if head == nil {
		return l
	}
	target, _ := strconv.Atoi(string(head[1]))
	l.target = time.Duration(target) * time.Second
	b = b[len(head[0]):]
	for at := init; ; {
		e := entryForm.FindSubmatch(b[len(l.text):])
		if e == nil || string(e[4]) != media {
			return l
		}
		date, err := time.Parse(dateFormat, string(e[1]))
		n, _ := strconv.ParseInt(string(e[2]), 10, 64)
		from, _ := strconv.ParseInt(string(e[3]), 10, 64)
		if err != nil || from != at || n <= 0 || n > size-at {
			return l
		}
		at += n
		l.text = b[:len(l.text)+len(e[0])]
		l.entries = append(l.entries, listEntry{from, at, date, len(l.text)})
	}
}

// truncate keeps only the first n entries.
func (l *list) truncate(n int) {
	if l.entries = l.entries[:n]; n == 0 {
		l.text = nil
		return
	}
	l.text = l.text[:l.entries[n-1].textEnd]
}
