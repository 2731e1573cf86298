package convert

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

type mp4Maker struct {
	*Conversion
	muxer    *mp4.Muxer
	fragment millrace.Chain
	next     func(init *millrace.Chain) *broadcast.Ring // see MP4
	// Number of bytes of tags that were read since the last fragment was completed, including the
	// tag that completed that fragment.
	read    int
	movie   *mp4.Movie             // describes the viewers' init segment; nil before it exists
	heads   map[flv.Type]flv.Codec // codecs of the sequence headers that the muxer has accepted
	fits    bool                   // a frame with a codec in heads has arrived
	hope    flvstream.TrackTimer
	refused error // error of the first tag that could not be in the file
	changed bool  // the next file begins with the next keyframe
	tracks  int32 // Facts.TrackSet when the conversion began
	leftOut int64 // the muxer's LeftOut at the latest report

	gap     flvstream.VideoGap
	placed  bool    // the file has a frame
	resumed *uint32 // the latest value of Facts.Resumed that retime has handled
	shift   uint32  // total length of the removed gaps, in ms; subtracted from all timestamps
	last    uint32  // timestamp of the last frame in the file
}

// ErrNewInit reports that an MP4 file has ended because the stream's codecs or tracks changed. A
// file has only one init segment, so it cannot contain the new codecs or tracks.
var ErrNewInit = errors.New(
	"the stream's codecs or tracks changed, and an MP4 file cannot follow: viewers must come again")

var errNoHeader = errors.New("frames without the sequence header of their codec")

var errNoMP4 = errors.New("the stream has nothing that MP4 is made of: H.264, H.265, AAC")

var errNoTrack = errors.New("no frame of H.264, H.265 or AAC has come after its sequence header")

// fragmentRoom is the number of bytes by which a fragment may exceed the muxer's MaxWaitBytes. The
// additional bytes are headers of up to 14 KiB, and an audio frame that was not complete when the
// previous fragment ended.
const fragmentRoom = 20 << 10

// leastPause is the length, in ms, above which a pause without frames is removed from the file.
// Such a pause occurs when the stream waits for its publisher.
const leastPause = 100

// MP4 returns a Conversion that converts a stream to fragmented MP4. The Conversion publishes each
// fragment as one frame to out, the ring of the MP4 viewers. The frame's Info is a *[Fragment]. The
// argument keepBytes is the number of bytes that the ring keeps. The Conversion calls the methods
// of report for tags and frames that it leaves out.
//
// When the codecs change, the Conversion calls next with the new init segment, which next then
// owns. next closes out, and returns the ring of the next file. The Conversion continues there, at
// the next keyframe, or with the audio before the first keyframe. If next returns nil, Run returns
// ErrNewInit at the next keyframe or, if video has stopped, at the next audio frame.
func MP4(source Source, report Reporter, out *broadcast.Ring, keepBytes int64,
	next func(init *millrace.Chain) *broadcast.Ring) *Conversion {
	m := &mp4Maker{Conversion: newConversion(source, report, out), next: next,
		heads: make(map[flv.Type]flv.Codec)}
	m.maker = m
	m.tracks = source.Facts.TrackSet.Load()
	// If there is no video, the cursor is at an audio frame.
	m.gap.Open = source.Facts.NoVideo.Load()
	// Limit the size of a fragment so that each fragment fits into the ring.
	fits := min(mp4.DefaultMaxWaitBytes, keepBytes-fragmentRoom)
	m.muxer = mp4.NewMuxer(mp4.Tracks(source.hasTracks()), mp4.MaxWaitBytes(int(fits)),
		mp4.Clock(time.Now))
	return m.Conversion
}

// hasTracks reports whether the stream has video and audio. Before the first frame, it reports the
// hasTracks that the publisher has announced.
func (s *Source) hasTracks() (video, audio bool) {
	if s.Begun {
		return s.Facts.Video.Load() != nil, s.Facts.Audio.Load() != nil
	}
	return s.Facts.Promised&flvstream.VideoFlag != 0, s.Facts.Promised&flvstream.AudioFlag != 0
}

