package mp4

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// Defaults of the options.
const (
	// DefaultMaxWaitBytes holds any tag that FLV can say.
	DefaultMaxWaitBytes = 16 << 20
	// DefaultMaxWaitSamples is more than a second of a stream of 60 pictures and 47 frames of sound a second.
	DefaultMaxWaitSamples = 128
	// DefaultAudioFrames make a fragment of about a tenth of a second at the usual rates.
	DefaultAudioFrames = 5
)

// maxRecord bounds a sequence header: parameter sets are some dozens of bytes, and a file's header repeats them.
const maxRecord = 64 << 10

// trackWait is how much of the stream, in ms, passes before a sequence header that was announced, or the first picture
// behind one, is no longer waited for. Publishers send both at once; what has not come after a second was promised by
// mistake.
const trackWait = 1000

// Option changes how a Muxer works. Options panic when a value is out of range.
type Option func(*Muxer)

// MaxWaitBytes bounds the samples that wait for a fragment, in bytes. A larger sample is refused; what is complete
// leaves early when one more sample would exceed the bound. The open sample of each track stays: two tracks hold at
// most twice n.
func MaxWaitBytes(n int) Option {
	if n < 1 || n > 1<<30 {
		panic(fmt.Sprintf("mp4: MaxWaitBytes(%d): from 1 byte to 1 GiB", n))
	}
	return func(m *Muxer) { m.maxBytes = n }
}

// MaxWaitSamples bounds the samples that wait for a fragment. What is complete leaves early when there are that many.
func MaxWaitSamples(n int) Option {
	if n < 3 {
		panic(fmt.Sprintf("mp4: MaxWaitSamples(%d): at least 3, the open one of each track and a complete one", n))
	}
	return func(m *Muxer) { m.maxSamples = n }
}

// AudioFrames sets how many frames of sound a fragment has in a stream without pictures, or while they have stopped.
func AudioFrames(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("mp4: AudioFrames(%d): at least 1", n))
	}
	return func(m *Muxer) { m.audioFrames = n }
}

// Tracks tells what the stream is going to have, as its FLV header says. The first fragment then waits for the sequence
// headers of both, so that a viewer's init segment need not be replaced when the second one comes a moment later. Headers
// often promise what never comes: the wait ends after one second of the stream, and at MaxWaitSamples and MaxWaitBytes.
func Tracks(video, audio bool) Option {
	return func(m *Muxer) { m.expectVideo, m.expectAudio = video, audio }
}

// Fragment tells about what WriteTag or Flush appended. Samples is 0 when that was nothing.
//
// Key is set if the fragment begins with a key frame. Sound that leaves by itself has it if there are no pictures, or if
// the next one will be a key frame, as the first one is; not while pictures have stopped, which may go on with one that
// needs those before.
type Fragment struct {
	Samples int           // pictures and frames of sound
	Key     bool          // with an init segment in front a viewer can begin here; see above
	NewInit bool          // the init segment is another than that of the fragment before, or this is the first
	Start   time.Duration // earliest decoding time, in the stream's own time and in whole milliseconds
}

// Muxer turns FLV tags into fragmented MP4. It belongs to one goroutine at a time. Release gives back the samples that wait.
type Muxer struct {
	maxBytes, maxSamples     int
	audioFrames              int
	expectVideo, expectAudio bool

	clock        clock
	video, audio track
	needKey      bool // pictures are dropped up to the next key frame

	sent     [2]*config // of video and sound, as the last fragment was made
	sequence uint32
	head     boxes // memory for the headers of a fragment
}

// NewMuxer returns a Muxer.
func NewMuxer(opts ...Option) *Muxer {
	m := &Muxer{
		maxBytes: DefaultMaxWaitBytes, maxSamples: DefaultMaxWaitSamples, audioFrames: DefaultAudioFrames,
		needKey: true,
	}
	m.video.id, m.audio.id = 1, 2
	for _, opt := range opts {
		opt(m)
	}
	return m
}

// WriteTag takes a tag as flv.Decoder.Next described and appended it: src is that one tag, whole. It takes ownership of src,
// even if it returns an error. When the tag completes a fragment, the fragment is appended to dst, which owns it.
//
// Tags that are neither pictures, sound nor their sequence headers are passed over, as are pictures before a key frame and
// samples before their sequence header. A sequence header that differs from the one before completes a fragment of all
// that waits; the next fragment then has NewInit set, unless the one before has come back. A *CodecError, *ConfigError or
// *LimitError refuses the tag alone: nothing is appended, and the next tag may be written.
func (m *Muxer) WriteTag(dst *millrace.Chain, t flv.Tag, src *millrace.Chain) (Fragment, error) {
	defer src.Release()
	if t.Type != flv.TypeVideo && t.Type != flv.TypeAudio {
		return Fragment{}, nil
	}
	if t.Packet != flv.PacketSequenceHeader && t.Packet != flv.PacketFrame {
		return Fragment{}, nil
	}
	switch {
	case t.Encrypted:
		return Fragment{}, &CodecError{Type: t.Type, Codec: t.Codec, Why: "encrypted"}
	case t.Multitrack:
		return Fragment{}, &CodecError{Type: t.Type, Codec: t.Codec, Why: "in a list of tracks"}
	case !carried(t.Type, t.Codec):
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
		return m.configure(dst, t, &data)
	}
	if t.Type == flv.TypeVideo {
		return m.writeVideo(dst, t, &data)
	}
	return m.writeAudio(dst, t, &data)
}

