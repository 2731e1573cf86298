package mp4

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// DefaultMaxWaitBytes is the default of MaxWaitBytes: 16 MiB. Every sample is smaller, because an
// FLV tag has at most flv.MaxData bytes of data.
const DefaultMaxWaitBytes = 16 << 20

const (
	// maxWaitSamples limits the samples that wait for a fragment. It is enough for one second with
	// 60 video frames and 47 audio frames.
	maxWaitSamples = 128

	// audioFrames is the number of audio frames in a fragment of a stream without video. At the
	// usual sampling rates, these frames last about a tenth of a second.
	audioFrames = 5
)

// lateFrames is the maximum number of audio frames in a fragment that is sent without video because
// the next video frame is late. The number is small because HLS joins fragments into parts of a
// limited duration, for example 280 ms. Short fragments fill a part better than long fragments.
const lateFrames = 2

// maxLate is the maximum number of complete audio frames that wait for a late video frame.
const maxLate = 8

// maxRecord limits the size of a sequence header in bytes, because every init segment repeats it.
// Parameter sets have some dozens of bytes.
const maxRecord = 64 << 10

// trackWait is the maximum wait for a track to begin, in milliseconds of the stream:
//
//   - The first fragment waits for the sequence headers of announced tracks.
//   - After a video sequence header, audio waits for the first video frame.
//
// trackWait is short, because publishers send the sequence headers of both tracks together, but
// often announce tracks that they do not have.
const trackWait = 1000

// If all video frames are damaged for longer than damagedWait, the Muxer continues without video.
// damagedWait is longer than the wait for the next keyframe after a lost one.
const damagedWait = 10_000 // ms

// Option configures a Muxer. A function that returns an Option panics if its argument is out of
// range.
type Option func(*Muxer)

// MaxWaitBytes limits the total size of the samples that wait for a fragment to n bytes. If a
// single sample is larger, WriteTag returns a *LimitError.
//
// If another sample would exceed the limit, WriteTag sends the complete samples early. The newest
// sample of each track still waits, because its duration is not known yet. Each of these samples
// may have up to n bytes. With two tracks, up to 2n bytes can therefore wait.
func MaxWaitBytes(n int) Option {
	if n < 1 || n > 1<<30 {
		panic(fmt.Sprintf("mp4: MaxWaitBytes(%d): from 1 byte to 1 GiB", n))
	}
	return func(m *Muxer) { m.maxBytes = n }
}

// Tracks announces the tracks of the stream, as its FLV header does. The first fragment waits for
// the sequence headers of these tracks, so that its init segment need not be replaced. The wait
// ends after one second of the stream, when 128 samples wait, or at the limit of MaxWaitBytes. It
// also ends for a track when the Muxer refuses its codec or sequence header.
func Tracks(video, audio bool) Option {
	return func(m *Muxer) { m.video.expected, m.audio.expected = video, audio }
}

// Fragment describes the fragment that WriteTag or Flush has appended. If nothing was appended,
// Samples is 0.
//
// If several video frames were complete, WriteTag or Flush has appended several fragments, each
// with one video frame and its audio. The Fragment then describes all of them together; see
// Muxer.Parts.
//
// Key is set if the fragment begins with a keyframe. If the fragment has only audio, Key is set in
// three cases:
//
//   - The stream has no video.
//   - No video has been sent yet.
//   - A video frame was lost, so the next video frame will be a keyframe.
//
// If the fragment has only audio because the next video frame is late, Key is not set. That video
// frame may refer to earlier frames.
type Fragment struct {
	Samples int  // number of video and audio frames
	Key     bool // a viewer with the init segment can begin at this fragment
	// KeyNext is set if the next fragment begins with a keyframe, which has already arrived.
	KeyNext bool
	// NewInit is set if the init segment is the first one, or has changed.
	NewInit bool
	// Start is the earliest decoding time, in whole milliseconds. It does not wrap around.
	Start    time.Duration
	Duration time.Duration // duration of the video, or of the audio if there is no video
	Sequence uint32        // number of the last fragment, from 1
}