func (m *mp4Maker) write(t flv.Tag, tag *millrace.Chain, afterLoss bool) error {
	err := m.checkTracks(&t)
	if err == nil {
		err = m.retime(&t, afterLoss)
	}
	if err == nil && m.isStart(&t) && m.movie != nil && m.tracks != m.source.Facts.TrackSet.Load() {
		err = cmp.Or(m.finish(), ErrNewInit)
	}
	if err != nil {
		tag.Release()
		return err
	}
	size := tag.Len()
	f, err := m.muxer.WriteTag(&m.fragment, t, tag)
	if err == nil && t.SequenceHeader {
		m.heads[t.Type] = t.Codec
	}
	if n := m.muxer.LeftOut(); n != m.leftOut {
		m.report.LeftOut(n - m.leftOut)
		m.leftOut = n
	}
	if err != nil {
		m.refused = cmp.Or(m.refused, err)
		m.report.Refused(t.Type, err)
	}
	if f.Samples == 0 {
		m.read += size
		return nil
	}
	defer func() { m.read = size }()
	return m.publishFragment(f)
}

// checkTracks returns an error if the file would have no tracks. It is called for each tag, because
// a conversion may begin before the tracks of the stream are known.
func (m *mp4Maker) checkTracks(t *flv.Tag) error {
	if t.Packet != flv.PacketFrame {
		return nil
	}
	codec, known := m.heads[t.Type]
	fits, passed := known && codec == t.Codec, m.hope.Passed(t.Timestamp)
	if passed && !fits && slices.Contains([]flv.Codec{flv.AVC, flv.HEVC, flv.AAC}, t.Codec) {
		m.report.Refused(t.Type, errNoHeader)
	}
	if m.movie != nil {
		return nil
	}
	m.fits = m.fits || fits
	// m.source.Facts describes the newest tags of the publisher, which may be later than t. The
	// result errNoMP4 is nevertheless right, because NoMP4 returns true only if the stream has no
	// track for MP4 and will have none later.
	if m.source.Facts.NoMP4() {
		return errNoMP4
	}
	if passed && !m.fits {
		return cmp.Or(m.refused, errNoTrack)
	}
	return nil
}

// isStart reports whether viewers can start at the tag t. They can start at a keyframe, or at an
// audio frame of a stream without video. The result may be wrong if t is not the publisher's newest
// tag, because m.source.Facts describes the stream at the newest tag.
func (m *mp4Maker) isStart(t *flv.Tag) bool {
	f := m.source.Facts
	return t.Key || t.Type == flv.TypeAudio && t.Packet == flv.PacketFrame &&
		(f.NoVideo.Load() || f.Video.Load() == nil)
}

// retime adjusts the timestamp of the tag t to the time in the file. If frames before t are
// missing, or if the stream waited for its publisher, the timestamps have a gap, and retime removes
// the gap. If the gap stayed in the file, browsers would resume the audio at once, and the video
// would stay behind the audio by the length of the gap.
func (m *mp4Maker) retime(t *flv.Tag, afterLoss bool) error {
	if t.Packet != flv.PacketFrame {
		return nil
	}
	// After a change of the codecs, nothing can start at the keyframes of the old file.
	hasStart := func() bool { return !m.changed && m.startIsKept() }
	if gap := m.gap.Open; m.gap.Note(*t, hasStart) && !gap && m.movie != nil {
		// From the tag t on, new viewers start at audio frames. They could not decode the video
		// frame that waits in the muxer, so publish this frame before t.
		if err := m.finish(); err != nil {
			return err
		}
	}
	if last := m.source.Facts.Resumed.Load(); last != m.resumed && int32(t.Timestamp-*last) > 0 {
		m.resumed = last
		afterLoss = afterLoss || m.placed && int32(t.Timestamp-m.shift-m.last) > leastPause
	}
	m.placed = true
	if afterLoss {
		m.shift = t.Timestamp - m.last
		if m.movie != nil {
			if err := m.finish(); err != nil {
				return err
			}
		}
		m.muxer.Release() // after this, the muxer drops video up to a keyframe
		m.gap.Open = t.Type == flv.TypeAudio
	}
	t.Timestamp -= m.shift
	m.last = t.Timestamp
	return nil
}

