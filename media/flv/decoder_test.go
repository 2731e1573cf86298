package flv_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/media/flv"
)

// decodeAll reads all tags from src with a new pool, each into a new chain. It checks that no block
// is left.
func decodeAll(t testing.TB, src io.Reader, size int, opts ...flv.Option) ([]slowTag, error) {
	t.Helper()
	pool := millrace.NewPool()
	r := pool.NewReader(src, size)
	tags, err := drain(flv.NewDecoder(r, opts...))
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Fatalf("%d bytes in use after Release", n)
	}
	return tags, err
}

func drain(d *flv.Decoder) (tags []slowTag, err error) {
	for {
		var c millrace.Chain
		tag, err := d.Next(&c)
		if err != nil {
			if c.Len() > 0 {
				err = fmt.Errorf("%d bytes given with the error %w", c.Len(), err)
			}
			return tags, err
		}
		tags = append(tags, slowTag{Tag: tag, raw: string(c.Bytes())})
		c.Release()
	}
}

// sameResult compares the result of a Decoder with the reference's.
func sameResult(t testing.TB, got []slowTag, gotErr error, want []slowTag, wantErr error) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d tags (%v), want %d (%v)", len(got), gotErr, len(want), wantErr)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("tag %d:\n got %+v\nwant %+v", i, got[i].Tag, want[i].Tag)
		}
	}
	if !errors.Is(gotErr, wantErr) && !reflect.DeepEqual(gotErr, wantErr) {
		t.Fatalf("error %v, want %v", gotErr, wantErr)
	}
}

// fourCC returns the codec of a FourCC.
func fourCC(s string) flv.Codec { return flv.Codec(binary.BigEndian.Uint32([]byte(s))) }

// T is short, to keep the table below readable.
type T = flv.Tag

const (
	none  = flv.PacketNone
	seq   = flv.PacketSequenceHeader
	frame = flv.PacketFrame
	end   = flv.PacketSequenceEnd
)

