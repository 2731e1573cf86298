// Package feed makes the frames of a live stream from the FLV tags of its publishers.
//
// A [Feed] belongs to one stream, and continues when the publisher changes. It makes the timestamps
// of the publishers continuous, drops tags that the stream already has, and finds the tags at which
// viewers can start. It publishes to a [rendition.Set].
package feed

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// A Feed turns FLV tags into frames, and collects facts about the stream. Only the publisher's
// goroutine uses it: it calls Begin or Resume, and then Write.
type Feed struct {
	log    *slog.Logger
	memory *millrace.Pool
	out    *rendition.Set
	facts  *flvstream.Facts // the facts of out

	address string // the address of the publisher
	// continues changes the timestamps of the publisher's tags so that they continue the timestamps
	// of the earlier publishers. It is nil if there was no earlier publisher.
	continues *flvstream.Continuation
	overlap   *overlap // nil for a publisher of this node
	// The overlap before a publisher of this node that has not published a frame yet; otherwise nil.
	before *overlap

	// unkept is the number of bytes that have arrived since the last published frame. Over RTMP, it
	// includes the frame that Write publishes; see Skip.
	unkept int

	starts   flvstream.StartFinder
	presence flvstream.Presence
	// The track numbers in the publisher's sequence headers, for audio and for video.
	tracks    map[flv.Type]map[byte]bool
	gapLogged bool
	trackTime flvstream.TrackTimer
	farLogged bool // the warning about rare keyframes was logged
	warned    bool // the warning about codecs that MP4 leaves out was logged
	resized   bool // new metadata have arrived, so the video may have another size
	keys      flvstream.KeyMeter

	enc      flv.Encoder // rewrites tags with changed timestamps
	preamble flvstream.Preamble
	size     string // size of the video, as in 640x360; "" if not known

	last lastFrame
}

// A lastFrame describes the published frame with the latest timestamp.
type lastFrame struct {
	timed bool   // a frame was published
	time  uint32 // the frame's timestamp, in ms
	at    int64  // when the frame arrived: monotonic, in ns
}

// New returns a Feed that publishes to out. The caller must call Release. The Feed borrows the
// Pool, which counts the memory of the stream.
func New(out *rendition.Set, log *slog.Logger, memory *millrace.Pool) *Feed {
	return &Feed{out: out, facts: out.Facts(), log: log, memory: memory}
}

// Release releases the memory that f holds.
func (f *Feed) Release() {
	f.preamble.Release()
	f.enc.Release()
}

// A Publisher describes the source of the tags of a Feed.
type Publisher struct {
	Address string
	// Epoch is 0 for a publisher that is connected to this node. If another node sends the stream,
	// Epoch is the number of that node's ownership (see live.Lease).
	Epoch   uint64
	Skipped int // bytes that came before the first tag
}

// Begin prepares f for the stream's first publisher. It must be called before the first tag.
func (f *Feed) Begin(p Publisher) {
	f.address, f.unkept = p.Address, p.Skipped
	f.preparePublisher(p.Epoch)
	f.out.SetPublisher(p.Address)
}

// Resume prepares f for a further publisher, and is called instead of Begin. now is the monotonic
// time, in ns. pause is the time since the last frame, or 0 if there was none.
func (f *Feed) Resume(p Publisher, now int64) (pause time.Duration) {
	f.keys.Pause()
	f.farLogged = false // the time between two publishers does not count as a GOP
	f.starts.ForgetTracks()
	f.presence, f.tracks = flvstream.Presence{}, nil
	f.facts.Further.Store(0)
	if f.last.timed {
		pause = time.Duration(now - f.last.at)
	}
	f.continues = f.newContinuation()
	f.Begin(p)
	return pause
}

// preparePublisher prepares f for a publisher with the given epoch. If the latest publisher of which
// f has published a frame has the same epoch, and it is not 0, this node has reconnected to the owner
// of the stream. f then drops the frames that the stream already has.
func (f *Feed) preparePublisher(epoch uint64) {
	latest := cmp.Or(f.overlap, f.before)
	f.overlap, f.before = nil, nil
	switch {
	case epoch == 0:
		f.before = latest
	case latest == nil || latest.epoch != epoch:
		f.overlap = &overlap{epoch: epoch, continues: f.continues}
	default:
		// Even without an earlier publisher, a Continuation is needed, because it drops headers
		// that the stream already has.
		latest.continues = cmp.Or(latest.continues, &flvstream.Continuation{})
		f.continues = latest.continues
		latest.joins, latest.again = true, 0
		f.overlap = latest
	}
}

