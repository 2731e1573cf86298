package record

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
)

const (
	// leastSegment is how long a segment is at least, if its successor begins with a keyframe.
	leastSegment = 2 * time.Second

	// leastTarget is the least target duration. Segments without a keyframe where they should end
	// are cut there. If the first segment of a file is longer, its length is the target duration of
	// that file, up to mostTarget.
	leastTarget = 10 * time.Second
	mostTarget  = 30 * time.Second

	// timeSlack is how far the time of a fragment may be from the end of the fragment before.
	timeSlack = time.Second

	// dateSlack is how far the arrival of a segment may be from its date, which is counted from the
	// first segment's: a publisher that was late for a moment does not change the dates.
	dateSlack = 5 * time.Second
)

// A segment is an entry of a playlist: a range of the media file.
type segment struct {
	offset, size int64
	start, end   time.Duration // in the stream's time
	date         time.Time     // of its first fragment
	afterGap     bool          // fragments are missing in front of it
	missing      time.Duration // how long they were
}

// A segmenter groups fragments into segments. Except for dates, the result depends only on the
// fragments, so that finish finds the same segments in the media file.
type segmenter struct {
	target time.Duration // of the playlist; 0 before the first segment has ended
	open   segment       // its size is 0 between segments

	placed   bool // there was a fragment
	sequence uint32
	line     mp4.Timeline
	zero     time.Time // the wall clock at the stream's time 0
}

// add takes the fragment at offset, which arrived at the given time, or at a time that is not known
// if at is zero. It returns the segment that ended in front of it, if one did.
func (s *segmenter) add(f mp4.FragmentInfo, at time.Time, offset int64) (done segment, ended bool) {
	gap := s.placed && (f.Sequence != s.sequence+1 || f.Start-s.line.End() > timeSlack)
	last := s.line.End()
	if gap {
		s.line = mp4.Timeline{}
	}
	start, end := s.line.Add(f)
	if s.open.size > 0 && (gap || s.full(f.Key, start, end)) {
		done, ended = s.finish()
	}
	if s.open.size == 0 {
		if !at.IsZero() && (!s.placed || at.Sub(s.zero.Add(start)).Abs() > dateSlack) {
			s.zero = at.Add(-start)
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
	return done, ended
}

// full reports whether the open segment ends in front of a fragment.
func (s *segmenter) full(key bool, start, end time.Duration) bool {
	limit := s.target
	if limit == 0 {
		limit = mostTarget
	}
	return key && start-s.open.start >= leastSegment || end-s.open.start > limit
}

// finish ends the open segment, if there is one.
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

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// The types of playlists.
const (
	growing  = "EVENT"
	finished = "VOD"
)

const endLine = "#EXT-X-ENDLIST\n"

const dateFormat = "2006-01-02T15:04:05.000Z"

// listHeader returns the start of a playlist. The first init bytes of the media file are its init
// segment.
func listHeader(kind, media string, init int64, target time.Duration) []byte {
	return fmt.Appendf(
		nil, "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%d\n#EXT-X-PLAYLIST-TYPE:%s\n"+
			"#EXT-X-MAP:URI=%q,BYTERANGE=\"%d@0\"\n", target/time.Second, kind, media, init)
}

// appendEntry appends the lines of a segment to b. The name of the media file comes last, because
// the other lines mean nothing without it. Players continue after EXT-X-DISCONTINUITY. EXT-X-GAP
// would not do: some players request such a segment.
func (g *segment) appendEntry(b []byte, media string) []byte {
	date := g.date.UTC()
	if g.afterGap {
		b = fmt.Appendf(
			b, "#EXT-X-DISCONTINUITY\n#EXT-X-DATERANGE:ID=\"gap-%d\",CLASS=\"millrace.gap\",START-DATE=%q,DURATION=%.3f\n",
			g.offset, date.Add(-g.missing).Format(dateFormat), g.missing.Seconds())
	}
	return fmt.Appendf(
		b, "#EXT-X-PROGRAM-DATE-TIME:%s\n#EXTINF:%.6f,\n#EXT-X-BYTERANGE:%d@%d\n%s\n",
		date.Format(dateFormat), (g.end - g.start).Seconds(), g.size, g.offset, media)
}

// A list is the readable part of a playlist.
type list struct {
	target  time.Duration // 0 if it is not known
	entries []listEntry
	text    []byte // of the entries
}

// A listEntry is a segment in a list.
type listEntry struct {
	offset, end int64
	date        time.Time
	textEnd     int // in list.text
}

// headForm and entryForm match the results of listHeader and appendEntry. An entry may follow blank
// lines.
var (
	headForm = regexp.MustCompile(
		`^#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:([1-9]\d{0,5})\n#EXT-X-PLAYLIST-TYPE:.*\n` +
			`#EXT-X-MAP:.*\n`)
	entryForm = regexp.MustCompile(
		`^\n*(?:#EXT-X-DISCONTINUITY\n#EXT-X-DATERANGE:.*\n)?#EXT-X-PROGRAM-DATE-TIME:(.*)\n` +
			`#EXTINF:.*\n#EXT-X-BYTERANGE:(\d+)@(\d+)\n(.*)\n`)
)

// parseList reads the playlist of a media file of size bytes, of which init are the init segment.
// It stops at text that this package does not write, and before the first segment that the media
// file does not fully contain. It borrows text; list.text is a part of it.
func parseList(text []byte, media string, init, size int64) (l list) {
	head := headForm.FindSubmatch(text)
	if head == nil {
		return l
	}
	target, _ := strconv.Atoi(string(head[1]))
	l.target = time.Duration(target) * time.Second
	text = text[len(head[0]):]
	for at := init; ; {
		e := entryForm.FindSubmatch(text[len(l.text):])
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
		l.text = text[:len(l.text)+len(e[0])]
		l.entries = append(l.entries, listEntry{from, at, date, len(l.text)})
	}
}

// cut leaves n entries.
func (l *list) cut(n int) {
	if l.entries = l.entries[:n]; n == 0 {
		l.text = nil
		return
	}
	l.text = l.text[:l.entries[n-1].textEnd]
}
