package mp4

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// DefaultMaxWaitBytes is the default of MaxWaitBytes. No tag is that large.
const DefaultMaxWaitBytes = 16 << 20

const (
	// maxWaitSamples is the maximum number of samples that wait for a fragment. A stream with 60
	// video and 47 audio frames a second has fewer samples in a second.
	maxWaitSamples = 128

	// audioFrames is the number of audio frames in a fragment of a stream without video. They last
	// about a tenth of a second at the usual rates.
	audioFrames = 5
)

// lateFrames is the maximum number of audio frames in a fragment while video is late. It is so
// small that HLS can make parts of 280 ms, as with video.
const lateFrames = 2

// If more than maxLate audio frames wait, the Muxer sends all of them at once, because the reason
// is not that video is late.
const maxLate = 8

// maxRecord is the maximum size of a sequence header, in bytes. Parameter sets have some dozens of
// bytes. A limit is needed because every init segment repeats the sequence headers.
const maxRecord = 64 << 10

// trackWait is how long, in ms of the stream, the first fragment waits for an announced sequence
// header, or for the first video frame after one. The wait is short, because publishers send the
// sequence headers of both tracks together, but often announce tracks that they do not have.
const trackWait = 1000

// damagedWait is how long, in ms of the stream, video may be damaged before the init segment omits
// it. It is long enough for the loss of one keyframe, after which all frames are lost until the
// next keyframe, some seconds later.
const damagedWait = 10_000

// Option changes how a Muxer works. Options panic if a value is out of range.
type Option func(*Muxer)

// MaxWaitBytes limits the bytes of the samples that wait for a fragment. If a single sample is
// larger, WriteTag returns a *LimitError. If one more sample would exceed the limit, WriteTag sends
// the complete samples early. The newest sample of each track stays, so two tracks hold at most
// twice n.
func MaxWaitBytes(n int) Option {
	if n < 1 || n > 1<<30 {
		panic(fmt.Sprintf("mp4: MaxWaitBytes(%d): from 1 byte to 1 GiB", n))
	}
	return func(m *Muxer) { m.maxBytes = n }
}

// Tracks announces the tracks of the stream, as its FLV header does. The first fragment then waits
// for the sequence header of each track, so that a second sequence header a moment later does not
// replace the init segment. The wait ends after one second of the stream, or when 128 samples or
// MaxWaitBytes wait. If the Muxer refuses the codec or the sequence header of a track, the wait for
// that track ends at once.
func Tracks(video, audio bool) Option {
	return func(m *Muxer) { m.video.expected, m.audio.expected = video, audio }
}

// Fragment describes the fragment that WriteTag or Flush has appended. If several video frames were
// complete, there are several fragments, each with one video frame and its audio, and Fragment
// describes them together; see Muxer.Parts. If nothing was appended, Samples is 0.
//
// Key is set if the fragment begins with a keyframe. For a fragment with only audio, Key is set in
// three cases: the stream has no video, no video has been sent yet, or the next video frame will be
// a keyframe because the previous one was lost. If video has only stopped, Key is not set, because
// the next frame may refer to earlier frames.
type Fragment struct {
	Samples int  // number of video and audio frames
	Key     bool // a viewer with the init segment can begin at this fragment
	// The next fragment begins with a keyframe, which completed this fragment.
	KeyNext bool
	// The init segment has changed since the previous fragment, or this is the first fragment.
	NewInit bool
	// Earliest decoding time, in whole milliseconds of the stream's own time.
	Start    time.Duration
	Duration time.Duration // duration of the video, or of the audio if there is no video
	Sequence uint32        // number of the last fragment, from 1
}

// Clock makes the Muxer call now when a tag arrives. Use it for live streams. If the timestamps
// leap ahead, the Muxer then compares the leap with the time that has passed. If as much time has
// passed, it accepts the leap at once. Otherwise the leap is not a pause. Without Clock, and for
// other leaps, the Muxer accepts a leap only after later frames confirm it.
func Clock(now func() time.Time) Option {
	return func(m *Muxer) { m.wall = now }
}

