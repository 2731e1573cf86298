package hls

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace"
)

const (
	maxTarget   = time.Minute
	minPart     = 10 * time.Millisecond
	maxSegments = 10_000
	minMaxBytes = 64 << 10
	maxNumber   = 1 << 52 // players in JavaScript store numbers as float64
)

// Estimates of memory in bytes, which count towards MaxBytes. A fragment counts as at least
// fragmentCost, because it may keep a larger block in memory.
const (
	segmentCost  = 512
	partCost     = 32
	fragmentCost = 4 << 10
)

// Config determines how a Window divides a stream into segments and parts.
type Config struct {
	Epoch uint64 // number of the publication; the first element of every object's name

	// FirstMSN and FirstDiscontinuity are the media sequence number and the discontinuity sequence
	// number of the first segment. To replace an earlier Window at the same address, call Break on
	// it, and set these fields to the results of its Next and Discontinuity.
	FirstMSN, FirstDiscontinuity uint64

	// Past lists segments of an earlier Window of the same playlist, up to the segment before
	// FirstMSN. The playlist begins with them and a DISCONTINUITY. Their media must be stored
	// elsewhere. Target and Part must be the same as in the earlier Window's Config. If Past is
	// set, FirstDiscontinuity is ignored.
	Past []Listed

	// Target is the TARGETDURATION, in whole seconds. A segment may be up to half a second longer.
	Target time.Duration

	// Part is the PART-TARGET, the maximum duration of a part, in whole milliseconds. HLS requires
	// that a part lasts at least 85 % of the PART-TARGET. Only a part with a keyframe and the last
	// part of a segment may be shorter.
	//
	// If all fragments have the same duration, set Part to a multiple of that duration. Add a
	// millisecond if the times of the fragments are rounded. If the durations vary, choose Part so
	// that the longest fragment lasts at most 15 % of Part.
	Part time.Duration

	Segment time.Duration // a segment ends at the first keyframe after this duration
	// Segments is the number of segments in the playlist. If the total duration of these segments
	// is less than three times Target, the playlist has more segments.
	Segments int

	// MaxBytes limits the memory of the Window. If the limit is exceeded, the Window drops the
	// oldest segments, even if they are in the playlist. The open segment ends when it reaches half
	// of MaxBytes.
	MaxBytes int64
}

// Listed describes a complete segment in a playlist.
type Listed struct {
	Epoch, MSN    uint64 // the segment's name
	Init          uint64 // number of the segment's init segment, which has the same epoch
	Duration      time.Duration
	Time          time.Time
	Discontinuity bool   // the segment begins with a DISCONTINUITY
	Number        uint64 // the segment's discontinuity sequence number
	Gap           bool   // the media is missing, so the playlist has an EXT-X-GAP
}

// ConfigError reports a field of a Config that is out of range.
type ConfigError struct {
	Field string
	Value any
	Limit string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("hls: %s is %v: want %s", e.Field, e.Value, e.Limit)
}

func (c *Config) check() error {
	switch {
	case c.FirstMSN > maxNumber:
		return &ConfigError{"FirstMSN", c.FirstMSN, "at most 2^52"}
	case c.FirstDiscontinuity > maxNumber:
		return &ConfigError{"FirstDiscontinuity", c.FirstDiscontinuity, "at most 2^52"}
	case c.Target < time.Second || c.Target > maxTarget || c.Target%time.Second != 0:
		return &ConfigError{"Target", c.Target, "whole seconds, from 1s to 1m"}
	case c.Part < minPart || c.Part > c.Target || c.Part%time.Millisecond != 0:
		return &ConfigError{"Part", c.Part, "whole milliseconds, from 10ms to Target"}
	case c.Segment <= 0 || c.Segment > c.Target:
		return &ConfigError{"Segment", c.Segment, "more than 0s, at most Target"}
	case c.Segments < 1 || c.Segments > maxSegments:
		return &ConfigError{"Segments", c.Segments, "from 1 to 10000"}
	case c.MaxBytes < minMaxBytes:
		return &ConfigError{"MaxBytes", c.MaxBytes, "at least 64 KiB"}
	}
	msn, number := c.FirstMSN-uint64(len(c.Past)), uint64(0)
	for i, s := range c.Past {
		switch {
		case i == 0:
			number = s.Number
		case s.Discontinuity:
			number++
		}
		if s.MSN != msn+uint64(i) || s.MSN >= c.FirstMSN || s.Number != number ||
			number > maxNumber ||
			s.Discontinuity && number == 0 || s.Duration < 0 || roundMillis(s.Duration) > c.limit() {
			return &ConfigError{"Past", s, "segments within Target, one after the other up to FirstMSN"}
		}
	}
	return nil
}

