package mp4

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// DefaultMaxWaitBytes is the default of MaxWaitBytes. It is above the size of any tag.
const DefaultMaxWaitBytes = 16 << 20

const (
	// maxWaitSamples limits the samples that wait for a fragment. If a stream has 60 video and 47
	// audio frames a second, it is more than a second of the stream.
	maxWaitSamples = 128

	// audioFrames is how many audio frames a fragment has if the stream has no video, or video has
	// stopped. They last about a tenth of a second at the usual rates.
	audioFrames = 5
)

// lateFrames limits the audio frames of a fragment while video is late. It is so small that HLS can
// still cut parts every 280 ms, as it does with video.
const lateFrames = 2

// maxLate is the largest number of waiting audio frames that are sent a few at a time when video is
// late. If more frames wait, the reason is not that video is late.
const maxLate = 8

// maxRecord limits the size of a sequence header, in bytes. The limit is needed because every init
// segment repeats the sequence headers. Parameter sets have some dozens of bytes.
const maxRecord = 64 << 10

// trackWait is how long, in ms of the stream, the first fragment waits for an announced sequence
// header, or for the first video frame after one. Publishers send the sequence headers of both
// tracks together. They often announce tracks that they do not have.
const trackWait = 1000

// damagedWait is how long, in ms of the stream, video may be damaged before the init segment omits
// it. If a keyframe is damaged, all frames are lost up to the next keyframe, some seconds later.
const damagedWait = 10_000

// Option changes how a Muxer works. Options panic if a value is out of range.
type Option func(*Muxer)

// MaxWaitBytes limits the samples that wait for a fragment, in bytes. If a single sample is larger,
// WriteTag returns a *LimitError. If one more sample would exceed the limit, the complete samples
// are sent early. The newest sample of each track stays, so two tracks hold at most twice n.
func MaxWaitBytes(n int) Option {
	if n < 1 || n > 1<<30 {
		panic(fmt.Sprintf("mp4: MaxWaitBytes(%d): from 1 byte to 1 GiB", n))
	}
	return func(m *Muxer) { m.maxBytes = n }
}

// Tracks announces the tracks of the stream, as its FLV header does. The first fragment then waits
// for the sequence header of each track. Without this wait, the init segment would have to be
// replaced when the second sequence header arrives a moment later. The wait ends after one second
// of the stream, or when 128 samples or MaxWaitBytes wait. If the codec or the sequence header of a
// track is refused, the wait for that track ends at once.
func Tracks(video, audio bool) Option {
	return func(m *Muxer) { m.video.expected, m.audio.expected = video, audio }
}

// Fragment describes the fragment that WriteTag or Flush has appended. If several video frames were
// complete, it describes several fragments together, each with one video frame and its audio; see
// Muxer.Parts. If nothing was appended, Samples is 0.
//
// Key is set if the fragment begins with a keyframe. If the fragment has only audio, Key is set in
// three cases: the stream has no video, no video has been sent yet, or the next video frame will be
// a keyframe because the previous one was lost. Key is not set while video has stopped, because the
// next frame may refer to earlier frames.
type Fragment struct {
	Samples int  // video and audio frames
	Key     bool // a viewer that has the init segment can begin at this fragment; see above
	// The tag that completed the fragment is a keyframe. The next fragment begins with that
	// keyframe.
	KeyNext bool
	// The init segment differs from that of the previous fragment, or there is no previous
	// fragment.
	NewInit bool
	// Earliest decoding time, in whole milliseconds of the stream's own time.
	Start    time.Duration
	Duration time.Duration // duration of the video, or of the audio if there is no video
	Sequence uint32        // number of the last fragment, from 1 on
}

// Clock makes the Muxer call now when a tag arrives. It is for live streams. If the timestamps leap
// ahead, the leap is then accepted at once if as much time has passed. If less time has passed, the
// leap is not treated as a pause. Without Clock, and for other leaps, a leap is accepted only after
// later frames confirm it.
func Clock(now func() time.Time) Option {
	return func(m *Muxer) { m.wall = now }
}