// Muxer converts FLV tags to fragmented MP4. It belongs to one goroutine at a time. Release
// releases the samples that wait for a fragment.
type Muxer struct {
	maxBytes     int
	wall         func() time.Time // nil if the stream is not live
	clock        clock
	times        []int64 // memory for clock.add
	video, audio track
	needKey      bool // drop video until the next keyframe
	videoBegun   bool // a keyframe was sent
	noVideo      bool // the video is damaged: the init segment omits it until a good frame arrives

	sent     [2]*config // configs of video and audio in the last fragment
	sequence uint32
	head     boxes          // memory for the headers of a fragment
	parts    []FragmentInfo // see Parts

	leftOut int64    // see LeftOut
	empty   [][2]int // memory for cleanUnits
}

// NewMuxer returns a Muxer.
func NewMuxer(opts ...Option) *Muxer {
	m := &Muxer{maxBytes: DefaultMaxWaitBytes, needKey: true}
	m.video.id, m.audio.id = 1, 2
	for _, opt := range opts {
		opt(m)
	}
	return m
}

// WriteTag adds a tag. The Tag t and the tag's bytes in src must come from one call of
// flv.Decoder.Next, and src must have no other bytes. WriteTag takes ownership of src, even if it
// returns an error. If the tag completes a fragment, WriteTag appends the fragment to dst, which
// then owns it.
//
// WriteTag drops NAL units of length 0 from video frames, and ignores frames that decoders cannot
// decode; see LeftOut. It also ignores tags other than video, audio and their sequence headers,
// video before the first keyframe, and samples before their sequence header. A new sequence header
// completes a fragment of all waiting samples. The next fragment then has NewInit set, unless the
// old sequence header has returned by then. After a *CodecError, *ConfigError or *LimitError,
// WriteTag has appended nothing, and the caller may continue with the next tag.
func (m *Muxer) WriteTag(dst *millrace.Chain, t flv.Tag, src *millrace.Chain) (Fragment, error) {
	defer src.Release()
	m.parts = m.parts[:0]
	if t.Type != flv.TypeVideo && t.Type != flv.TypeAudio {
		return Fragment{}, nil
	}
	if t.Packet != flv.PacketSequenceHeader && t.Packet != flv.PacketFrame {
		return Fragment{}, nil
	}
	tr := m.track(t.Type)
	switch {
	case t.Encrypted:
		return Fragment{}, &CodecError{Type: t.Type, Codec: t.Codec, Why: "encrypted"}
	case t.Multitrack:
		return Fragment{}, &CodecError{Type: t.Type, Codec: t.Codec, Why: "in a list of tracks"}
	case !carried(t.Type, t.Codec):
		tr.expected = false
		return Fragment{}, &CodecError{Type: t.Type, Codec: t.Codec}
	case src.Len() != t.Len() || t.Payload <= 0 || t.Payload > t.Len()-4:
		return Fragment{}, errNotWhole
	}
	n := t.Len() - 4 - t.Payload // the last 4 bytes are the previous-tag-size
	src.Discard(t.Payload)
	var data millrace.Chain
	src.Cut(&data, n)
	defer data.Release()
	if t.Packet == flv.PacketSequenceHeader {
		return m.configure(dst, tr, t, &data)
	}
	if t.Type == flv.TypeVideo {
		return m.writeVideo(dst, t, &data)
	}
	return m.writeAudio(dst, t, &data)
}

// LeftOut returns the number of NAL units of length 0 that WriteTag has dropped, plus the number of
// video frames that it has ignored. Some encoders send units of length 0, and decoders fail at
// them. WriteTag ignores a frame that is not a sequence of NAL units, or contains no slice. If
// there has been no good frame yet, or none for 10 seconds of the stream, the init segment has no
// video, as if there were no sequence header.
func (m *Muxer) LeftOut() int64 { return m.leftOut }