// limit returns the maximum EXTINF, in ms: the largest value that rounds to Target.
func (c *Config) limit() int64 { return c.Target.Milliseconds() + 499 }

// Fragment describes an MP4 fragment.
type Fragment struct {
	Duration time.Duration
	Key      bool // a viewer can begin at this fragment

	// KeyNext announces that the next fragment will have Key set. The segment can then end with
	// this fragment.
	//
	// If KeyNext is not set, the segment ends only when the next fragment is added. Until then, the
	// playlist announces another part of the segment, although that part will never exist.
	KeyNext bool

	Time time.Time // wall clock time of the first sample; zero if unknown
}

// A Window keeps the newest segments of a stream. It belongs to one goroutine at a time. Call
// Release to release its memory.
type Window struct {
	// Invariants:
	//
	//	segs[i].msn == segs[0].msn+i, and open.msn is the number after these
	//	0 ≤ listed ≤ len(segs)
	//	0 ≤ past ≤ len(segs)
	//	bytes = sum of the init segments' lengths and the segments' costs

	config  Config
	part    int64         // Config.Part in ms
	limit   int64         // the maximum EXTINF, in ms
	longest time.Duration // limit as a time.Duration

	inits []initSegment
	// Complete segments, oldest first. segs[:listed] have left the playlist.
	segs   []*segment
	listed int      // number of segments that have left the playlist
	past   int      // number of segments that belong to an earlier Window
	open   *segment // the segment that fragments are added to
	free   *segment // a dropped segment for reuse, or nil

	// Expected duration of the open segment, in ms: the duration of the last segment that began
	// with a keyframe.
	expected int64

	discontinuity        uint64 // discontinuity sequence number of the newest segment
	pendingDiscontinuity bool   // the next segment begins with a DISCONTINUITY

	clock time.Duration // sum of the durations of all fragments
	bytes int64
	ended bool
}

type initSegment struct {
	number uint64
	body   millrace.Chain
}

// A segment is a media segment. It is either complete or open, which means that fragments are still
// added to it.
type segment struct {
	epoch, msn    uint64
	init          uint64 // number of its init segment
	time          time.Time
	key           bool // a viewer can begin at its first fragment
	discontinuity bool
	number        uint64 // discontinuity sequence number
	whole         bool   // the segment has no parts, because a fragment is longer than Part
	gap           bool

	body  millrace.Chain
	parts []part // the complete parts
	cost  int64

	duration    time.Duration
	partStart   int64         // start of the open part, in ms from the start of the segment
	independent bool          // the open part has a keyframe
	lastKey     time.Duration // start of the last keyframe, from the start of the segment

	completed time.Duration // w.clock when the segment was complete
	playlist  time.Duration // duration of the longest playlist that listed the segment
}

// A part is a complete part of a segment. It begins where the previous part ends.
type part struct {
	end         int   // end, in bytes from the start of the segment
	duration    int64 // in ms
	independent bool
}

// NewWindow returns a Window without media. If a field of c is out of range, the error is a
// *ConfigError.
func NewWindow(c Config) (*Window, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	w := &Window{config: c, part: c.Part.Milliseconds(), limit: c.limit(),
		discontinuity: c.FirstDiscontinuity}
	w.longest = time.Duration(w.limit) * time.Millisecond
	w.open = &segment{msn: c.FirstMSN}
	w.remember(c.Past)
	return w, nil
}