var tagTable = []struct {
	name string
	kind byte
	data string
	want T
}{
	{"metadata", script, "\x02\x00\x0aonMetaData\x08", T{Metadata: true}},
	{"metadata in AMF3", script, "\x00\x02\x00\x0aonMetaData\x08", T{Metadata: true}},
	{"another script", script, "\x02\x00\x0aonCuePoint", T{}},
	{"AVC sequence header", video, "\x17\x00\x00\x00\x00\x01",
		T{Packet: seq, SequenceHeader: true, Codec: flv.AVC, Payload: 16}},
	{"AVC keyframe", video, "\x17\x01\x00\x00\x50abc",
		T{Packet: frame, Key: true, Codec: flv.AVC, CompositionTime: 80, Payload: 16}},
	{"AVC inter frame, shown early", video, "\x27\x01\xff\xff\xfeabc",
		T{Packet: frame, Codec: flv.AVC, CompositionTime: -2, Payload: 16}},
	{"AVC end", video, "\x17\x02\x00\x00\x00", T{Packet: end, Codec: flv.AVC, Payload: 16}},
	{"AVC packet type unknown", video, "\x17\x03\x00\x00\x00", T{Packet: none}},
	{"AVC header cut short", video, "\x17\x01\x00\x00", T{Packet: none}},
	{"command to the player", video, "\x57\x00",
		T{Packet: flv.PacketCommand, Codec: flv.AVC, Payload: 12}},
	{"HEVC by number", video, "\x1c\x01\x00\x00\x28abc",
		T{Packet: frame, Key: true, Codec: flv.HEVC, CompositionTime: 40, Payload: 16}},
	{"Sorenson keyframe", video, "\x12abc", T{Packet: frame, Key: true, Codec: 1<<24 | 2,
		Payload: 12}},
	{"enhanced sequence header", video, "\x90hvc1\x01",
		T{Packet: seq, SequenceHeader: true, Codec: flv.HEVC, Payload: 16}},
	{"enhanced keyframe", video, "\x91hvc1\x00\x00\x21abc",
		T{Packet: frame, Key: true, Codec: flv.HEVC, CompositionTime: 33, Payload: 19}},
	{"enhanced, without composition time", video, "\x93avc1abc",
		T{Packet: frame, Key: true, Codec: flv.AVC, Payload: 16}},
	{"enhanced AV1 inter frame", video, "\xa1av01abc",
		T{Packet: frame, Codec: fourCC("av01"), Payload: 16}},
	{"no frame type, H.265 IDR", video, "\x83hvc1\x00\x00\x00\x09\x26\x01",
		T{Packet: frame, Key: true, Codec: flv.HEVC, Payload: 16}},
	{"no frame type, H.265 delimiter and parameters", video,
		"\x81hvc1\x00\x00\x00\x00\x00\x00\x03\x46\x01\x50\x00\x00\x00\x09\x40\x01",
		T{Packet: frame, Key: true, Codec: flv.HEVC, Payload: 19}},
	{"no frame type, H.265 inter frame", video, "\x83hvc1\x00\x00\x00\x09\x02\x01",
		T{Packet: frame, Codec: flv.HEVC, Payload: 16}},
	{"no frame type, H.265 delimiter alone", video, "\x83hvc1\xff\xff\xff\xff\x46\x01",
		T{Packet: frame, Codec: flv.HEVC, Payload: 16}},
	{"no frame type, H.264 IDR", video, "\x83avc1\x00\x00\x00\x09\x65",
		T{Packet: frame, Key: true, Codec: flv.AVC, Payload: 16}},
	{"no frame type, H.264 inter frame", video, "\x83avc1\x00\x00\x00\x09\x41",
		T{Packet: frame, Codec: flv.AVC, Payload: 16}},
	{"no frame type, AV1 sequence header", video, "\x83av01\x12\x00\x0a\x0b",
		T{Packet: frame, Key: true, Codec: fourCC("av01"), Payload: 16}},
	{"no frame type, AV1 frame", video, "\x83av01\x12\x00\x32\x0b",
		T{Packet: frame, Codec: fourCC("av01"), Payload: 16}},
	{"no frame type, VP9 keyframe", video, "\x81vp09\x82",
		T{Packet: frame, Key: true, Codec: fourCC("vp09"), Payload: 16}},
	{"no frame type, VP9 inter frame", video, "\x81vp09\x86",
		T{Packet: frame, Codec: fourCC("vp09"), Payload: 16}},
	{"no frame type, VP9 of profile 3", video, "\x81vp09\xb0",
		T{Packet: frame, Key: true, Codec: fourCC("vp09"), Payload: 16}},
	{"no frame type, and no data", video, "\x83hvc1",
		T{Packet: frame, Codec: flv.HEVC, Payload: 16}},
	{"enhanced VP9 end", video, "\x92vp09", T{Packet: end, Codec: fourCC("vp09"), Payload: 16}},
	{"enhanced metadata", video, "\x94hvc1abc",
		T{Packet: flv.PacketMetadata, Codec: flv.HEVC, Payload: 16}},
	{"enhanced command", video, "\xd1\x00", T{Packet: flv.PacketCommand, Payload: 12}},
	{"enhanced, extended", video, "\x97\x02\x00\x00\x01\x01hvc1\x00\x00\x21abc",
		T{Packet: frame, Key: true, Codec: flv.HEVC, CompositionTime: 33,
			Payload: 11 + 5 + 1 + 4 + 3}},
	{"enhanced, two tracks", video, "\x96\x11avc1\x00\x00\x00\x01a",
		T{Packet: frame, Key: true, Multitrack: true, Codec: flv.AVC, Payload: 17}},
	{"enhanced, two codecs", video, "\x96\x21avc1\x00",
		T{Packet: frame, Key: true, Multitrack: true, Payload: 13}},
	{"enhanced, the second track", video, "\x96\x00avc1\x01config",
		T{Packet: seq, SequenceHeader: true, Multitrack: true, Track: 1, Codec: flv.AVC,
			Payload: 17}},
	{"enhanced, the third track and another, two codecs", video,
		"\x96\x21avc1\x02\x00\x00\x01ahvc1\x01\x00\x00\x01b",
		T{Packet: frame, Key: true, Multitrack: true, Track: 2, Payload: 13}},
	{"enhanced, a track without its number", video, "\x96\x01avc1", T{Multitrack: true}},
	{"enhanced, the last of 256 sounds", audio, "\x95\x01Opus\xffsound",
		T{Packet: frame, Multitrack: true, Track: 255, Codec: flv.Opus, Payload: 17}},
	{"enhanced, tracks of tracks", video, "\x96\x06avc1", T{Multitrack: true}},
	{"enhanced, cut short", video, "\x91hv", T{}},
	{"enhanced, extension cut short", video, "\x97\x05abc", T{}},
	{"AAC sequence header", audio, "\xaf\x00\x12\x10",
		T{Packet: seq, SequenceHeader: true, Codec: flv.AAC, Payload: 13}},
	{"AAC", audio, "\xaf\x01abc", T{Packet: frame, Codec: flv.AAC, Payload: 13}},
	{"AAC cut short", audio, "\xaf", T{}},
	{"MP3", audio, "\x2fabc", T{Packet: frame, Codec: flv.MP3, Payload: 12}},
	{"Speex", audio, "\xb2abc", T{Packet: frame, Codec: 2<<24 | 11, Payload: 12}},
	{"enhanced AAC sequence header", audio, "\x90mp4a\x12\x10",
		T{Packet: seq, SequenceHeader: true, Codec: flv.AAC, Payload: 16}},
	{"enhanced Opus", audio, "\x91Opusabc", T{Packet: frame, Codec: flv.Opus, Payload: 16}},
	{"enhanced channels", audio, "\x94ac-3\x01",
		T{Packet: flv.PacketMetadata, Codec: fourCC("ac-3"), Payload: 16}},
	{"encrypted", video | 0x20, "\x17\x01\x00\x00\x00abc",
		T{Packet: frame, Key: true, Encrypted: true, Codec: flv.AVC, Payload: 16}},
	{"empty", video, "", T{}},
	{"of an unknown kind", 15, "\x17\x01\x00\x00\x00abc", T{}},
}