// Clock sets the function that the Muxer calls to read the current time, such as time.Now. The
// Muxer calls this function when a tag arrives. Use Clock for live streams.
//
// If the timestamps jump ahead, the Muxer compares the jump with the time that has passed:
//
//   - If as much time has passed, the Muxer accepts the jump as a pause in the stream: for video at
//     once, and for audio after a few frames.
//   - If less time has passed, the jump is not a pause. After later frames have confirmed the jump,
//     the stream continues without a pause.
//
// If the timestamps jump back, or if Clock is not set, the Muxer accepts a jump only after later
// frames confirm it.
func Clock(now func() time.Time) Option {
	return func(m *Muxer) { m.wall = now }
}

// Muxer converts FLV tags to fragmented MP4. It belongs to one goroutine at a time. Call Release to
// release the samples that wait for a fragment.
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
	head     boxBuffer      // memory for the headers of a fragment
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

// WriteTag adds a tag. The Tag t and the tag's bytes in src must come from one call to
// flv.Decoder.Next, and src must have no other bytes. WriteTag takes ownership of src, even if it
// returns an error. If the tag completes a fragment, WriteTag appends the fragment to dst, which
// then owns it.
//
// WriteTag ignores some tags:
//
//   - Tags other than video, audio and their sequence headers.
//   - Video before the first keyframe.
//   - Samples before the sequence header of their track.
//   - Video frames that decoders cannot decode; see LeftOut.
//
// From other video frames, WriteTag drops NAL units of length 0.
//
// If a sequence header differs from the previous sequence header of its track, WriteTag appends all
// waiting samples as a fragment. NewInit is set in the next fragment if its init segment differs
// from the previous init segment.
//
// If the error is a *CodecError, *ConfigError or *LimitError, WriteTag has appended nothing, and
// the caller may continue with the next tag.
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
	src.CutTo(&data, n)
	defer data.Release()
	if t.Packet == flv.PacketSequenceHeader {
		return m.configure(dst, tr, t, &data)
	}
	if t.Type == flv.TypeVideo {
		return m.writeVideo(dst, t, &data)
	}
	return m.writeAudio(dst, t, &data)
}

// LeftOut returns how many NAL units and video frames WriteTag has left out. It is the sum of two
// numbers:
//
//   - The number of NAL units of length 0. Some encoders send them, but decoders cannot handle
//     them.
//   - The number of damaged video frames. A damaged frame is not a sequence of NAL units, or
//     contains no slice.
//
// The Muxer continues without video if all video frames so far were damaged. It also does so if all
// video frames were damaged for more than 10 seconds. In both cases, the init segment has no video
// track until a good keyframe arrives.
func (m *Muxer) LeftOut() int64 { return m.leftOut }

// Flush appends all waiting samples to dst as a fragment, which dst then owns. If no samples wait,
// dst is unchanged. The newest sample of each track gets the usual duration, because no sample
// follows it.
//
// Call Flush at the end of the stream. After Flush, no samples are waiting, so Release need not be
// called.
func (m *Muxer) Flush(dst *millrace.Chain) Fragment {
	m.parts = m.parts[:0]
	m.video.expected, m.audio.expected = false, false
	m.settle(false)
	m.video.finish()
	m.audio.finish()
	return m.emit(dst, true)
}

// Parts describes each MP4 fragment that the last call to WriteTag or Flush has appended, in order.
// The slice is valid until the next call to WriteTag or Flush.
func (m *Muxer) Parts() []FragmentInfo { return m.parts }

// settle sets the decoding times of all held samples. It passes full to clock.flush.
func (m *Muxer) settle(full bool) {
	if m.video.conf != nil {
		m.setTimes(&m.video, m.clock.flush(m.times[:0], &m.clock.video, m.video.length(), full))
	}
	if m.audio.conf != nil {
		m.setTimes(&m.audio, m.clock.flush(m.times[:0], &m.clock.audio, m.audio.length(), full))
	}
}

// Release drops the samples that are not yet in a fragment, and frees their memory. The Muxer can
// still be used, but drops video until the next keyframe.
func (m *Muxer) Release() {
	m.settle(false)
	m.video.release()
	m.audio.release()
	m.needKey, m.videoBegun = true, false
}

// videoConfig returns the config of the video, or nil if the next init segment omits the video.
func (m *Muxer) videoConfig() *config {
	if m.noVideo {
		return nil
	}
	return m.video.conf
}

func (m *Muxer) track(t flv.Type) *track {
	if t == flv.TypeAudio {
		return &m.audio
	}
	return &m.video
}