// remember puts segments of an earlier Window at the start of the playlist. If the entries of these
// segments would use more than half of MaxBytes, remember omits the oldest segments.
func (w *Window) remember(past []Listed) {
	w.config.Past = nil
	for _, s := range past[max(0, len(past)-int(w.config.MaxBytes/2/segmentCost)):] {
		w.segs = append(w.segs, &segment{epoch: s.Epoch, msn: s.MSN, init: s.Init,
			duration: s.Duration, time: s.Time,
			discontinuity: s.Discontinuity, number: s.Number, gap: s.Gap, cost: segmentCost})
		w.bytes += segmentCost
		w.discontinuity, w.pendingDiscontinuity = s.Number, true
	}
	w.past = len(w.segs)
	w.unlist()
}

// Listed returns the complete segments of the playlist. To continue the playlist in another Window,
// set Past in that Window's Config to the result.
func (w *Window) Listed() []Listed {
	var list []Listed
	for _, s := range w.segs[w.listed:] {
		list = append(list, Listed{Epoch: s.epoch, MSN: s.msn, Init: s.init,
			Duration: time.Duration(s.extinf()) * time.Millisecond,
			Time:     s.time, Discontinuity: s.discontinuity, Number: s.number, Gap: s.gap})
	}
	return list
}

// Opening describes the open segment, to which the Window adds fragments. The segment may still be
// empty. The Duration in the result counts only the complete parts of the segment.
//
// A new Window can continue the playlist of w. If the media of the open segment is lost, the new
// Window must list the segment as a gap: set Gap in the result of Opening, and append the result to
// the new Window's Config.Past.
func (w *Window) Opening() Listed {
	s := w.open
	if !s.empty() {
		return Listed{Epoch: s.epoch, MSN: s.msn, Init: s.init,
			Duration: time.Duration(s.partStart) * time.Millisecond,
			Time:     s.time, Discontinuity: s.discontinuity, Number: s.number}
	}
	l := Listed{Epoch: w.config.Epoch, MSN: s.msn, Discontinuity: w.pendingDiscontinuity,
		Number: w.Discontinuity()}
	if n := len(w.inits); n > 0 {
		l.Init = w.inits[n-1].number
	}
	return l
}

// roundMillis returns d in milliseconds. Round the start and the end of a part, not its duration.
// The parts then add up to their segment.
func roundMillis(d time.Duration) int64 { return d.Round(time.Millisecond).Milliseconds() }

// Init sets the init segment for the fragments that follow, and takes ownership of body. If there
// are fragments already, the open segment ends, and the next one begins with a DISCONTINUITY and a
// new MAP. Init reports whether the playlist has changed.
func (w *Window) Init(body *millrace.Chain) (changed bool) {
	defer body.Release()
	if w.ended {
		return false
	}
	changed = w.Flush()
	if w.open.msn > w.config.FirstMSN {
		w.pendingDiscontinuity = true
	}
	next := initSegment{}
	if n := len(w.inits); n > 0 {
		next.number = w.inits[n-1].number + 1
	} else {
		changed = true // the playlist now has a PRELOAD-HINT
	}
	w.bytes += int64(body.Len())
	next.body.Merge(body)
	w.inits = append(w.inits, next)
	return w.trim() || changed
}

// Break announces that the next fragment does not continue the previous fragment. It ends the open
// segment, and the next segment begins with a DISCONTINUITY. Break reports whether the playlist has
// changed.
func (w *Window) Break() (changed bool) {
	changed = w.Flush()
	w.pendingDiscontinuity = w.pendingDiscontinuity || !w.ended
	return changed
}

// Flush ends the open segment without waiting for a keyframe. Call Flush when no fragment arrives
// for a while. Flush reports whether the playlist has changed.
func (w *Window) Flush() (changed bool) {
	if w.ended || w.open.empty() {
		return false
	}
	w.closeSegment()
	w.trim()
	return true
}