func TestTagSaysWhatItIs(t *testing.T) {
	for _, tt := range tagTable {
		t.Run(tt.name, func(t *testing.T) {
			raw := rawTag(tt.kind, 0x12345678, tt.data)
			got, err := decodeAll(t, strings.NewReader(fileHeader+raw), 16)
			want := tt.want
			want.Type, want.Size, want.Timestamp = flv.Type(tt.kind&31), len(tt.data), 0x12345678
			sameResult(t, got, err, []slowTag{{Tag: want, raw: raw}}, io.EOF)
			if n := got[0].Len(); n != len(raw) {
				t.Errorf("Len is %d, want %d", n, len(raw))
			}
		})
	}
}

// The numbers of the tracks of a tag, which may be damaged at any byte.
func TestAppendTracks(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		kind       byte
		want       []byte
	}{
		{"classic", "\x17\x01\x00\x00\x00abc", video, []byte{0}},
		{"enhanced", "\x91hvc1\x00\x00\x21abc", video, []byte{0}},
		{"unknown", "\x96\x06avc1", video, []byte{0}},
		{"one track", "\x96\x00avc1\x05config", video, []byte{5}},
		{"one track of sound", "\x95\x00Opus\x03config", audio, []byte{3}},
		{"two tracks", "\x96\x10avc1\x00\x00\x00\x02ab\x07\x00\x00\x01c", video, []byte{0, 7}},
		{"two codecs", "\x96\x20avc1\x02\x00\x00\x01ahvc1\x01\x00\x00\x02bc", video, []byte{2, 1}},
		{"of no length", "\x95\x10Opus\x01\x00\x00\x00\x02\x00\x00\x00", audio, []byte{1, 2}},
		{"a long one", "\x96\x10avc1\x00\x00\x00\x00\x01\xff\xff\xffa", video, []byte{0}},
		{"extended", "\x97\x02\x00\x00\x01\x06\x10hvc1\x04\x00\x00\x00\x05\x00\x00\x00", video,
			[]byte{4, 5}},
	} {
		for n := range len(tt.data) + 1 {
			raw := rawTag(tt.kind, 0, tt.data[:n])
			tags, err := decodeAll(t, strings.NewReader(fileHeader+raw), 16)
			if len(tags) != 1 {
				t.Fatal(err)
			}
			got := tags[0].AppendTracks([]byte{99}, []byte(raw))
			if n == len(tt.data) && string(got) != "c"+string(tt.want) {
				t.Errorf("%s: %d, want 99 and %d", tt.name, got, tt.want)
			}
		}
	}
}

