package relay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
)

// A feed makes frames of FLV tags, and keeps what the tags so far say of the stream. It goes on from one publisher to
// the next. The goroutine of the stream's publisher has it; Hub.mu is held when it changes hands.
type feed struct {
	s       *stream
	meter   meter
	address string // the publisher's

	starts    startFinder
	presence  presence
	tracks    map[flv.Type]map[byte]bool // numbers of those that the publisher's sequence headers have announced
	gapLogged bool
	hope      hopeTimer
	farLogged bool // the distance of key frames was
	warned    bool // the log says what MP4 leaves out
	resized   bool // the metadata have changed, and with them perhaps the size of the picture
	keys      keyMeter

	enc      flv.Encoder // of tags that get another time
	preamble preamble
	size     string // of the picture, as in 640x360; "" if not known

	timed  bool   // there was a frame
	last   uint32 // the time of the latest one
	lastAt int64  // when it was published; see now

	pull *pull // what the tags come from; nil for a publisher of this node
}

// release gives back what f keeps. Hub.mu is held.
func (f *feed) release() {
	f.preamble.release()
	f.enc.Release()
}

// interleave is how many ms a frame may be before the latest one because the tracks are not in step. A frame that is
// further back begins the publisher's times anew.
const interleave = 5000

// warnOfCodecs logs once what browsers and players of MP4 and HLS do not get.
func (f *feed) warnOfCodecs() {
	s := f.s
	if f.warned || !s.settled.Load() || f.pull != nil {
		return
	}
	if left := s.leftOut(); left != "" {
		f.warned = true
		s.log.Warn("MP4, HLS and browsers get only H.264, H.265 and AAC of this stream",
			"left_out", left, "video", s.video.Load().String(), "audio", s.audio.Load().String())
	}
}

// write publishes a tag, which came at a time of now. It takes ownership of c, which holds all of it.
func (f *feed) write(t flv.Tag, c *millrace.Chain, at int64) error {
	s := f.s
	switch {
	case f.starts.first.beside(t): // what people and MP4 get is the default track
	case t.Codec == 0: // of no codec, or of several
	case t.Type == flv.TypeVideo && (f.resized || !s.video.Load().is(t.Codec)):
		f.resized = false
		s.describe(t, f.size)
	case t.Type == flv.TypeAudio && !s.audio.Load().is(t.Codec):
		s.describe(t, "")
	}
	f.noteTrack(t)
	f.warnOfCodecs()
	if t.Packet == flv.PacketFrame {
		if ahead := int32(t.Timestamp - f.last); !f.timed || ahead >= 0 || ahead < -interleave {
			f.timed, f.last, f.lastAt = true, t.Timestamp, at
		}
		if f.hope.passed(t.Timestamp) && !s.settled.Load() {
			s.settled.Store(true)
			s.knowTracks()
		}
	}
	if part := f.preamble.part(t); part != nil {
		return f.configure(t, c, part)
	}
	start, without := f.isStart(t), f.preamble.without
	if f.tracksChange(start) {
		if without.video && t.Type == flv.TypeVideo || without.audio && t.Type == flv.TypeAudio {
			if err := f.repeatHeaders(t); err != nil {
				c.Release()
				return err
			}
		}
		return f.publishTracks(c, start || !f.starts.pictures)
	}
	return s.publish(c, start)
}

// noteTrack notes that the track of t exists. Viewers need not wait for it any longer.
func (f *feed) noteTrack(t flv.Tag) {
	flag := trackFlag(t.Type)
	if t.Packet != flv.PacketFrame && !t.SequenceHeader || f.s.tracks.Load()&flag != 0 {
		return
	}
	f.s.tracks.Store(f.s.tracks.Load() | flag)
	if f.s.promised()&^f.s.tracks.Load() == 0 {
		f.s.knowTracks()
	}
}

// tracksChange reports whether later viewers get other tracks than before: absent audio is left out from a frame on that
// viewers can start at, which the next one is if start is set. Absent video is left out at once, and makes all audio such
// frames. A track that is back is added at once.
func (f *feed) tracksChange(start bool) bool {
	was := f.preamble.without
	f.leaveOut(flv.TypeVideo, &f.preamble.without.video, &f.s.video, start)
	f.leaveOut(flv.TypeAudio, &f.preamble.without.audio, &f.s.audio, start)
	return f.preamble.without != was
}