func (f *Feed) newContinuation() *flvstream.Continuation {
	return flvstream.Continue(f.last.timed, f.last.time, f.last.at)
}

// Skip adds n to the number of bytes that have arrived since the last published frame. Over RTMP, n
// includes the bytes of the next frame.
func (f *Feed) Skip(n int) { f.unkept += n }

// Write publishes the tag t, unless the stream already has it. It takes ownership of c, which holds
// all bytes of t. now is the monotonic time, in ns.
func (f *Feed) Write(t flv.Tag, c *millrace.Chain, now int64) error {
	f.starts.Note(t)
	f.presence.Note(t)
	f.noteTracks(t, c)
	if f.overlap != nil {
		switch f.overlap.classify(t, c, f.out.StartIsKept) {
		case repeated:
			f.discard(c)
			return nil
		case restarted:
			f.continues = f.newContinuation()
			f.overlap.continues = f.continues
		case afterGap:
			last := f.last.time
			f.facts.Resumed.Store(&last)
		}
	}
	if n := f.continues; n != nil && n.Begin(t, now) {
		last := n.Last()
		f.facts.Resumed.Store(&last)
	}
	if f.continues != nil && !f.continues.Fit(&t, c, now, &f.starts, &f.preamble, &f.enc) {
		f.discard(c)
		return nil
	}
	if f.unkept > 2*c.Len()+flvstream.MaxUnkept {
		var frame millrace.Chain
		flvstream.Keep(f.memory, &frame, c)
		c.Release()
		c.Merge(&frame)
	}
	f.unkept = 0
	if t.Packet == flv.PacketFrame {
		f.before = nil
	}
	return f.write(t, c, now)
}

// discard releases a tag that is not published, and adds its size to f.unkept.
func (f *Feed) discard(c *millrace.Chain) {
	f.unkept += c.Len()
	c.Release()
}

// warnOfCodecs logs once if the stream has codecs that browsers, MP4 and HLS do not support.
func (f *Feed) warnOfCodecs() {
	if f.warned || !f.facts.Settled.Load() || f.overlap != nil {
		return
	}
	if left := f.facts.LeftOut(); left != "" {
		f.warned = true
		f.log.Warn("MP4, HLS and browsers get only H.264, H.265 and AAC of this stream",
			"left_out", left, "video", f.facts.Video.Load().String(), "audio",
			f.facts.Audio.Load().String())
	}
}