func TestHostileStreams(t *testing.T) {
	frame := rawTag(video, 40, "\x17\x01\x00\x00\x00abc")
	bad := []byte(frame)
	bad[len(bad)-1]--
	zero := frame[:len(frame)-4] + "\x00\x00\x00\x00"
	for _, tt := range []struct {
		name string
		in   string
		opts []flv.Option
		tags int
		want error
	}{
		{"nothing", "", nil, 0, io.EOF},
		{"not FLV", "GET / HTTP/1.1\r\n", nil, 0, flv.ErrNotFLV},
		{"too short to be FLV, and not", "GE", nil, 0, flv.ErrNotFLV},
		{"cut in the header", fileHeader[:7], nil, 0, io.ErrUnexpectedEOF},
		{"cut before the first previous-tag-size ends", fileHeader[:11], nil, 0,
			io.ErrUnexpectedEOF},
		{"of another version", "FLV\x02\x05\x00\x00\x00\x09\x00\x00\x00\x00", nil, 0,
			flv.ErrNotFLV},
		{"data inside the header", "FLV\x01\x05\x00\x00\x00\x08\x00\x00\x00\x00", nil, 0,
			flv.ErrNotFLV},
		{"longer header", "FLV\x01\x05\x00\x00\x00\x0bxx\x00\x00\x00\x00" + frame, nil, 1, io.EOF},
		{"header of 4 GiB", "FLV\x01\x05\xff\xff\xff\xff\x00\x00\x00\x00", nil, 0,
			&flv.LimitError{What: "header", Have: 1<<32 - 1, Limit: 1024}},
		{"first previous-tag-size not 0", fileHeader[:12] + "\x0b" + frame, nil, 1, io.EOF},
		{"header alone", fileHeader, nil, 0, io.EOF},
		{"cut in a tag header", fileHeader + frame + frame[:10], nil, 1, io.ErrUnexpectedEOF},
		{"cut behind a tag header", fileHeader + frame[:11], nil, 0, io.ErrUnexpectedEOF},
		{"cut in the data", fileHeader + frame[:14], nil, 0, io.ErrUnexpectedEOF},
		{"cut in the previous-tag-size", fileHeader + frame[:len(frame)-1], nil, 0,
			io.ErrUnexpectedEOF},
		{"wrong previous-tag-size", fileHeader + frame + string(bad), nil, 1,
			&flv.PrevTagSizeError{Have: 18, Want: 19}},
		{"previous-tag-size left out", fileHeader + zero, nil, 0,
			&flv.PrevTagSizeError{Have: 0, Want: 19}},
		{"tag above the limit", fileHeader + frame, []flv.Option{flv.MaxTag(7)}, 0,
			&flv.LimitError{What: "tag data (MaxTag)", Have: 8, Limit: 7}},
		{"tag at the limit", fileHeader + frame, []flv.Option{flv.MaxTag(8)}, 1, io.EOF},
		{"tag above the default limit", fileHeader + "\x09\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00",
			nil, 0,
			&flv.LimitError{What: "tag data (MaxTag)", Have: 1<<24 - 1, Limit: 8 << 20}},
		{"tag that is announced and does not come", fileHeader +
			"\x09\x7f\xff\xff\x00\x00\x00\x00\x00\x00\x00abc", nil, 0,
			io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)),
				iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				tags, err := decodeAll(t, src, 16, tt.opts...)
				sameResult(t, tags, err, tags, tt.want)
				if len(tags) != tt.tags {
					t.Errorf("%d tags, want %d", len(tags), tt.tags)
				}
			}
		})
	}
}