func (f *feed) leaveOut(t flv.Type, without *bool, known *atomic.Pointer[track], start bool) {
	switch tracks, flag := f.s.tracks.Load(), trackFlag(t); {
	case !f.presence.absent(t):
		*without = false
	case tracks&flag != 0 && (start || t == flv.TypeVideo):
		*without = true
		f.starts.pictures = f.starts.pictures && t != flv.TypeVideo
		f.s.tracks.Store(tracks &^ flag)
		known.Store(nil)
	}
}

// publishTracks publishes a frame, the first with a preamble of other tracks. It takes ownership of c.
func (f *feed) publishTracks(c *millrace.Chain, start bool) error {
	s := f.s
	s.log.Info("the tracks of the stream changed", "video", s.video.Load().String(), "audio", s.audio.Load().String())
	var preamble millrace.Chain
	f.preamble.clone(&preamble)
	s.mu.Lock() // what makes MP4 begins before or after both
	defer s.mu.Unlock()
	s.live.ring.SetPreamble(&preamble)
	s.trackSet.Add(1)
	return s.live.ring.Publish(c, broadcast.Frame{Key: start})
}

// repeatHeaders publishes the sequence headers of the track of t, which is back, for viewers who
// came without it.
func (f *feed) repeatHeaders(t flv.Tag) error {
	var headers millrace.Chain
	for i := range f.preamble.parts {
		if part := &f.preamble.parts[i]; part.kind() == t.Type {
			f.enc.Retime(&headers, &part.tag, t.Timestamp)
		}
	}
	if headers.Len() == 0 {
		return nil
	}
	return f.s.publish(&headers, false)
}

// noteTracks counts the tracks that t, which is in c, announces. It borrows c.
func (f *feed) noteTracks(t flv.Tag, c *millrace.Chain) {
	if !t.SequenceHeader || t.Len() > maxPart {
		return
	}
	var tag []byte
	if t.Multitrack {
		tag = c.Bytes()
	}
	if f.tracks == nil {
		f.tracks = map[flv.Type]map[byte]bool{flv.TypeVideo: {}, flv.TypeAudio: {}}
	}
	for _, number := range t.AppendTracks(nil, tag) {
		f.tracks[t.Type][number] = true
	}
	further := 0
	for _, numbers := range f.tracks {
		further += max(0, len(numbers)-1)
	}
	f.s.furtherTracks.Store(int32(further))
}

// hopeWait is how much of a stream, in ms, passes before it is taken to have all of its codecs. Publishers send their
// sequence headers at once, but a piece of sound may come in front of the pictures' one.
const hopeWait = 1000

// A hopeTimer tells from the times of frames when hopeWait has passed.
type hopeTimer struct {
	began bool   // there was a frame
	since uint32 // the time of the first one
}

// passed reports whether hopeWait has passed at a frame.
func (h *hopeTimer) passed(at uint32) bool {
	if !h.began || int32(at-h.since) < 0 { // times may go back, and begin anew
		h.began, h.since = true, at
	}
	return at-h.since >= hopeWait
}

// A keyMeter measures how far keyframes are apart.
type keyMeter struct {
	began bool     // there was one
	last  uint32   // the time of the latest one
	ms    [5]int64 // the latest distances, newest first; 0 for those that are not known yet
}

// note takes the time of a keyframe.
func (k *keyMeter) note(at uint32) {
	if ms := k.group(at); ms > 0 {
		copy(k.ms[1:], k.ms[:])
		k.ms[0] = ms
	}
	k.began, k.last = true, at
}

// longest returns the longer one of the last two distances.
func (k *keyMeter) longest() int64 { return max(k.ms[0], k.ms[1]) }

// usual returns the second longest of the latest distances, or the only one: intervals may vary,
// and one odd timestamp or pause does not count.
func (k *keyMeter) usual() int64 {
	sorted := k.ms
	slices.Sort(sorted[:])
	n := len(sorted)
	return cmp.Or(sorted[n-2], sorted[n-1])
}

// group returns how long the group of pictures is up to a picture, in ms.
func (k *keyMeter) group(at uint32) int64 {
	if !k.began {
		return 0
	}
	return max(int64(int32(at-k.last)), 0)
}

// farKeys is how far key frames may be apart. Encoders for live streams send one every two seconds.
const farKeys = 4 * time.Second

