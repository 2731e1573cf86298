package mp4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// ErrNotMP4 is returned by ReadMovie and ReadFragment for bytes that no Muxer has written.
var ErrNotMP4 = errors.New("mp4: not an init segment, or not a fragment, of a Muxer")

// A Movie describes an init segment.
type Movie struct {
	Codecs        string // as in RFC 6381, such as "avc1.64001f,mp4a.40.2"
	Width, Height int    // displayed size of the video; 0 without video
	Video, Audio  bool   // whether there is a video track, and an audio track

	tracks []movieTrack
}

type movieTrack struct {
	id, scale uint32
	video     bool
}

// ReadMovie parses an init segment that Muxer.AppendInit has written. It borrows init.
func ReadMovie(init []byte) (Movie, error) {
	var m Movie
	var codecs []string
	var walk func(kind string, in []byte) error
	var t *movieTrack
	walk = func(kind string, in []byte) error {
		switch kind {
		case "moov", "mdia", "minf", "stbl":
			return walkBoxes(in, walk)
		case "trak":
			m.tracks = append(m.tracks, movieTrack{})
			t = &m.tracks[len(m.tracks)-1]
			return walkBoxes(in, walk)
		case "tkhd":
			if t == nil || len(in) < 84 {
				return ErrNotMP4
			}
			t.id = binary.BigEndian.Uint32(in[12:])
			if width := binary.BigEndian.Uint32(in[76:]); width > 0 {
				m.Width, m.Height = int(width>>16), int(binary.BigEndian.Uint32(in[80:])>>16)
			}
		case "mdhd":
			if t == nil || len(in) < 24 {
				return ErrNotMP4
			}
			t.scale = binary.BigEndian.Uint32(in[12:])
		case "stsd":
			if t == nil || len(in) < 8 {
				return ErrNotMP4
			}
			return walkBoxes(in[8:], func(kind string, in []byte) error {
				codec, video := sampleEntry(kind, in)
				if codec == "" {
					return ErrNotMP4
				}
				t.video = video
				codecs = append(codecs, codec)
				return nil
			})
		}
		return nil
	}
	if err := walkBoxes(init, walk); err != nil {
		return Movie{}, err
	}
	for _, t := range m.tracks {
		if t.id == 0 || t.scale == 0 {
			return Movie{}, ErrNotMP4
		}
		m.Video, m.Audio = m.Video || t.video, m.Audio || !t.video
	}
	if len(codecs) == 0 || len(codecs) != len(m.tracks) {
		return Movie{}, ErrNotMP4
	}
	m.Codecs = strings.Join(codecs, ",")
	return m, nil
}

// Movie describes the init segment of the last fragment. It returns the same Movie as ReadMovie
// would. Before the first fragment, it returns the zero Movie.
func (m *Muxer) Movie() (movie Movie) {
	var codecs []string
	ids := [2]uint32{m.video.id, m.audio.id}
	for i, c := range m.sent {
		if c == nil {
			continue
		}
		t := movieTrack{id: ids[i], scale: c.scale, video: c.width > 0}
		movie.tracks = append(movie.tracks, t)
		movie.Video, movie.Audio = movie.Video || t.video, movie.Audio || !t.video
		if t.video {
			movie.Width, movie.Height = int(c.shownWidth()>>16), int(c.height)
		}
		codecs = append(codecs, c.name())
	}
	movie.Codecs = strings.Join(codecs, ",")
	return movie
}

func (c *config) name() string {
	switch c.codec {
	case flv.AVC:
		return avcCodec(c.box)
	case flv.HEVC:
		return hevcCodec(c.entry, c.box)
	}
	return aacCodec(c.record)
}