// configure sets the codec parameters of track tr from a sequence header. If the parameters change,
// configure first appends a fragment of all waiting samples to dst, and returns a description of
// that fragment. record is the content of the sequence header; configure borrows it.
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

// writeVideo adds a video frame. It returns a description of the fragment that it has appended to
// dst, if any. It takes ownership of data if it returns no error.
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
	m.addSample(tr, &m.clock.video, t, data)
	if f.Samples == 0 && len(tr.done) > 0 && m.isReady() {
		m.closeAudio()
		f = m.emit(dst, false)
	}
	// If audio is sent alone, the next fragment may have only audio from before the keyframe.
	f.KeyNext = t.Key && f.Samples > 0 && !slow && len(tr.held)+len(tr.done) == 0
	return f, nil
}

// leaveOut drops a damaged video frame.
//
// If the video has been damaged for longer than damagedWait, leaveOut appends the waiting samples
// to dst as a fragment, which dst then owns. The Muxer then continues without video, with a new
// init segment.
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

// writeAudio adds an audio frame. It returns a description of the fragment that it has appended to
// dst, if any. It takes ownership of data if it returns no error.
func (m *Muxer) writeAudio(dst *millrace.Chain, t flv.Tag, data *millrace.Chain) (Fragment, error) {
	tr := &m.audio
	if tr.conf == nil || data.Len() == 0 {
		return Fragment{}, nil
	}
	if err := m.checkSize(data); err != nil {
		return Fragment{}, err
	}
	f := m.makeRoom(dst, data.Len())
	m.addSample(tr, &m.clock.audio, t, data)
	few := 1
	if m.videoConfig() == nil {
		few = audioFrames
	}
	if f.Samples == 0 && m.isReady() && (len(m.video.done) > 0 || m.audioIsAlone() &&
		len(tr.done) >= few) {
		f = m.emit(dst, false)
	}
	return f, nil
}

// addSample adds a sample to the track tr, and takes ownership of data. Usually the sample gets its
// decoding time at once. If later frames must first confirm its timestamp, the sample waits. If the
// new sample confirms the timestamps of waiting samples, addSample sets their decoding times, too.
func (m *Muxer) addSample(tr *track, p *pace, t flv.Tag, data *millrace.Chain) {
	var wall int64
	if m.wall != nil {
		wall = m.wall().UnixMilli()
	}
	tr.held = append(tr.held, sample{size: uint32(data.Len()), shift: t.CompositionTime,
		key: t.Key || tr == &m.audio})
	tr.heldData.Merge(data)
	m.setTimes(tr, m.clock.add(m.times[:0], p, t.Timestamp, tr.length(), wall))
}

// setTimes sets the decoding times of the first len(times) samples in tr.held, and removes these
// samples from tr.held. times[i] is the time of sample i in the stream, in ms.
func (m *Muxer) setTimes(tr *track, times []int64) {
	m.times = times
	for i, ms := range times {
		s := tr.held[i]
		s.at = tr.time(ms)
		tr.close(s.at)
		var data millrace.Chain
		tr.heldData.CutTo(&data, int(s.size))
		tr.start(s, &data)
	}
	tr.held = tr.held[:copy(tr.held, tr.held[len(times):])]
}

// audioIsAlone reports whether to send audio without waiting for the next video frame. Audio does
// not wait if there is no video, if video frames are far apart, or if the next video frame is late.
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

// isReady reports whether all announced sequence headers have arrived, or trackWait is over.
func (m *Muxer) isReady() bool {
	if m.clock.passed() >= trackWait {
		m.video.expected, m.audio.expected = false, false
	}
	return (m.video.conf != nil || !m.video.expected) && (m.audio.conf != nil || !m.audio.expected)
}

// makeRoom makes room for another sample of n bytes. If the Muxer is full, makeRoom appends the
// complete samples to dst as a fragment. makeRoom sends the samples even if the sequence header of
// an announced track is missing, or if a timestamp has not been confirmed by later frames.
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

// closeAudio ends the newest audio frame if no audio has arrived for a while.
func (m *Muxer) closeAudio() {
	if a := &m.clock.audio; a.round > 0 && m.clock.waited(a) > maxBack {
		m.audio.close(m.audio.next)
	}
}