func TestErrorsNameTheLimit(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&flv.LimitError{What: "tag data (MaxTag)", Have: 9, Limit: 8},
			"flv: tag data (MaxTag): 9 bytes announced, limit 8"},
		{&flv.PrevTagSizeError{Have: 0, Want: 19},
			"flv: previous-tag-size is 0 after a tag of 19 bytes"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// A fault in the stream is permanent: all later calls return it.
func TestFaultsAreFinal(t *testing.T) {
	frame := rawTag(video, 0, "\x17\x01\x00\x00\x00abc")
	r := millrace.NewReader(strings.NewReader(fileHeader + frame + frame))
	defer r.Release()
	d := flv.NewDecoder(r, flv.MaxTag(4))
	for range 3 {
		var c millrace.Chain
		var limit *flv.LimitError
		if _, err := d.Next(&c); !errors.As(err, &limit) {
			t.Fatalf("error %v, want a LimitError", err)
		}
		if _, err := d.Header(); !errors.As(err, &limit) {
			t.Fatalf("error of Header %v, want a LimitError", err)
		}
	}
}

// stutter returns one byte or an error in turn, like a connection with a short deadline.
type stutter struct {
	p   []byte
	err bool
}

var errDeadline = errors.New("deadline")

func (s *stutter) Read(p []byte) (int, error) {
	if s.err = !s.err; s.err {
		return 0, errDeadline
	}
	if len(s.p) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1], s.p)
	s.p = s.p[n:]
	return n, nil
}

// An error of the source loses nothing, wherever it occurs.
func TestSourceErrorsCanBeOvercome(t *testing.T) {
	in := fileHeader + rawTag(script, 0, "\x02\x00\x0aonMetaData") + rawTag(video, 0,
		"\x17\x01\x00\x00\x00abc")
	want, wantErr := slowParse([]byte(in), 8<<20)
	r := millrace.NewReader(&stutter{p: []byte(in)})
	defer r.Release()
	d := flv.NewDecoder(r)
	var got []slowTag
	for {
		tags, err := drain(d)
		got = append(got, tags...)
		if err == errDeadline {
			continue
		}
		sameResult(t, got, err, want, wantErr)
		return
	}
}

func TestHeader(t *testing.T) {
	r := millrace.NewReader(strings.NewReader("FLV\x01\x04\x00\x00\x00\x09\x00\x00\x00\x00"))
	defer r.Release()
	d := flv.NewDecoder(r)
	for range 2 {
		h, err := d.Header()
		if err != nil || h != (flv.Header{HasAudio: true}) {
			t.Fatalf("%+v, %v, want audio without video", h, err)
		}
	}
}

// The tags are the same, however the bytes arrive.
func TestEverySplit(t *testing.T) {
	s := fileHeader
	for i, seed := range dataSeeds {
		s += rawTag(seed.kind, uint32(i), seed.data)
	}
	want, wantErr := slowParse([]byte(s), 8<<20)
	if len(want) != len(dataSeeds) {
		t.Fatalf("the reference finds %d tags in %d", len(want), len(dataSeeds))
	}
	for cut := range len(s) {
		src := io.MultiReader(strings.NewReader(s[:cut]), strings.NewReader(s[cut:]))
		got, err := decodeAll(t, src, 4096)
		sameResult(t, got, err, want, wantErr)
	}
	for _, src := range []io.Reader{
		iotest.OneByteReader(strings.NewReader(s)), iotest.HalfReader(strings.NewReader(s)),
		iotest.DataErrReader(strings.NewReader(s)),
	} {
		got, err := decodeAll(t, src, 4096)
		sameResult(t, got, err, want, wantErr)
	}
}

// randomReader returns between 0 and 5000 bytes at a time.
type randomReader struct {
	p   []byte
	rnd *rand.Rand
}

func (r *randomReader) Read(p []byte) (int, error) {
	if len(r.p) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.rnd.IntN(5000))], r.p)
	r.p = r.p[n:]
	return n, nil
}

// Random streams, some of them damaged, in random portions, against the reference.
func TestAgainstReference(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		in := randomStream(rnd, 1+rnd.IntN(20))
		switch rnd.IntN(4) {
		case 0:
			in = in[:rnd.IntN(len(in))]
		case 1:
			in[rnd.IntN(len(in))] ^= 1 << rnd.IntN(8)
		}
		maxTag := 1 << (14 + rnd.IntN(8))
		want, wantErr := slowParse(in, maxTag)
		got, err := decodeAll(t, &randomReader{in, rnd}, 16<<rnd.IntN(10), flv.MaxTag(maxTag))
		sameResult(t, got, err, want, wantErr)
	}
}

