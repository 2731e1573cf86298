package relay

import (
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/relay/flvstream"
)

// A feed makes frames of FLV tags, and keeps what the tags so far say of the stream. It goes on from one publisher to
// the next. The goroutine of the stream's publisher has it; Hub.mu is held when it changes hands.
type feed struct {
	s       *stream
	meter   meter
	address string // the publisher's

	starts    flvstream.StartFinder
	presence  flvstream.Presence
	tracks    map[flv.Type]map[byte]bool // numbers of those that the publisher's sequence headers have announced
	gapLogged bool
	hope      flvstream.TrackTimer
	farLogged bool // the distance of key frames was
	warned    bool // the log says what MP4 leaves out
	resized   bool // the metadata have changed, and with them perhaps the size of the picture
	keys      flvstream.KeyMeter

	enc      flv.Encoder // of tags that get another time
	preamble flvstream.Preamble
	size     string // of the picture, as in 640x360; "" if not known

	timed  bool   // there was a frame
	last   uint32 // the time of the latest one
	lastAt int64  // when it was published; see now

	pull *pull // what the tags come from; nil for a publisher of this node
}

// release gives back what f keeps. Hub.mu is held.
func (f *feed) release() {
	f.preamble.Release()
	f.enc.Release()
}

// warnOfCodecs logs once what browsers and players of MP4 and HLS do not get.
func (f *feed) warnOfCodecs() {
	s := f.s
	if f.warned || !s.facts.Settled.Load() || f.pull != nil {
		return
	}
	if left := s.facts.LeftOut(); left != "" {
		f.warned = true
		s.log.Warn("MP4, HLS and browsers get only H.264, H.265 and AAC of this stream",
			"left_out", left, "video", s.facts.Video.Load().String(), "audio", s.facts.Audio.Load().String())
	}
}

// write publishes a tag, which came at a time of now. It takes ownership of c, which holds all of it.
func (f *feed) write(t flv.Tag, c *millrace.Chain, at int64) error {
	s := f.s
	switch {
	case f.starts.Secondary(t): // what people and MP4 get is the default track
	case t.Codec == 0: // of no codec, or of several
	case t.Type == flv.TypeVideo && (f.resized || !s.facts.Video.Load().Is(t.Codec)):
		f.resized = false
		s.facts.Describe(t, f.size)
	case t.Type == flv.TypeAudio && !s.facts.Audio.Load().Is(t.Codec):
		s.facts.Describe(t, "")
	}
	f.noteTrack(t)
	f.warnOfCodecs()
	if t.Packet == flv.PacketFrame {
		if ahead := int32(t.Timestamp - f.last); !f.timed || ahead >= 0 || ahead < -flvstream.Interleave {
			f.timed, f.last, f.lastAt = true, t.Timestamp, at
		}
		if f.hope.Passed(t.Timestamp) && !s.facts.Settled.Load() {
			s.facts.Settled.Store(true)
			s.facts.SetKnown()
		}
	}
	if part := f.preamble.Part(t); part != nil {
		return f.configure(t, c, part)
	}
	start, without := f.isStart(t), f.preamble.Without
	if f.tracksChange(start) {
		if without.Video && t.Type == flv.TypeVideo || without.Audio && t.Type == flv.TypeAudio {
			if err := f.repeatHeaders(t); err != nil {
				c.Release()
				return err
			}
		}
		return f.publishTracks(c, start || !f.starts.Video)
	}
	return s.publish(c, start)
}

// noteTrack notes that the track of t exists. Viewers need not wait for it any longer.
func (f *feed) noteTrack(t flv.Tag) {
	flag := flvstream.TrackFlag(t.Type)
	if t.Packet != flv.PacketFrame && !t.SequenceHeader || f.s.facts.Tracks.Load()&flag != 0 {
		return
	}
	f.s.facts.Tracks.Store(f.s.facts.Tracks.Load() | flag)
	if f.s.facts.AllPromised() {
		f.s.facts.SetKnown()
	}
}

// tracksChange reports whether later viewers get other tracks than before: absent audio is left out from a frame on that
// viewers can start at, which the next one is if start is set. Absent video is left out at once, and makes all audio such
// frames. A track that is back is added at once.
func (f *feed) tracksChange(start bool) bool {
	was := f.preamble.Without
	f.leaveOut(flv.TypeVideo, &f.preamble.Without.Video, &f.s.facts.Video, start)
	f.leaveOut(flv.TypeAudio, &f.preamble.Without.Audio, &f.s.facts.Audio, start)
	return f.preamble.Without != was
}