// End ends the open segment and the stream, and adds ENDLIST to the playlist. Later fragments are
// released and ignored. End reports whether the playlist has changed.
func (w *Window) End() (changed bool) {
	if w.ended {
		return false
	}
	w.Flush()
	w.ended = true
	return true
}

// Add adds the fragment f, and takes ownership of body, the bytes of the fragment. It reports
// whether the playlist has changed. Before the first Init, Add ignores the fragment and releases
// it.
//
// A part usually ends when the next fragment would make it longer than Config.Part. Add assumes
// that the next fragment has the same duration as f. There are two exceptions:
//
//   - A part may end earlier, so that the parts of a segment have similar durations. Add divides
//     the segment on the assumption that it will last as long as the previous segment.
//   - A part without a keyframe may end later. If such a part is shorter than 85 % of Config.Part,
//     Add waits for the next fragment. If that fragment is short enough, Add puts it into the same
//     part.
//
// A segment usually ends at the first keyframe after the duration Config.Segment. There are two
// exceptions:
//
//   - A segment ends at an earlier keyframe if the next GOP would make it longer than
//     Config.Target. (A GOP consists of the frames from one keyframe to the next.) Add assumes that
//     the next GOP has the same duration as the last GOP.
//   - If no keyframe arrives before Config.Target, the segment ends anyway. The next segment then
//     ends at the first keyframe.
//
// A fragment longer than Config.Part is put into a segment without parts. If the fragment is also
// longer than the maximum duration of a segment, the playlist shows that maximum.
func (w *Window) Add(f Fragment, body *millrace.Chain) (changed bool) {
	defer body.Release()
	if w.ended || len(w.inits) == 0 || body.Len() == 0 {
		return false
	}
	d := min(max(f.Duration, 0), w.longest)
	w.clock += d
	whole := d > w.config.Part
	s := w.open
	if !s.empty() && (whole != s.whole || f.Key && w.endsAtKey() || roundMillis(s.duration+d) > w.limit) {
		w.closeSegment()
		s, changed = w.open, true
	}
	if s.empty() {
		w.initOpen(f)
		s.whole = whole
	} else if roundMillis(s.duration+d)-s.partStart > w.part {
		changed = w.closePart() || changed
	}
	if f.Key {
		s.lastKey, s.independent = s.duration, true
	}
	s.duration += d
	w.charge(int64(max(body.Len(), fragmentCost)))
	s.body.Merge(body)

	duration, extended := roundMillis(s.duration)-s.partStart, roundMillis(s.duration+d)-s.partStart
	if duration == w.part || extended > w.part && (100*duration >= 85*w.part || s.independent) ||
		w.endsEarly(duration, extended) {
		changed = w.closePart() || changed
	}
	if f.KeyNext && w.endsAtKey() || roundMillis(s.duration+d) > w.limit ||
		2*s.cost >= w.config.MaxBytes {
		w.closeSegment()
		changed = true
	}
	return w.trim() || changed
}

// endsEarly reports whether the open part should end before it is full, so that the parts of a
// segment have similar durations. If all other parts were full, the last part could be so short
// that hls.js would mistake it for a hole.
//
// The arguments are the duration of the open part, in ms, and its duration after one more fragment.
func (w *Window) endsEarly(duration, extended int64) bool {
	rest := w.expected - w.open.partStart
	if rest <= duration || 100*duration < 85*w.part {
		return false
	}
	parts := (rest + w.part - 1) / w.part
	return 2*rest <= parts*(duration+extended)
}

// endsAtKey reports whether the open segment must end if the next fragment begins with a keyframe.
func (w *Window) endsAtKey() bool {
	s := w.open
	group := s.duration - s.lastKey
	return s.duration >= w.config.Segment || !s.key || roundMillis(s.duration+group) > w.limit
}

func (w *Window) initOpen(f Fragment) {
	s := w.open
	s.epoch = w.config.Epoch
	s.init = w.inits[len(w.inits)-1].number
	s.time, s.key = f.Time, f.Key
	s.discontinuity = w.pendingDiscontinuity
	w.discontinuity = w.Discontinuity()
	w.pendingDiscontinuity = false
	s.number = w.discontinuity
	w.charge(segmentCost)
}