// ReadFragment parses the head of the fragment at the start of b. It borrows b and allocates
// nothing. If b is too short, minLen is the length that b must have for the next try. Otherwise it
// is 0.
func (m *Movie) ReadFragment(b []byte) (f FragmentInfo, minLen int, err error) {
	if len(b) < 8 {
		return f, 8, nil
	}
	moof := int64(binary.BigEndian.Uint32(b))
	if string(b[4:8]) != "moof" || moof < 8 || moof > maxHead {
		return f, 0, ErrNotMP4
	}
	f.Head = int(moof) + 8
	if len(b) < f.Head {
		return f, f.Head, nil
	}
	mdat := int64(binary.BigEndian.Uint32(b[moof:]))
	if string(b[moof+4:moof+8]) != "mdat" || mdat < 8 {
		return f, 0, ErrNotMP4
	}
	size, head := int(moof+mdat), f.Head
	var video, sound run
	var sequence uint32
	for in := b[8:moof]; len(in) > 0; {
		kind, box, rest := cutBox(in)
		if kind == nil {
			return f, 0, ErrNotMP4
		}
		in = rest
		if string(kind) == "mfhd" && len(box) == 8 {
			sequence = binary.BigEndian.Uint32(box[4:])
		}
		if string(kind) != "traf" {
			continue
		}
		r, err := m.readRun(box)
		if err != nil {
			return f, 0, err
		}
		if r.video {
			video = r
		} else {
			sound = r
		}
	}
	if video.samples+sound.samples == 0 {
		return f, 0, ErrNotMP4
	}
	f = newFragmentInfo(video, sound, m.Video)
	f.Head, f.Size, f.Sequence = head, size, sequence
	return f, 0, nil
}

// If a fragment ends more than maxApart before the end of the Timeline, the Timeline restarts. A
// fragment that ends only a little earlier is normal, because audio and video may arrive in any
// order.
const maxApart = time.Minute

// A Timeline measures how far a sequence of fragments extends in the stream. The zero Timeline is
// at the start.
//
// A fragment with video advances the Timeline to the end of the video. A fragment with only audio
// advances the Timeline to the end of the audio. If the audio of earlier fragments was ahead of the
// video, the Timeline subtracts this lead.
type Timeline struct {
	begun     bool
	end, lead time.Duration
}

// Add adds the next fragment. It returns the start and the end of the part of the stream that the
// fragment adds. If the fragment adds nothing, start equals end.
func (t *Timeline) Add(f FragmentInfo) (start, end time.Duration) {
	if !t.begun || f.End < t.end-maxApart {
		t.begun, t.end, t.lead = true, f.Start, 0
	}
	start = t.end
	if f.Pictures > 0 {
		t.lead = max(f.Lead, t.lead-(f.End-f.Start))
		t.end = max(t.end, f.End)
	} else {
		t.end = max(t.end, f.End-t.lead)
	}
	return start, t.end
}

// AppendEarlier moves the fragment at the start of src to dst, which then owns it, and subtracts d
// from all times in the fragment. f is the result of ReadFragment for this fragment. If d is not 0,
// AppendEarlier copies the head of the fragment (the moof box). It never copies the samples.
//
// If a track of the fragment would begin before time 0, AppendEarlier hides the track from players,
// and returns the number of hidden samples. If all tracks of the fragment would begin before time
// 0, it hides none of them, and they begin at time 0.
func (m *Movie) AppendEarlier(dst, src *millrace.Chain, f FragmentInfo,
	d time.Duration) (hidden int) {
	if d != 0 {
		head := make([]byte, 0, 512)
		var c millrace.Chain
		src.CutTo(&c, f.Head)
		for p := range c.All() {
			head = append(head, p...)
		}
		c.Release()
		hidden = m.shiftHead(head, d)
		dst.AppendCopy(head)
		f.Size -= f.Head
	}
	src.CutTo(dst, f.Size)
	return hidden
}