// Flush appends a fragment of all waiting samples to dst, which then owns it. If no samples wait,
// dst is unchanged. The newest sample of each track gets the duration of the sample before it. Call
// Flush at the end of the stream. Release is then not necessary.
func (m *Muxer) Flush(dst *millrace.Chain) Fragment {
	m.parts = m.parts[:0]
	m.video.expected, m.audio.expected = false, false
	m.settle(false)
	m.video.finish()
	m.audio.finish()
	return m.emit(dst, true)
}

// Parts describes each MP4 fragment that the last call of WriteTag or Flush has appended, in order.
// The descriptions are the same as ReadFragment's. The slice is valid until the next call of
// WriteTag or Flush.
func (m *Muxer) Parts() []FragmentInfo { return m.parts }

// settle gives a time to all held samples. If full is set, no more samples can be held.
func (m *Muxer) settle(full bool) {
	if m.video.conf != nil {
		m.place(&m.video, m.clock.flush(m.times[:0], &m.clock.video, m.video.length(), full))
	}
	if m.audio.conf != nil {
		m.place(&m.audio, m.clock.flush(m.times[:0], &m.clock.audio, m.audio.length(), full))
	}
}

// Release releases the waiting samples. The Muxer can still be used, but drops video until the next
// keyframe.
func (m *Muxer) Release() {
	m.settle(false)
	m.video.release()
	m.audio.release()
	m.needKey, m.videoBegun = true, false
}

// videoConfig returns the config of the video, or nil if the init segment of the next fragment
// omits the video.
func (m *Muxer) videoConfig() *config {
	if m.noVideo {
		return nil
	}
	return m.video.conf
}

// track returns the track for tags of type t, audio or video.
func (m *Muxer) track(t flv.Type) *track {
	if t == flv.TypeAudio {
		return &m.audio
	}
	return &m.video
}

// configure processes a sequence header. It borrows record.
func (m *Muxer) configure(dst *millrace.Chain, tr *track, t flv.Tag,
	record *millrace.Chain) (Fragment, error) {
	if n := record.Len(); n > maxRecord {
		return Fragment{}, &LimitError{What: "sequence header", Have: n, Limit: maxRecord}
	}
	if tr.conf.same(t.Codec, record.Bytes()) {
		return Fragment{}, nil
	}
	conf, err := newConfig(t.Codec, record.Bytes())
	if err != nil {
		tr.expected = false
		return Fragment{}, err
	}
	var f Fragment
	if tr.conf != nil {
		f = m.Flush(dst)
		m.clock.restart()
		tr.rescale(tr.conf.scale, conf.scale)
	}
	tr.conf = conf
	if t.Type == flv.TypeVideo {
		m.needKey, m.videoBegun = true, false
	}
	return f, nil
}

// writeVideo takes ownership of data if it returns no error.
func (m *Muxer) writeVideo(dst *millrace.Chain, t flv.Tag, data *millrace.Chain) (Fragment, error) {
	tr := &m.video
	if tr.conf == nil || tr.conf.codec != t.Codec || m.needKey && !t.Key {
		return Fragment{}, nil
	}
	if err := m.checkSize(data); err != nil {
		m.needKey = true
		return Fragment{}, err
	}
	if !m.cleanUnits(tr.conf, data) {
		return m.leaveOut(dst, t), nil
	}
	m.noVideo = false
	f := m.makeRoom(dst, data.Len())
	slow := m.clock.video.slow > 0
	m.needKey = false // the fragment f ends before a keyframe
	m.hold(tr, &m.clock.video, t, data)
	if f.Samples == 0 && len(tr.done) > 0 && m.ready() {
		m.closeAudio()
		f = m.emit(dst, false)
	}
	// If audio is sent alone, the next fragment may have only audio from before the keyframe.
	f.KeyNext = t.Key && f.Samples > 0 && !slow && len(tr.held)+len(tr.done) == 0
	return f, nil
}

// leaveOut handles a damaged frame t. If there has been no good frame for damagedWait, it appends a
// fragment of all waiting samples to dst, which then owns it, and the next init segment has no
// video.
func (m *Muxer) leaveOut(dst *millrace.Chain, t flv.Tag) (f Fragment) {
	m.needKey = m.needKey || t.Key
	switch v := &m.clock.video; {
	case m.noVideo:
	case v.round == 0:
		m.noVideo = true
	case t.Key && m.clock.waited(v) > damagedWait:
		f = m.Flush(dst)
		m.noVideo, m.videoBegun = true, false
	}
	return f
}