// Flush appends a last fragment of all that waits to dst, which owns it from then on; if nothing waits, dst is as it was. The
// open samples last as long as those before them. Call it at the end of the stream: the Muxer holds nothing then that Release
// would have to give back.
func (m *Muxer) Flush(dst *millrace.Chain) Fragment {
	m.expectVideo, m.expectAudio = false, false
	m.video.finish()
	m.audio.finish()
	return m.emit(dst)
}

// Release gives back the samples that wait. The Muxer may still be used; pictures are dropped up to the next key frame.
func (m *Muxer) Release() {
	m.video.release()
	m.audio.release()
	m.needKey = true
}

// configure takes a sequence header. It borrows record.
func (m *Muxer) configure(dst *millrace.Chain, t flv.Tag, record *millrace.Chain) (Fragment, error) {
	if n := record.Len(); n > maxRecord {
		return Fragment{}, &LimitError{What: "sequence header", Have: n, Limit: maxRecord}
	}
	tr := &m.video
	if t.Type == flv.TypeAudio {
		tr = &m.audio
	}
	if tr.conf.same(t.Codec, record.Bytes()) {
		return Fragment{}, nil
	}
	conf, err := newConfig(t.Codec, record.Bytes())
	if err != nil {
		return Fragment{}, err
	}
	var f Fragment
	if tr.conf != nil {
		f = m.Flush(dst)
		tr.rescale(tr.conf.scale, conf.scale)
	}
	tr.conf = conf
	if t.Type == flv.TypeVideo {
		m.needKey = true
	}
	return f, nil
}

// writeVideo takes ownership of data if it returns no error.
func (m *Muxer) writeVideo(dst *millrace.Chain, t flv.Tag, data *millrace.Chain) (Fragment, error) {
	tr := &m.video
	if tr.conf == nil || tr.conf.codec != t.Codec || data.Len() == 0 || m.needKey && !t.Key {
		return Fragment{}, nil
	}
	if err := m.checkSize(data); err != nil {
		m.needKey = true
		return Fragment{}, err
	}
	at := tr.videoTime(m.clock.picture(t.Timestamp, tr.length()))
	tr.close(at)
	var f Fragment
	if len(tr.done) > 0 && m.ready() || m.full(data.Len()) {
		m.closeStopped()
		f = m.emit(dst)
	}
	m.needKey = false // what has left is in front of a key frame
	tr.start(sample{at: at, size: uint32(data.Len()), shift: t.CompositionTime, key: t.Key}, data)
	return f, nil
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
	at := tr.audioTime(m.clock.sound(t.Timestamp, tr.length()))
	tr.close(at)
	var f Fragment
	alone := m.video.conf == nil || m.clock.video.stopped()
	if alone && m.ready() && len(tr.done) >= m.audioFrames || m.full(data.Len()) {
		m.closeStopped()
		f = m.emit(dst)
	}
	tr.start(sample{at: at, size: uint32(data.Len()), key: true}, data)
	return f, nil
}

func (m *Muxer) checkSize(data *millrace.Chain) error {
	if n := data.Len(); n > m.maxBytes {
		return &LimitError{What: "sample (MaxWaitBytes)", Have: n, Limit: m.maxBytes}
	}
	return nil
}

// ready reports whether the tracks that were announced have come, or have been given up.
func (m *Muxer) ready() bool {
	if m.clock.passed() >= trackWait {
		m.expectVideo, m.expectAudio = false, false
	}
	return (m.video.conf != nil || !m.expectVideo) && (m.audio.conf != nil || !m.expectAudio)
}

// full reports whether what waits has to leave before a sample of n bytes is taken. What was announced and has not come by
// then is given up.
func (m *Muxer) full(n int) bool {
	videos, videoBytes := m.video.waiting()
	sounds, soundBytes := m.audio.waiting()
	if videos+sounds < m.maxSamples && videoBytes+soundBytes+n <= m.maxBytes {
		return false
	}
	m.expectVideo, m.expectAudio = false, false
	return true
}

// closeStopped ends the open sample of a track that has stopped: it is not kept back for the time of the next. A fragment has to
// be made then, because within one the samples follow each other without gaps.
func (m *Muxer) closeStopped() {
	if m.video.isOpen && m.clock.video.stopped() {
		m.video.close(m.video.open.at + m.video.length())
	}
	if m.clock.audio.stopped() {
		m.audio.close(m.audio.next)
	}
}