// shiftHead subtracts d from the times in the head of a fragment. If only one track would begin
// before time 0, shiftHead hides that track, and returns the number of its samples.
func (m *Movie) shiftHead(head []byte, d time.Duration) (hidden int) {
	size := int(binary.BigEndian.Uint32(head))
	var early, earlyTraf []byte // type field and content of the traf box to hide
	shown := 0
	for in := head[8:size]; len(in) > 0; {
		kind, traf, rest := cutBox(in)
		if kind == nil {
			return 0
		}
		in = rest
		if string(kind) != "traf" {
			continue
		}
		if m.shiftTrack(traf, d) {
			shown++
		} else {
			early, earlyTraf = kind, traf
		}
	}
	if early == nil || shown == 0 {
		return 0
	}
	copy(early, "free")
	return countSamples(earlyTraf)
}

// countSamples returns the number of samples in a traf box.
func countSamples(traf []byte) (n int) {
	for len(traf) > 0 {
		kind, in, rest := cutBox(traf)
		if kind == nil {
			break
		}
		if string(kind) == "trun" && len(in) >= 8 {
			n += int(binary.BigEndian.Uint32(in[4:]))
		}
		traf = rest
	}
	return n
}

// shiftTrack subtracts d from the time in a traf box. If the result would be negative, shiftTrack
// sets the time to 0 and returns false.
func (m *Movie) shiftTrack(traf []byte, d time.Duration) bool {
	var scale time.Duration
	for len(traf) > 0 {
		kind, in, rest := cutBox(traf)
		switch {
		case kind == nil:
			return true
		case string(kind) == "tfhd" && len(in) >= 8:
			for i := range m.tracks {
				if m.tracks[i].id == binary.BigEndian.Uint32(in[4:]) {
					scale = time.Duration(m.tracks[i].scale)
				}
			}
		case string(kind) == "tfdt" && len(in) >= 12:
			at := int64(binary.BigEndian.Uint64(in[4:])) - units(d, scale)
			binary.BigEndian.PutUint64(in[4:], uint64(max(at, 0)))
			return at >= 0
		}
		traf = rest
	}
	return true
}

// units returns the duration d as a number of time units, rounded. scale is the number of units per
// second.
func units(d, scale time.Duration) int64 {
	return int64(d/time.Second*scale + (d%time.Second*scale+time.Second/2)/time.Second)
}

// End returns the time in the stream at which the Timeline ends.
func (t *Timeline) End() time.Duration { return t.end }

// maxHead is the maximum size of a fragment's head. The heads that a Muxer makes have at most about
// 2 KiB: 16 bytes for each of at most 128 samples (see maxWaitSamples), and 200 bytes more.
const maxHead = 64 << 10

// A run describes the samples of one track in a fragment.
type run struct {
	video, key bool
	samples    int
	start, end time.Duration
}

// readRun describes the samples in a traf box that a Muxer has written.
func (m *Movie) readRun(traf []byte) (r run, err error) {
	var t *movieTrack
	var at, length int64
	timed := false
	for len(traf) > 0 {
		box, in, rest := cutBox(traf)
		traf = rest
		switch kind := string(box); {
		case box == nil:
			return r, ErrNotMP4
		case kind == "tfhd" && len(in) >= 8:
			for i := range m.tracks {
				if m.tracks[i].id == binary.BigEndian.Uint32(in[4:]) {
					t = &m.tracks[i]
				}
			}
		case kind == "tfdt" && len(in) >= 12:
			at, timed = int64(binary.BigEndian.Uint64(in[4:])), true
		case kind == "trun" && len(in) >= 12:
			size := 8
			flags := binary.BigEndian.Uint32(in) & 0xffffff
			if flags == runVideo {
				size = 16
			}
			r.samples = int(binary.BigEndian.Uint32(in[4:]))
			in = in[12:]
			if flags != runVideo && flags != runAudio || r.samples < 1 ||
				len(in) != r.samples*size {
				return r, ErrNotMP4
			}
			r.key = flags == runAudio || binary.BigEndian.Uint32(in[8:]) == flagsKey
			for ; len(in) > 0; in = in[size:] {
				length += int64(binary.BigEndian.Uint32(in))
			}
		}
	}
	if t == nil || !timed || r.samples == 0 || at < 0 {
		return r, ErrNotMP4
	}
	r.video = t.video
	r.start, r.end = toTime(at, t.scale), toTime(at+length, t.scale)
	return r, nil
}