// Tags that arrive together are one piece, so nothing has been copied.
func TestTagsOfOneBlockAreOnePiece(t *testing.T) {
	s := fileHeader
	for i := range 10 {
		s += rawTag(video, uint32(i), "\x17\x01\x00\x00\x00abc")
	}
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	r := pool.NewReader(strings.NewReader(s), 4096)
	defer r.Release()
	d := flv.NewDecoder(r)
	var c millrace.Chain
	defer c.Release()
	for range 10 {
		if _, err := d.Next(&c); err != nil {
			t.Fatal(err)
		}
	}
	if c.Pieces() != 1 || string(c.Bytes()) != s[len(fileHeader):] {
		t.Errorf("%d pieces, want 1 with the tags", c.Pieces())
	}
	if n := pool.Stats().Taken; n != 1 {
		t.Errorf("%d blocks taken, want 1", n)
	}
}

// Memory is allocated as bytes arrive, not as lengths are announced.
func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(strings.NewReader(fileHeader+
		"\x09\x7f\xff\xff\x00\x00\x00\x00\x00\x00\x00abc"), 4096)
	defer r.Release()
	var c millrace.Chain
	if _, err := flv.NewDecoder(r).Next(&c); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if n := pool.Stats().HighWater; n > 64<<10 {
		t.Errorf("8 MiB announced, 3 bytes come, %d bytes of blocks taken", n)
	}
}

func TestSniff(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want bool
	}{
		{"", false}, {"FLV", false}, {"FLV\x01", true}, {"FLV\x02", false}, {"flv\x01", false},
		{fileHeader[:8], true}, {fileHeader[:9], true}, {fileHeader + "more", true},
		{"FLV\x01\x05\x00\x00\x00\x08", false}, {"FLV\x01\x05\x00\x01\x00\x09", false},
		{"MThd\x00\x00\x00\x06", false},
	} {
		if got := flv.Sniff([]byte(tt.in)); got != tt.want {
			t.Errorf("Sniff(%q) is %v", tt.in, got)
		}
	}
}

func TestMisuse(t *testing.T) {
	short, half := chainOf("FLV"), chainOf(rawTag(video, 0, "abc")[:16])
	defer short.Release()
	defer half.Release()
	var dst millrace.Chain
	var enc flv.Encoder
	for name, f := range map[string]func(){
		"flv: MaxTag(0): a limit is from 1 to 16777215 bytes": func() { flv.MaxTag(0) },
		"flv: MaxTag(16777216): a limit is from 1 to 16777215 bytes": func() {
			flv.MaxTag(flv.MaxData + 1)
		},
		"flv: Retime of a chain of 3 bytes, which is no tag": func() {
			enc.Retime(&dst, &short, 1)
		},
		"flv: Retime of a chain of 16 bytes for a tag of 18": func() {
			enc.Retime(&dst, &half, 1)
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != name {
					t.Errorf("panics with %v, want %q", got, name)
				}
			}()
			f()
		}()
	}
	if dst.Len() != 0 {
		t.Errorf("%d bytes given with a panic", dst.Len())
	}
}

// chainOf returns a chain of s, in pieces.
func chainOf(s string) (c millrace.Chain) {
	_, _ = c.ReadFrom(bytes.NewReader([]byte(s)))
	return c
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		v    fmt.Stringer
		want string
	}{
		{flv.AVC, "AVC"}, {flv.Opus, "Opus"}, {flv.Codec(0), "no codec"},
		{flv.Codec(1<<24 | 4), "VP6"}, {flv.Codec(2 << 24), "PCM"},
		{flv.Codec(1<<24 | 9), "video codec 9"}, {flv.Codec(2<<24 | 12), "audio format 12"},
		{flv.Codec(0x78797a39), `"xyz9"`},
		{flv.TypeVideo, "video"}, {flv.TypeAudio, "audio"}, {flv.TypeScript, "script"},
		{flv.Type(15), "tag type 15"},
	} {
		if got := tt.v.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