func (m *mp4Maker) finish() error {
	f := m.muxer.Flush(&m.fragment)
	if f.Samples == 0 {
		return nil
	}
	return m.publishFragment(f)
}

func (m *mp4Maker) release() {
	m.muxer.Release()
	m.fragment.Release()
}

// A Fragment describes one fragment of MP4. When a Conversion publishes a fragment to a
// broadcast.Ring, it passes the Fragment as the Info of the frame.
type Fragment struct {
	mp4.FragmentInfo
	Movie   *mp4.Movie // describes the init segment; the same for all fragments of a file
	KeyNext bool       // the next fragment is known to begin with a keyframe
}

// publishFragment adds the fragments of the muxer, which f describes, to the output ring. A new
// init segment begins a file.
func (m *mp4Maker) publishFragment(f mp4.Fragment) error {
	parts := m.muxer.Parts()
	// While video has stopped, viewers can start at audio fragments. If the stream had video
	// before, the muxer does not set Key for audio fragments.
	key := f.Key || m.gap.Open && parts[0].Pictures == 0
	if m.changed = m.changed || f.NewInit; m.changed {
		if m.movie != nil && !key {
			n := 0
			for n < len(parts) && !parts[n].Key {
				n++
			}
			m.leaveOut(parts[:n])
			parts = parts[n:]
		}
		if len(parts) > 0 {
			if err := m.beginFile(parts[0]); err != nil {
				return err
			}
		}
	}
	if m.changed {
		m.leaveOut(parts)
		return nil
	}
	if n := m.fragment.Len(); m.read > 3*n+flvstream.MaxUnkept { // see flvstream.MaxUnkept
		var c millrace.Chain
		flvstream.Keep(m.source.Memory, &c, &m.fragment)
		m.fragment.Release()
		m.fragment.Merge(&c)
	}
	for _, part := range parts {
		info := &Fragment{FragmentInfo: part, Movie: m.movie, KeyNext: f.KeyNext &&
			part.Sequence == f.Sequence}
		var c millrace.Chain
		m.fragment.CutTo(&c, part.Size)
		if err := m.publish(&c, broadcast.Frame{Key: key || part.Key, Info: info}); err != nil {
			m.fragment.Release()
			return err
		}
		key = false
	}
	return nil
}

// leaveOut drops parts from the start of m.fragment.
func (m *mp4Maker) leaveOut(parts []mp4.FragmentInfo) {
	for _, part := range parts {
		m.fragment.Discard(part.Size)
		m.report.Unstarted(part.Pictures + part.Sounds)
	}
}

// beginFile makes the muxer's init segment the preamble of the output ring, which every viewer gets
// first, and resets m.changed. first is the first fragment of the file, at which viewers can start.
//
// If the ring already has a file, beginFile continues with the next ring. If there is no next ring,
// beginFile returns ErrNewInit. But if first is audio before the first keyframe, the conversion
// waits for that keyframe, at which viewers can start again: beginFile returns nil and leaves
// m.changed set.
func (m *mp4Maker) beginFile(first mp4.FragmentInfo) error {
	var init millrace.Chain
	if err := m.muxer.AppendInit(&init); err != nil {
		return err
	}
	if m.movie == nil {
		m.out.SetPreamble(&init)
	} else if out := m.next(&init); out != nil {
		m.out = out
	} else if first.Key || m.gap.Open {
		return ErrNewInit
	} else {
		return nil
	}
	movie := m.muxer.Movie()
	m.movie, m.changed = &movie, false
	return nil
}