// write adds the tag t to the stream's frames, and updates the facts about the stream. It takes
// ownership of c, which holds all bytes of the tag. now is the current monotonic time, in ns.
func (f *Feed) write(t flv.Tag, c *millrace.Chain, now int64) error {
	switch {
	case f.starts.Secondary(t): // players and MP4 use the default track
	case t.Codec == 0: // no codec, or several
	case t.Type == flv.TypeVideo && (f.resized || !f.facts.Video.Load().Is(t.Codec)):
		f.resized = false
		f.facts.Describe(t, f.size)
	case t.Type == flv.TypeAudio && !f.facts.Audio.Load().Is(t.Codec):
		f.facts.Describe(t, "")
	}
	f.noteTrack(t)
	f.warnOfCodecs()
	if t.Packet == flv.PacketFrame {
		if ahead := int32(t.Timestamp - f.last.time); !f.last.timed || ahead >= 0 ||
			ahead < -flvstream.Interleave {
			f.last = lastFrame{true, t.Timestamp, now}
		}
		if f.trackTime.Passed(t.Timestamp) && !f.facts.Settled.Load() {
			f.facts.Settled.Store(true)
			f.facts.SetKnown()
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
	return f.out.Publish(c, start)
}

// noteTrack records that the track of the tag t exists, so that viewers no longer wait for this
// track.
func (f *Feed) noteTrack(t flv.Tag) {
	flag := flvstream.TrackFlag(t.Type)
	if t.Packet != flv.PacketFrame && !t.SequenceHeader || f.facts.Tracks.Load()&flag != 0 {
		return
	}
	f.facts.Tracks.Store(f.facts.Tracks.Load() | flag)
	if f.facts.AllPromised() {
		f.facts.SetKnown()
	}
}

// tracksChange updates the set of tracks that later viewers get, and reports whether the set
// changed. The parameter canStart says whether viewers can start at the next frame.
//   - A track that has returned is added at once.
//   - If audio is absent, its track is removed when canStart is true.
//   - If video is absent, its track is removed at once. Without video, viewers can start at every
//     audio frame.
func (f *Feed) tracksChange(canStart bool) bool {
	was := f.preamble.Without
	f.leaveOut(flv.TypeVideo, &f.preamble.Without.Video, &f.facts.Video, canStart)
	f.leaveOut(flv.TypeAudio, &f.preamble.Without.Audio, &f.facts.Audio, canStart)
	return f.preamble.Without != was
}

func (f *Feed) leaveOut(t flv.Type, without *bool, known *atomic.Pointer[flvstream.Track],
	start bool) {
	switch tracks, flag := f.facts.Tracks.Load(), flvstream.TrackFlag(t); {
	case !f.presence.Absent(t):
		*without = false
	case tracks&flag != 0 && (start || t == flv.TypeVideo):
		*without = true
		f.starts.Video = f.starts.Video && t != flv.TypeVideo
		f.facts.Tracks.Store(tracks &^ flag)
		known.Store(nil)
	}
}

// publishTracks publishes the frame in c after the set of tracks has changed. Later viewers get the
// headers of the changed tracks. The parameter canStart says whether viewers can start at the
// frame. publishTracks takes ownership of c.
func (f *Feed) publishTracks(c *millrace.Chain, canStart bool) error {
	f.log.Info("the tracks of the stream changed", "video", f.facts.Video.Load().String(), "audio",
		f.facts.Audio.Load().String())
	var preamble millrace.Chain
	f.preamble.CloneTo(&preamble)
	return f.out.ChangeTracks(c, &preamble, canStart)
}

// repeatHeaders publishes the sequence headers of a returned track again, for viewers that came
// while the track was missing. t belongs to this track.
func (f *Feed) repeatHeaders(t flv.Tag) error {
	var headers millrace.Chain
	f.preamble.RetimeHeaders(&headers, &f.enc, t)
	if headers.Len() == 0 {
		return nil
	}
	return f.out.Publish(&headers, false)
}

// noteTracks counts the tracks that the tag t announces. It borrows c, which holds the tag.
func (f *Feed) noteTracks(t flv.Tag, c *millrace.Chain) {
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
	f.facts.Further.Store(int32(further))
}

// farKeys is the distance between keyframes above which a warning is logged. Encoders for live
// streams send a keyframe every two seconds.
const farKeys = 4 * time.Second

// noteKeys records the timestamp of a video frame, which is a keyframe if key is true. If keyframes
// are far apart, it logs a warning once per publisher.
func (f *Feed) noteKeys(timestamp uint32, key bool) {
	group := f.keys.Group(timestamp)
	// Warn only if two video frames in a row are more than farKeys after the latest keyframe,
	// because a single timestamp may be wrong.
	if far := farKeys.Milliseconds(); group > far && f.facts.GOP.Load() > far && !f.farLogged {
		f.farLogged = true
		// Log in another goroutine, because writing to the log may block.
		go f.log.Warn(
			"keyframes are far apart: viewers start at the last one, and stay that far behind live "+
				"(set the encoder's keyframe interval to 2 s)", "publisher", f.address, "more than",
			farKeys)
	}
	if key {
		f.keys.Note(timestamp)
		f.facts.KeyInterval.Store(f.keys.Longest())
		f.facts.UsualInterval.Store(f.keys.Usual())
		group = 0
	}
	f.facts.GOP.Store(group)
}

// isStart reports whether viewers can start at the tag t. It also records in f.facts whether new
// viewers start with audio because there is no video.
func (f *Feed) isStart(t flv.Tag) bool {
	start := f.starts.IsStart(t, f.out.StartIsKept)
	if start {
		f.out.NoteStart()
	}
	if t.Type == flv.TypeVideo {
		f.noteKeys(t.Timestamp, start)
	}
	if gap := f.starts.Gap.Open; gap != f.facts.NoVideo.Load() {
		f.facts.NoVideo.Store(gap)
		if !f.gapLogged {
			f.gapLogged = true
			go f.log.Info("there is audio but no video: new viewers start with the audio",
				"while", flvstream.VideoGapAfter*time.Millisecond)
		}
	}
	return start
}

// configure publishes the tag t, and stores a copy for later viewers in part. It takes ownership of
// c, which holds all bytes of t.
func (f *Feed) configure(t flv.Tag, c, part *millrace.Chain) error {
	flvstream.Keep(f.memory, part, c)
	if t.Metadata {
		f.size = flvstream.PictureSize(part.Bytes())
		f.resized = true
		// Correct the metadata only if the tracks are known. Until then, viewers wait for the
		// tracks.
		if f.facts.Settled.Load() || f.facts.AllPromised() {
			flvstream.StateTracks(f.memory, c, f.facts.Tracks.Load())
		}
	}
	var preamble millrace.Chain
	f.preamble.CloneTo(&preamble)
	return f.out.Configure(c, &preamble)
}
