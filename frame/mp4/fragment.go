package mp4

import (
	"time"

	"github.com/millrace-io/millrace"
)

// Sample flags: ISO/IEC 14496-12, 8.8.3.1.
const (
	flagsKey   = 2 << 24         // depends on no other sample
	flagsDelta = 1<<24 | 1<<16   // depends on others; not a sync sample
	baseIsMoof = 0x020000        // tfhd: offsets count from the moof
	runVideo   = 0x001 | 0x0f<<8 // trun: offset; duration, size, flags and shift of each sample
	runAudio   = 0x001 | 0x03<<8 // trun: offset; duration and size
)

// emit appends a fragment of all complete samples to dst, if there are any.
func (m *Muxer) emit(dst *millrace.Chain) Fragment {
	f := Fragment{Samples: len(m.video.done) + len(m.audio.done)}
	if f.Samples == 0 {
		return f
	}
	f.Start = m.start()
	if len(m.video.done) > 0 {
		f.Key = m.video.done[0].key
		f.Duration = m.video.duration()
	} else {
		f.Key = m.video.conf == nil || m.needKey
		f.Duration = m.audio.duration()
	}
	f.NewInit = !m.video.conf.equal(m.sent[0]) || !m.audio.conf.equal(m.sent[1])
	m.sent = [2]*config{m.video.conf, m.audio.conf}
	m.buildHead()
	f.Sequence = m.sequence
	dst.AppendCopy(m.head.b)
	for _, tr := range []*track{&m.video, &m.audio} {
		dst.Merge(&tr.doneData)
		tr.done = tr.done[:0]
	}
	return f
}

// start returns the earliest decoding time among the complete samples, cut to milliseconds.
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

// buildHead builds moof and the header of mdat in m.head.
func (m *Muxer) buildHead() {
	w := &m.head
	w.b = w.b[:0]
	m.sequence++
	moof := w.begin("moof")
	mfhd := w.full("mfhd", 0, 0)
	w.u32(m.sequence)
	w.end(mfhd)
	video, audio := 0, 0
	if len(m.video.done) > 0 {
		video = w.run(&m.video, runVideo)
	}
	if len(m.audio.done) > 0 {
		audio = w.run(&m.audio, runAudio)
	}
	w.end(moof)
	// Data begins behind moof and the 8 bytes of mdat's header: pictures, then sound.
	data := len(w.b) + 8
	if video > 0 {
		w.patch(video, uint32(data))
	}
	if audio > 0 {
		w.patch(audio, uint32(data+m.video.doneData.Len()))
	}
	w.u32(uint32(8 + m.video.doneData.Len() + m.audio.doneData.Len()))
	w.text("mdat")
}

// run adds the traf box of a track's complete samples. It returns where the caller has to write the offset of their
// data.
func (w *boxes) run(tr *track, flags uint32) (offset int) {
	traf := w.begin("traf")
	tfhd := w.full("tfhd", 0, baseIsMoof)
	w.u32(tr.id)
	w.end(tfhd)
	tfdt := w.full("tfdt", 1, 0)
	w.u64(uint64(tr.done[0].at))
	w.end(tfdt)
	trun := w.full("trun", 1, flags)
	w.u32(uint32(len(tr.done)))
	offset = len(w.b)
	w.u32(0)
	for i := range tr.done {
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
	w.end(trun)
	w.end(traf)
	return offset
}
