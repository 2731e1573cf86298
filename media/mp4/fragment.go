package mp4

import (
	"time"

	"github.com/millrace-io/millrace"
)

// Sample flags: ISO/IEC 14496-12, 8.8.3.1.
const (
	flagsKey   = 2 << 24         // depends on no other sample
	flagsDelta = 1<<24 | 1<<16   // depends on others; not a sync sample
	baseIsMoof = 0x020000        // tfhd: offsets count from the start of the moof
	runVideo   = 0x001 | 0x0f<<8 // trun: offset; duration, size, flags and shift of each sample
	runAudio   = 0x001 | 0x03<<8 // trun: offset; duration and size
)

// A FragmentInfo describes a fragment. All information is from the fragment's head (the moof box).
type FragmentInfo struct {
	// Head and Size are the sizes, in bytes, of the head and of the complete fragment. The head
	// includes the first 8 bytes of the mdat.
	Head, Size int
	// Start and End are decoding times of the video or, without video, of the audio.
	Start, End time.Duration
	First      time.Duration // decoding time of the first sample, video or audio
	Lead       time.Duration // time from the end of the video to the end of the audio, or 0
	Pictures   int           // number of video frames
	Sounds     int           // number of audio frames
	Sequence   uint32        // as in Fragment
	Key        bool          // begins with a keyframe, or has only audio in a stream without video
}

// newFragmentInfo describes a fragment that consists of a run of video samples and a run of audio
// samples. One of the runs may be empty. If the stream has video, the caller must set hasVideo,
// even for a fragment that has only audio. The caller must also set Head, Size and Sequence of the
// result.
func newFragmentInfo(video, sound run, hasVideo bool) (f FragmentInfo) {
	f.Pictures, f.Sounds = video.samples, sound.samples
	switch {
	case video.samples == 0:
		f.Start, f.End, f.First, f.Key = sound.start, sound.end, sound.start, !hasVideo
		return f
	case sound.samples == 0:
		sound.start = video.start
	default:
		f.Lead = max(sound.end-video.end, 0)
	}
	f.Start, f.End, f.First, f.Key = video.start, video.end, min(video.start, sound.start),
		video.key
	return f
}

// lastKey returns the index of the last keyframe among the complete video samples. The caller ends
// a fragment before that keyframe, so that the next fragment begins with the keyframe.
//
// lastKey returns 0 if no sample after the first is a keyframe. It also returns 0 if there are just
// two samples and both are keyframes.
func (m *Muxer) lastKey() int {
	done := m.video.done
	for i := len(done) - 1; i > 0; i-- {
		if done[i].key {
			if len(done) == 2 && done[0].key {
				return 0
			}
			return i
		}
	}
	return 0
}

// emit appends the complete samples to dst as fragments. If flush is false, it keeps some of the
// samples for later fragments:
//
//   - If a keyframe follows other video samples, emit keeps the keyframe and the samples after it,
//     so that the next fragment begins with the keyframe.
//   - If the next video frame is late, only audio samples are complete. emit keeps some of them,
//     because HLS needs fragments of a steady length for its parts.
func (m *Muxer) emit(dst *millrace.Chain, flush bool) Fragment {
	videos, sounds := len(m.video.done), len(m.audio.done)
	if !flush {
		if key := m.lastKey(); key > 0 {
			videos = key
		}
		if videos == 0 && m.videoConfig() != nil && sounds <= maxLate {
			sounds = min(sounds, 1+sounds/4)
		}
	}
	f := Fragment{Samples: videos + sounds}
	if f.Samples == 0 {
		return f
	}
	f.Start = m.start()
	if videos > 0 {
		f.Key, m.videoBegun = m.video.done[0].key, true
		f.Duration = m.video.duration(videos)
	} else {
		f.Key = m.videoConfig() == nil || m.needKey || !m.videoBegun
		f.Duration = m.audio.duration(sounds)
	}
	conf := [2]*config{m.videoConfig(), m.audio.conf}
	f.NewInit = !conf[0].equal(m.sent[0]) || !conf[1].equal(m.sent[1])
	m.sent = conf
	for videos+sounds > 0 {
		v, s := m.nextFragmentSize(videos, sounds)
		m.buildHead(v, s)
		m.parts = append(m.parts, m.describe(v, s))
		dst.AppendCopy(m.head.b)
		m.video.send(dst, v)
		m.audio.send(dst, s)
		videos, sounds = videos-v, sounds-s
	}
	f.Sequence = m.sequence
	return f
}