func (f *feed) leaveOut(t flv.Type, without *bool, known *atomic.Pointer[flvstream.Track], start bool) {
	switch tracks, flag := f.s.facts.Tracks.Load(), flvstream.TrackFlag(t); {
	case !f.presence.Absent(t):
		*without = false
	case tracks&flag != 0 && (start || t == flv.TypeVideo):
		*without = true
		f.starts.Video = f.starts.Video && t != flv.TypeVideo
		f.s.facts.Tracks.Store(tracks &^ flag)
		known.Store(nil)
	}
}

// publishTracks publishes a frame, the first with a preamble of other tracks. It takes ownership of c.
func (f *feed) publishTracks(c *millrace.Chain, start bool) error {
	s := f.s
	s.log.Info("the tracks of the stream changed", "video", s.facts.Video.Load().String(), "audio", s.facts.Audio.Load().String())
	var preamble millrace.Chain
	f.preamble.Clone(&preamble)
	s.mu.Lock() // what makes MP4 begins before or after both
	defer s.mu.Unlock()
	s.live.ring.SetPreamble(&preamble)
	s.facts.TrackSet.Add(1)
	return s.live.ring.Publish(c, broadcast.Frame{Key: start})
}

// repeatHeaders publishes the sequence headers of the track of t, which is back, for viewers who
// came without it.
func (f *feed) repeatHeaders(t flv.Tag) error {
	var headers millrace.Chain
	f.preamble.RetimeHeaders(&headers, &f.enc, t)
	if headers.Len() == 0 {
		return nil
	}
	return f.s.publish(&headers, false)
}

// noteTracks counts the tracks that t, which is in c, announces. It borrows c.
func (f *feed) noteTracks(t flv.Tag, c *millrace.Chain) {
	if !t.SequenceHeader || t.Len() > flvstream.MaxPart {
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
	f.s.facts.Further.Store(int32(further))
}

// farKeys is how far key frames may be apart. Encoders for live streams send one every two seconds.
const farKeys = 4 * time.Second

// noteKeys takes the time of a picture. It warns once of each publisher whose key frames are far apart.
func (f *feed) noteKeys(at uint32, key bool) {
	s, group := f.s, f.keys.Group(at)
	if far := farKeys.Milliseconds(); group > far && s.facts.GOP.Load() > far && !f.farLogged { // not for one odd timestamp
		f.farLogged = true
		// In another goroutine, as below: the log may block, and the stream must go on.
		go s.log.Warn("key frames are far apart: viewers begin at the last one, and stay that far behind live "+
			"(set the encoder's key frame interval to 2 s)", "publisher", f.address, "more than", farKeys)
	}
	if key {
		f.keys.Note(at)
		s.facts.KeyInterval.Store(f.keys.Longest())
		s.facts.UsualInterval.Store(f.keys.Usual())
		group = 0
	}
	s.facts.GOP.Store(group)
}

// isStart reports whether viewers can start at a tag, and notes whether they begin with the sound.
func (f *feed) isStart(t flv.Tag) bool {
	start := f.starts.IsStart(t, f.s.live.startIsKept)
	if start && !f.s.ownStart.Load() {
		f.s.ownStart.Store(true)
	}
	if t.Type == flv.TypeVideo {
		f.noteKeys(t.Timestamp, start)
	}
	if gap := f.starts.Gap.Open; gap != f.s.facts.NoVideo.Load() {
		f.s.facts.NoVideo.Store(gap)
		if !f.gapLogged {
			f.gapLogged = true
			go f.s.log.Info("there is sound, but no picture has come for a while: new viewers begin with the sound",
				"while", flvstream.VideoGapAfter*time.Millisecond)
		}
	}
	return start
}

// configure publishes a tag that viewers to come need as well.
func (f *feed) configure(t flv.Tag, c, part *millrace.Chain) error {
	flvstream.Keep(f.s.memory, part, c)
	if t.Metadata {
		f.size = flvstream.PictureSize(part.Bytes())
		f.resized = true
		// Before that, it is not known which tracks there will be, and viewers wait.
		if f.s.facts.Settled.Load() || f.s.facts.AllPromised() {
			flvstream.StateTracks(f.s.memory, c, f.s.facts.Tracks.Load())
		}
	}
	var preamble millrace.Chain
	f.preamble.Clone(&preamble)
	return f.s.configure(c, &preamble)
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