// Muxer turns FLV tags into fragmented MP4. It belongs to one goroutine at a time. Release releases
// the samples that wait.
type Muxer struct {
	maxBytes     int
	wall         func() time.Time // nil if the stream is not live
	clock        clock
	times        []int64 // memory for clock.add
	video, audio track
	needKey      bool // drop video up to the next keyframe
	videoBegun   bool // video was sent at which viewers can start
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

// WriteTag adds a tag. flv.Decoder.Next must have described it as t and appended it to src, and src
// must hold nothing else. WriteTag takes ownership of src, even if it returns an error. If the tag
// completes a fragment, WriteTag appends the fragment to dst, which then owns it.
//
// WriteTag drops NAL units of length 0 from video frames, and ignores frames that decoders cannot
// decode; see LeftOut. It also ignores tags other than video, audio and their sequence headers,
// video before the first keyframe, and samples before their sequence header. A new sequence header
// completes a fragment of all waiting samples. The next fragment then has NewInit set, unless the
// old sequence header has returned by then. A *CodecError, *ConfigError or *LimitError concerns
// only this tag. Nothing is appended then, and the next tag may be written.
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
	n := t.Len() - 4 - t.Payload // the last 4 are the previous-tag-size
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

// LeftOut returns how many NAL units of length 0 WriteTag has dropped, plus how many video frames
// it has ignored. Some encoders send units of length 0, and decoders fail at them. A frame is
// ignored if it is not a sequence of NAL units, or contains no slice. If no good frame has arrived
// yet, or none for 10 seconds of the stream, the init segment has no video, as if there were no
// sequence header.
func (m *Muxer) LeftOut() int64 { return m.leftOut }

// Flush appends a fragment of all waiting samples to dst, which then owns it. If no samples wait,
// dst is unchanged. The newest sample of each track gets the duration of the sample before it. Call
// Flush at the end of the stream. The Muxer then has nothing left to release.
func (m *Muxer) Flush(dst *millrace.Chain) Fragment {
	m.parts = m.parts[:0]
	m.video.expected, m.audio.expected = false, false
	m.settle(false)
	m.video.finish()
	m.audio.finish()
	return m.emit(dst, true)
}

// Parts describes each MP4 fragment that the last call of WriteTag or Flush has appended, in order.
// The descriptions are the same as ReadFragment's. The slice belongs to the Muxer, and the next
// call of WriteTag or Flush overwrites it.
func (m *Muxer) Parts() []FragmentInfo { return m.parts }

// settle gives times to the held samples. full means that no more samples can be held.
func (m *Muxer) settle(full bool) {
	if m.video.conf != nil {
		m.place(&m.video, m.clock.flush(m.times[:0], &m.clock.video, m.video.length(), full))
	}
	if m.audio.conf != nil {
		m.place(&m.audio, m.clock.flush(m.times[:0], &m.clock.audio, m.audio.length(), full))
	}
}

// Release releases the waiting samples. The Muxer may still be used. It then drops video up to the
// next keyframe.
func (m *Muxer) Release() {
	m.settle(false)
	m.video.release()
	m.audio.release()
	m.needKey, m.videoBegun = true, false
}

// videoConfig returns the sequence header of the video. If the init segment of the next fragment
// omits the video, it returns nil.
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
	m.needKey = false // the last fragment ends before a keyframe
	m.hold(tr, &m.clock.video, t, data)
	if f.Samples == 0 && len(tr.done) > 0 && m.ready() {
		m.closeAudio()
		f = m.emit(dst, false)
	}
	// While audio is sent alone, that audio is sent before the next video frame.
	f.KeyNext = t.Key && f.Samples > 0 && !slow && len(tr.held)+len(tr.done) == 0
	return f, nil
}

// leaveOut records that the frame t is damaged. If there has been no good frame for damagedWait,
// leaveOut appends a fragment of all waiting samples to dst, which then owns it. The next init
// segment has no video.
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

// hold adds a sample, and places all samples whose time is now known. It takes ownership of data.
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

// place gives times to the oldest samples that tr holds.
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

// audioIsAlone reports whether audio is sent without waiting for the next video frame. That is the
// case if there is no video, its frames are far apart, or the next frame is late.
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

// ready reports whether the first fragment need not wait for the sequence header of any announced
// track.
func (m *Muxer) ready() bool {
	if m.clock.passed() >= trackWait {
		m.video.expected, m.audio.expected = false, false
	}
	return (m.video.conf != nil || !m.video.expected) && (m.audio.conf != nil || !m.audio.expected)
}

// makeRoom is called before a sample of n bytes is added. If the waiting samples must be sent
// first, it appends a fragment of them. The Muxer then stops waiting for tracks, and for frames
// that confirm a time.
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

// closeAudio ends the newest audio frame if audio has stopped. It does not wait for the time of the
// next audio frame.
func (m *Muxer) closeAudio() {
	if a := &m.clock.audio; a.round > 0 && m.clock.waited(a) > maxBack {
		m.audio.close(m.audio.next)
	}
}