// describe returns the FragmentInfo for the head that buildHead built with the same arguments.
func (m *Muxer) describe(videos, sounds int) FragmentInfo {
	f := newFragmentInfo(m.video.run(videos), m.audio.run(sounds), m.sent[0] != nil)
	f.Head, f.Sequence = len(m.head.b), m.sequence
	f.Size = f.Head + bytesOf(m.video.done[:videos]) + bytesOf(m.audio.done[:sounds])
	return f
}

func (t *track) run(n int) run {
	if n == 0 {
		return run{}
	}
	first, last := &t.done[0], &t.done[n-1]
	scale := t.conf.scale
	return run{samples: n, key: first.key, start: toTime(first.at, scale),
		end: toTime(last.at+int64(last.duration), scale)}
}

// nextFragmentSize returns the numbers of video and audio samples for the next fragment. The
// arguments are the numbers of samples that are still to be sent. A fragment has at most one video
// frame, with its audio, so that HLS can make parts of a steady length.
func (m *Muxer) nextFragmentSize(videos, sounds int) (v, s int) {
	switch {
	case videos == 0 && m.videoConfig() == nil:
		return 0, min(sounds, audioFrames)
	case videos == 0:
		return 0, min(sounds, lateFrames)
	case videos == 1:
		return 1, sounds
	}
	if sounds == 0 {
		return 1, 0
	}
	first := &m.video.done[0]
	end := (first.at + int64(first.duration)) * int64(m.audio.conf.scale)
	end /= int64(m.video.conf.scale)
	for s < sounds && m.audio.done[s].at < end {
		s++
	}
	return 1, s
}

func (t *track) send(dst *millrace.Chain, n int) {
	t.doneData.CutTo(dst, bytesOf(t.done[:n]))
	t.done = t.done[:copy(t.done, t.done[n:])]
}

func bytesOf(samples []sample) (n int) {
	for i := range samples {
		n += int(samples[i].size)
	}
	return n
}

// start returns the earliest decoding time of the complete samples, rounded down to milliseconds.
func (m *Muxer) start() time.Duration {
	first := int64(-1)
	for _, tr := range []*track{&m.video, &m.audio} {
		if len(tr.done) == 0 {
			continue
		}
		if ms := tr.done[0].at * 1000 / int64(tr.conf.scale); first < 0 || ms < first {
			first = ms
		}
	}
	return time.Duration(first) * time.Millisecond
}

// buildHead builds the moof and the header of the mdat in m.head.
func (m *Muxer) buildHead(videos, sounds int) {
	w := &m.head
	w.b = w.b[:0]
	m.sequence++
	moof := w.open("moof")
	mfhd := w.openFull("mfhd", 0, 0)
	w.u32(m.sequence)
	w.close(mfhd)
	video, audio := 0, 0
	if videos > 0 {
		video = w.run(&m.video, videos, runVideo)
	}
	if sounds > 0 {
		audio = w.run(&m.audio, sounds, runAudio)
	}
	w.close(moof)
	// The data begins after the moof and the 8 bytes of the mdat's header. Video comes first.
	data := len(w.b) + 8
	videoBytes, soundBytes := bytesOf(m.video.done[:videos]), bytesOf(m.audio.done[:sounds])
	if video > 0 {
		w.patch(video, uint32(data))
	}
	if audio > 0 {
		w.patch(audio, uint32(data+videoBytes))
	}
	w.u32(uint32(8 + videoBytes + soundBytes))
	w.text("mdat")
}

// run appends the traf box for n complete samples. The caller must patch the data offset at pos.
func (w *boxBuffer) run(tr *track, n int, flags uint32) (pos int) {
	traf := w.open("traf")
	tfhd := w.openFull("tfhd", 0, baseIsMoof)
	w.u32(tr.id)
	w.close(tfhd)
	tfdt := w.openFull("tfdt", 1, 0)
	w.u64(uint64(tr.done[0].at))
	w.close(tfdt)
	trun := w.openFull("trun", 1, flags)
	w.u32(uint32(n))
	pos = len(w.b)
	w.u32(0)
	for i := range n {
		s := &tr.done[i]
		w.u32(s.duration)
		w.u32(s.size)
		if flags != runVideo {
			continue
		}
		if s.key {
			w.u32(flagsKey)
		} else {
			w.u32(flagsDelta)
		}
		w.u32(uint32(s.shift))
	}
	w.close(trun)
	w.close(traf)
	return pos
}