// cutBox returns the type and the content of the box at the start of b, and the bytes after the
// box. If b does not begin with a complete box, all results are nil.
func cutBox(b []byte) (kind, content, rest []byte) {
	if len(b) < 8 {
		return nil, nil, nil
	}
	n := int64(binary.BigEndian.Uint32(b))
	if n < 8 || n > int64(len(b)) {
		return nil, nil, nil
	}
	return b[4:8], b[8:n], b[n:]
}

func walkBoxes(b []byte, f func(kind string, content []byte) error) error {
	for len(b) > 0 {
		kind, content, rest := cutBox(b)
		if kind == nil {
			return ErrNotMP4
		}
		if err := f(string(kind), content); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// sampleEntry returns the RFC 6381 name of the codec in a sample entry, and whether the entry is
// for video. For an entry that no Muxer writes, codec is "".
func sampleEntry(kind string, in []byte) (codec string, video bool) {
	const visual, sound = 78, 28 // number of bytes before the boxes
	switch {
	case kind == "mp4a" && len(in) > sound:
		_ = walkBoxes(in[sound:], func(kind string, in []byte) error {
			if at := esdsRecord; kind == "esds" && len(in) > at+1 {
				codec = aacCodec(in[at:])
			}
			return nil
		})
	case (kind == "avc1" || kind == "hvc1" || kind == "hev1") && len(in) > visual:
		video = true
		_ = walkBoxes(in[visual:], func(box string, in []byte) error {
			switch {
			case box == "avcC" && len(in) >= 4:
				codec = avcCodec(in)
			case box == "hvcC" && len(in) >= 13:
				codec = hevcCodec(kind, in)
			}
			return nil
		})
	}
	return codec, video
}

// esdsRecord is the offset of the AudioSpecificConfig in the content of an esds box that this
// package writes. Before it are the version and flags, the headers of three descriptors, 3 bytes of
// the first descriptor, and 13 bytes of the second.
const esdsRecord = 4 + 5 + 3 + 5 + 13 + 5

// avcCodec returns the RFC 6381 name of the codec for an avcC box (ISO/IEC 14496-15, 5.3.3.1).
func avcCodec(in []byte) string { return fmt.Sprintf("avc1.%02x%02x%02x", in[1], in[2], in[3]) }

func aacCodec(record []byte) string {
	return fmt.Sprintf("mp4a.40.%d", objectType(record[0], record[1]))
}

// objectType returns the audio object type at the start of an AudioSpecificConfig (ISO/IEC 14496-3,
// 1.6.2.1).
func objectType(a, b byte) int {
	if t := int(a >> 3); t != 31 {
		return t
	}
	return 32 + int(a&7)<<3 + int(b>>5)
}

// hevcCodec returns the RFC 6381 name of the codec for an hvcC box (ISO/IEC 14496-15, E.3).
func hevcCodec(entry string, in []byte) string {
	space := [4]string{"", "A", "B", "C"}[in[1]>>6]
	tier := "L"
	if in[1]&0x20 != 0 {
		tier = "H"
	}
	s := fmt.Sprintf("%s.%s%d.%X.%s%d", entry, space, in[1]&0x1f,
		bits.Reverse32(binary.BigEndian.Uint32(in[2:])), tier, in[12])
	constraints := in[6:12]
	for len(constraints) > 0 && constraints[len(constraints)-1] == 0 {
		constraints = constraints[:len(constraints)-1]
	}
	for _, b := range constraints {
		s += fmt.Sprintf(".%X", b)
	}
	return s
}