// writeAudio takes ownership of data if it returns no error.
func (m *Muxer) writeAudio(dst *millrace.Chain, t flv.Tag, data *millrace.Chain) (Fragment, error) {
	tr := &m.audio
	if tr.conf == nil || data.Len() == 0 {
		return Fragment{}, nil
	}
	if err := m.checkSize(data); err != nil {
		return Fragment{}, err
	}
	f := m.makeRoom(dst, data.Len())
	m.hold(tr, &m.clock.audio, t, data)
	few := 1
	if m.videoConfig() == nil {
		few = audioFrames
	}
	if f.Samples == 0 && m.ready() && (len(m.video.done) > 0 || m.audioIsAlone() &&
		len(tr.done) >= few) {
		f = m.emit(dst, false)
	}
	return f, nil
}

// hold adds a sample to tr. It gives a time to all samples that the clock has a time for. It takes
// ownership of data.
func (m *Muxer) hold(tr *track, p *pace, t flv.Tag, data *millrace.Chain) {
	var wall int64
	if m.wall != nil {
		wall = m.wall().UnixMilli()
	}
	tr.held = append(tr.held, sample{size: uint32(data.Len()), shift: t.CompositionTime,
		key: t.Key || tr == &m.audio})
	tr.heldData.Merge(data)
	m.place(tr, m.clock.add(m.times[:0], p, t.Timestamp, tr.length(), wall))
}

// place gives the times to the oldest held samples of tr.
func (m *Muxer) place(tr *track, times []int64) {
	m.times = times
	for i, ms := range times {
		s := tr.held[i]
		s.at = tr.time(ms)
		tr.close(s.at)
		var data millrace.Chain
		tr.heldData.Cut(&data, int(s.size))
		tr.start(s, &data)
	}
	tr.held = tr.held[:copy(tr.held, tr.held[len(times):])]
}

// audioIsAlone reports whether to send audio without waiting for the next video frame, because
// there is no video, its frames are far apart, or the next frame is late.
func (m *Muxer) audioIsAlone() bool {
	switch v := &m.clock.video; {
	case m.video.conf == nil || v.slow > 0:
		return true
	case v.round == 0:
		return m.clock.waited(v) > trackWait
	default:
		return m.clock.waited(v) > maxAlone && m.clock.audio.now > v.now+maxAlone
	}
}

func (m *Muxer) checkSize(data *millrace.Chain) error {
	if n := data.Len(); n > m.maxBytes {
		return &LimitError{What: "sample (MaxWaitBytes)", Have: n, Limit: m.maxBytes}
	}
	return nil
}

// ready reports whether the first fragment has no more sequence headers to wait for.
func (m *Muxer) ready() bool {
	if m.clock.passed() >= trackWait {
		m.video.expected, m.audio.expected = false, false
	}
	return (m.video.conf != nil || !m.video.expected) && (m.audio.conf != nil || !m.audio.expected)
}

// makeRoom is called before a sample of n bytes is added. If too many samples wait, it appends a
// fragment of them. The Muxer then no longer waits for tracks, or for frames that confirm a time.
func (m *Muxer) makeRoom(dst *millrace.Chain, n int) Fragment {
	videos, videoBytes := m.video.waiting()
	sounds, soundBytes := m.audio.waiting()
	if videos+sounds < maxWaitSamples && videoBytes+soundBytes+n <= m.maxBytes {
		return Fragment{}
	}
	m.video.expected, m.audio.expected = false, false
	m.settle(true)
	m.closeAudio()
	return m.emit(dst, true)
}

// closeAudio ends the newest audio frame if no audio has arrived for a while, so that the frame
// need not wait for the next one.
func (m *Muxer) closeAudio() {
	if a := &m.clock.audio; a.round > 0 && m.clock.waited(a) > maxBack {
		m.audio.close(m.audio.next)
	}
}