// noteKeys takes the time of a picture. It warns once of each publisher whose key frames are far apart.
func (f *feed) noteKeys(at uint32, key bool) {
	s, group := f.s, f.keys.group(at)
	if far := farKeys.Milliseconds(); group > far && s.group.Load() > far && !f.farLogged { // not for one odd timestamp
		f.farLogged = true
		// In another goroutine, as below: the log may block, and the stream must go on.
		go s.log.Warn("key frames are far apart: viewers begin at the last one, and stay that far behind live "+
			"(set the encoder's key frame interval to 2 s)", "publisher", f.address, "more than", farKeys)
	}
	if key {
		f.keys.note(at)
		s.keyInterval.Store(f.keys.longest())
		s.usualInterval.Store(f.keys.usual())
		group = 0
	}
	s.group.Store(group)
}

// isStart reports whether viewers can start at a tag, and notes whether they begin with the sound.
func (f *feed) isStart(t flv.Tag) bool {
	start := f.starts.isStart(t, f.s.live.ring)
	if start && !f.s.ownStart.Load() {
		f.s.ownStart.Store(true)
	}
	if t.Type == flv.TypeVideo {
		f.noteKeys(t.Timestamp, start)
	}
	if gap := f.starts.gap.open; gap != f.s.noVideo.Load() {
		f.s.noVideo.Store(gap)
		if !f.gapLogged {
			f.gapLogged = true
			go f.s.log.Info("there is sound, but no picture has come for a while: new viewers begin with the sound",
				"while", videoGapAfter*time.Millisecond)
		}
	}
	return start
}

// configure publishes a tag that viewers to come need as well.
func (f *feed) configure(t flv.Tag, c, part *millrace.Chain) error {
	keep(f.s.memory, part, c)
	if t.Metadata {
		f.size = pictureSize(part.Bytes())
		f.resized = true
		if f.s.settled.Load() { // before that, it is not known which tracks there will be
			stateTracks(f.s.memory, c, f.s.tracks.Load())
		}
	}
	var preamble millrace.Chain
	f.preamble.clone(&preamble)
	return f.s.configure(c, &preamble)
}

// pictureSize finds width and height in an onMetaData tag: two AMF numbers behind their names. It borrows tag.
func pictureSize(tag []byte) string {
	number := func(name string) (int, bool) {
		_, after, ok := bytes.Cut(tag, []byte(name))
		if !ok || len(after) < 8 {
			return 0, false
		}
		v := math.Float64frombits(binary.BigEndian.Uint64(after))
		return int(v), v >= 1 && v <= 1<<16
	}
	width, ok := number("\x00\x05width\x00")
	height, too := number("\x00\x06height\x00")
	if !ok || !too {
		return ""
	}
	return fmt.Sprintf("%dx%d", width, height)
}

// A meter measures a stream's bits per second.
type meter struct {
	since int64 // see now
	bytes int64
	cuts  int64 // groups of pictures that noteCuts has counted
}

// add counts n bytes that have come at a time of now. Once a second it sums up.
func (m *meter) add(s *stream, n int, at int64) {
	if m.since == 0 {
		m.since = at
	}
	m.bytes += int64(n)
	elapsed := at - m.since
	if elapsed < 1e9 {
		return
	}
	rate := int64(float64(m.bytes) * 8e9 / float64(elapsed))
	if last := s.rate.Load(); last > 0 {
		rate = (rate + last) / 2 // a key frame more or less in a second should not make the figure jump
	}
	s.rate.Store(rate)
	m.since, m.bytes = at, 0
	m.noteCuts(s)
}

// stop sums up until the next publisher comes.
func (m *meter) stop(s *stream) {
	m.since, m.bytes = 0, 0
	s.rate.Store(0)
	m.noteCuts(s)
}

// noteCuts counts the groups of pictures that have lost their key frame to what is kept.
func (m *meter) noteCuts(s *stream) {
	n := int64(s.live.ring.Stats().GroupsCut)
	if n == m.cuts {
		return
	}
	s.hub.counters.groupsCut.Add(n - m.cuts)
	if m.cuts == 0 {
		cfg := &s.hub.cfg
		go s.log.Warn("a group of pictures is longer than what is kept: late viewers get nothing until the next key frame "+
			"(--keep-bytes, --keep-frames, or a shorter key frame interval)",
			"keep-bytes", cfg.KeepBytes, "keep-frames", cfg.KeepFrames)
	}
	m.cuts = n
}