func (w *Window) charge(n int64) {
	w.open.cost += n
	w.bytes += n
}

func (s *segment) empty() bool { return s.body.Len() == 0 }

// closePart completes the open part. It returns false if the part has no fragments, or if the
// segment has no parts.
func (w *Window) closePart() bool {
	s := w.open
	if s.whole || s.body.Len() == s.partOffset(len(s.parts)) {
		return false
	}
	end := roundMillis(s.duration)
	s.parts = append(s.parts, part{s.body.Len(), end - s.partStart, s.independent})
	s.partStart, s.independent = end, false
	w.charge(partCost)
	return true
}

// partOffset returns the offset of part i from the start of the segment, in bytes.
func (s *segment) partOffset(i int) int {
	if i == 0 {
		return 0
	}
	return s.parts[i-1].end
}

// closeSegment completes the open segment, which must not be empty.
func (w *Window) closeSegment() {
	w.closePart()
	s := w.open
	if s.completed = w.clock; s.key {
		w.expected = s.extinf()
	}
	w.segs = append(w.segs, s)
	w.open, w.free = w.free, nil
	if w.open == nil {
		w.open = &segment{}
	}
	w.open.msn = s.msn + 1
	w.unlist()
}

// unlist removes the oldest segments from the playlist. The playlist keeps at least Config.Segments
// segments, and a total duration of at least three times Config.Target.
func (w *Window) unlist() {
	total := w.listedFor()
	for len(w.segs)-w.listed > w.config.Segments &&
		total-w.segs[w.listed].extinf() >= 3*w.target() {
		total -= w.segs[w.listed].extinf()
		w.listed++
	}
	for _, s := range w.segs[w.listed:] {
		s.playlist = max(s.playlist, time.Duration(total)*time.Millisecond)
	}
}

// Shorten reduces the memory of the Window in two ways:
//
//   - It makes the playlist as short as HLS allows, with a total duration of at least three times
//     Config.Target. From then on, the Window ignores Config.Segments.
//   - It lowers Config.MaxBytes to the argument, but not below 64 KiB.
//
// A segment that has left the playlist stays in the Window while players may still request it,
// unless MaxBytes is exceeded. Shorten reports whether the playlist has changed.
func (w *Window) Shorten(limit int64) (changed bool) {
	before := w.listed
	w.config.Segments, w.config.MaxBytes = 1, min(w.config.MaxBytes, max(limit, minMaxBytes))
	w.unlist()
	if len(w.inits) > 0 {
		changed = w.trim()
	}
	return changed || w.listed != before
}

// listedFor returns the total duration of the playlist's segments, in ms.
func (w *Window) listedFor() (total int64) {
	for _, s := range w.segs[w.listed:] {
		total += s.extinf()
	}
	return total
}

func (w *Window) target() int64 { return w.config.Target.Milliseconds() }

func (s *segment) extinf() int64 { return roundMillis(s.duration) }

// trim drops segments and init segments that are no longer needed, or exceed MaxBytes. It reports
// whether it has dropped a segment of the playlist.
func (w *Window) trim() (changed bool) {
	for len(w.segs) > 0 && (w.bytes > w.config.MaxBytes || w.listed > 0 && w.expired(w.segs[0])) {
		changed = changed || w.listed == 0
		w.drop()
	}
	need := w.inits[len(w.inits)-1].number
	if len(w.segs) > w.past {
		need = w.segs[w.past].init
	}
	for w.inits[0].number < need {
		w.bytes -= int64(w.inits[0].body.Len())
		w.inits[0].body.Release()
		n := copy(w.inits, w.inits[1:])
		w.inits[n] = initSegment{}
		w.inits = w.inits[:n]
	}
	return changed
}

// expired reports whether players no longer need s, a complete segment that has left the playlist.
// Players may need s until both of these durations have passed since s was complete:
//
//   - The duration of s plus the duration of the longest playlist that listed s.
//   - Six times Config.Target plus the maximum duration of a fragment.
//
// The second duration is for the parts of s. The playlist lists the parts for up to three times
// Config.Target plus the duration of one fragment. After that, players may still request the parts
// for another three times Config.Target.
func (w *Window) expired(s *segment) bool {
	return w.clock-s.completed >= max(s.duration+s.playlist, 6*w.config.Target+w.longest)
}

func (w *Window) drop() {
	s := w.segs[0]
	n := copy(w.segs, w.segs[1:])
	w.segs[n] = nil
	w.segs = w.segs[:n]
	w.listed, w.past = max(w.listed-1, 0), max(w.past-1, 0)
	w.bytes -= s.cost
	s.body.Release()
	*s = segment{body: s.body, parts: s.parts[:0]}
	w.free = s
}

// Next returns the media sequence number of the open segment and the index of its next part.
func (w *Window) Next() (msn uint64, part int) { return w.open.msn, len(w.open.parts) }

// Discontinuity returns the discontinuity sequence number of the open segment.
func (w *Window) Discontinuity() uint64 {
	if w.pendingDiscontinuity {
		return w.discontinuity + 1
	}
	return w.discontinuity
}

// Bytes returns the number of bytes that count towards MaxBytes: at least 4 KiB for each fragment,
// and 512 bytes for each segment.
func (w *Window) Bytes() int64 { return w.bytes }

// Bandwidth returns the peak and the average bit rate of the playlist, in bits per second. It
// counts only segments that this Window has made, not the segments from Config.Past. The peak is
// the highest bit rate of consecutive segments with a total duration of about Target. The average
// is the bit rate of all segments. If there are no segments, both are 0.
func (w *Window) Bandwidth() (peak, average int64) {
	listed := w.segs[max(w.listed, w.past):]
	var bytes int64
	var total time.Duration
	for i, s := range listed {
		bytes += int64(s.body.Len())
		total += s.duration
		var b int64
		var d time.Duration
		for _, s := range listed[i:] {
			b += int64(s.body.Len())
			if d += s.duration; 2*d > 3*w.config.Target {
				break
			}
			if 2*d >= w.config.Target {
				peak = max(peak, rate(b, d))
			}
		}
	}
	average = rate(bytes, total)
	return max(peak, average), average
}

func rate(bytes int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(8*bytes) / d.Seconds())
}

// Append appends the bytes of an object to dst, without copying them. dst owns the added
// references. If the Window does not have the complete object, Append returns false, and dst is
// unchanged.
func (w *Window) Append(dst *millrace.Chain, o Object) bool {
	if o.Epoch != w.config.Epoch {
		return false
	}
	switch o.Kind {
	case KindInit:
		for i := range w.inits {
			if w.inits[i].number == o.MSN {
				w.inits[i].body.CloneTo(dst)
				return true
			}
		}
	case KindSegment:
		if s := w.find(o.MSN); s != nil && s != w.open && s.epoch == o.Epoch {
			s.body.CloneTo(dst)
			return true
		}
	case KindPart:
		if s := w.find(o.MSN); s != nil && o.Part >= 0 && o.Part < len(s.parts) {
			s.body.SliceTo(dst, s.partOffset(o.Part), s.parts[o.Part].end)
			return true
		}
	}
	return false
}

// find returns the complete or open segment with the media sequence number msn, or nil.
func (w *Window) find(msn uint64) *segment {
	if msn == w.open.msn {
		return w.open
	}
	if n := w.open.msn - msn; msn < w.open.msn && n <= uint64(len(w.segs)) {
		return w.segs[uint64(len(w.segs))-n]
	}
	return nil
}

// Release ends the stream, and releases the memory of all segments and init segments.
func (w *Window) Release() {
	w.ended = true
	for len(w.segs) > 0 {
		w.drop()
	}
	w.open.body.Release()
	w.open = &segment{msn: w.open.msn}
	for i := range w.inits {
		w.inits[i].body.Release()
	}
	w.inits, w.free, w.bytes = nil, nil, 0
}
