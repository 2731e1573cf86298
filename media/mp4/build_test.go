package mp4_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

func unhex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Sequence headers that libx264, libx265 and ffmpeg's AAC encoder have written.
var (
	avc640x360 = unhex(
		"014d401fffe1001a674d401fa6110280bfe5c044000003000400000300c83c60c84601000668e843044b20")
	// libx264, with a sample aspect ratio of 7:5.
	avc322x182 = unhex(
		"0164000dffe1001e6764000dacd941519e226ffc001c001440000003004000000c83c50a65800100" +
			"0668ebe3cb22c0fdf8f800")
	avc320x240 = unhex(
		"0142c00dffe100186742c00dd90141fb011000000300100000030320f142a48001000568cb83cb20")
	// hvcC with its parameter sets, but without libx265's message about itself.
	hevc322x182 = unhex("0101600000009000000000003cf000fcfdf8f800000f03" +
		"2000010018" + "40010c01ffff01600000030090000003000003003c959809" +
		"210001002a" + "42010101600000030090000003000003003ca00a480b9c9596566924caf0168080000003008000000c84" +
		"2200010007" + "4401c172b46240")
	// The same, with arrays that are marked as complete.
	hevcComplete = strings.NewReplacer("\x20\x00\x01", "\xa0\x00\x01", "\x21\x00\x01",
		"\xa1\x00\x01",
		"\x22\x00\x01", "\xa2\x00\x01").Replace(hevc322x182)
	aac44100 = unhex("121056e500") // stereo
	aac48000 = unhex("118856e500") // mono
)

// Data of tags, each for a decoder's configuration or a frame.
func avcHeader(record string) string { return "\x17\x00\x00\x00\x00" + record }
func aacHeader(record string) string { return "\xaf\x00" + record }
func aacFrame(data string) string    { return "\xaf\x01" + data }
func avcKey(data string) string      { return "\x17\x01\x00\x00\x00" + unit(data) }
func avcDelta(shift int32, data string) string {
	return "\x27\x01" + string([]byte{byte(shift >> 16), byte(shift >> 8),
		byte(shift)}) + unit(data)
}

// unitType is the first byte of the NAL units in tests. In both codecs it marks a slice of a frame.
const unitType = "\x25"

// unit returns a NAL unit with data, after its length.
func unit(data string) string {
	if data == "" {
		return ""
	}
	return string(binary.BigEndian.AppendUint32(nil, uint32(1+len(data)))) + unitType + data
}

// unitData returns the argument of unit. It returns other data unchanged.
func unitData(data string) string {
	const head = 4 + len(unitType)
	if len(data) > head && data[:head] == string(binary.BigEndian.AppendUint32(nil,
		uint32(len(data)-4)))+unitType {
		return data[head:]
	}
	return data
}

// rig feeds a Muxer with tags and records its results.
type rig struct {
	t         testing.TB
	m         *mp4.Muxer
	fragments []mp4.Fragment
	bytes     [][]byte // of each fragment
	inits     [][]byte // each new init segment
}

func newRig(t testing.TB, opts ...mp4.Option) *rig {
	r := &rig{t: t, m: mp4.NewMuxer(opts...)}
	t.Cleanup(r.m.Release)
	return r
}

// tag passes one tag to the Muxer, and fails if it is refused.
func (r *rig) tag(kind flv.Type, ts uint32, data string) {
	r.t.Helper()
	if err := r.try(kind, ts, data); err != nil {
		r.t.Fatal(err)
	}
}

// try passes one tag to the Muxer and returns its error.
func (r *rig) try(kind flv.Type, ts uint32, data string) error {
	r.t.Helper()
	tag, c := makeTag(r.t, kind, ts, data)
	return r.write(tag, &c)
}

func (r *rig) write(tag flv.Tag, c *millrace.Chain) error {
	r.t.Helper()
	var dst millrace.Chain
	f, err := r.m.WriteTag(&dst, tag, c)
	if c.Len() > 0 || err != nil && dst.Len() > 0 || (f.Samples > 0) != (dst.Len() > 0) {
		r.t.Fatalf("%v: %d bytes left, %d bytes given, %+v", err, c.Len(), dst.Len(), f)
	}
	r.keep(f, &dst)
	return err
}

func (r *rig) flush() {
	var dst millrace.Chain
	r.keep(r.m.Flush(&dst), &dst)
}

// checkParts compares the facts that the Muxer returns about its fragments and their init segment
// with the parsed bytes.
func checkParts(t testing.TB, m *mp4.Muxer, body []byte) {
	t.Helper()
	var init millrace.Chain
	defer init.Release()
	if err := m.AppendInit(&init); err != nil {
		t.Fatal(err)
	}
	movie, err := mp4.ReadMovie(init.Bytes())
	if made := m.Movie(); err != nil || !reflect.DeepEqual(made, movie) {
		t.Fatalf("the movie is %+v, %v; said was %+v", movie, err, made)
	}
	for i, part := range m.Parts() {
		read, _, err := movie.ReadFragment(body)
		if err != nil || part != read {
			t.Fatalf("part %d is %+v, %v; said was %+v", i, read, err, part)
		}
		body = body[part.Size:]
	}
	if len(body) > 0 {
		t.Fatalf("%d bytes behind %d parts", len(body), len(m.Parts()))
	}
}

func (r *rig) keep(f mp4.Fragment, dst *millrace.Chain) {
	if n := len(r.m.Parts()); (n > 0) != (f.Samples > 0) {
		r.t.Fatalf("%d parts of %+v", n, f)
	}
	if f.Samples > 0 {
		checkParts(r.t, r.m, dst.Bytes())
		r.fragments = append(r.fragments, f)
		r.bytes = append(r.bytes, bytes.Clone(dst.Bytes()))
		r.checkDuration(f, readFragments(dst.Bytes()))
		if f.NewInit {
			r.inits = append(r.inits, r.init())
		}
	}
	dst.Release()
}

// checkDuration compares the sum of the durations of the fragment's first track.
func (r *rig) checkDuration(f mp4.Fragment, packets []packet) {
	r.t.Helper()
	var want time.Duration
	for _, tr := range readInit(r.init()) {
		for _, p := range packets {
			if tr.id == packets[0].track && p.track == tr.id {
				want += time.Duration(p.duration) * time.Second / time.Duration(tr.scale)
			}
		}
	}
	if d := f.Duration - want; d < 0 || d > time.Microsecond {
		r.t.Fatalf("a fragment of %v, want %v", f.Duration, want)
	}
}

// otherTags are the words of play without a time.
var otherTags = map[string]struct {
	kind flv.Type
	data string
}{
	"avc":     {video, avcHeader(avc640x360)},
	"avc320":  {video, avcHeader(avc320x240)},
	"avc7:5":  {video, avcHeader(avc322x182)},
	"hvc1":    {video, "\x90hvc1" + hevc322x182},
	"hvc1:K":  {video, "\x91hvc1\x00\x00\x28" + unit("K")}, // shown 40 ms later
	"hvc1:P":  {video, "\xa3hvc1" + unit("P")},
	"mp4a":    {audio, "\x90mp4a" + aac48000},
	"mp4a:a":  {audio, "\x91mp4aa"},
	"aac48":   {audio, aacHeader(aac48000)},
	"aac44":   {audio, aacHeader(aac44100)},
	"meta":    {script, "\x02\x00\x0aonMetaData\x08"},
	"end":     {video, "\x17\x02\x00\x00\x00"}, // end of the sequence
	"empty":   {video, avcKey("")},             // no frame at all
	"command": {video, "\x57\x00"},             // a command to the player
}

var sampleWord = regexp.MustCompile(`^([KPa])(\d+)([+-]\d+)?(?:x(\d+))?$`)

// play passes the tags that in names to the Muxer. K, P and a are a keyframe, another video frame,
// and an audio frame, at the given time in ms. P40+80 is shown 80 ms later. a0x60 are 60
// consecutive audio frames. "release" calls Release. The data of a sample is its name.
func (r *rig) play(in string) {
	r.t.Helper()
	now := 0
	for _, word := range strings.Fields(in) {
		if tag, ok := otherTags[word]; ok {
			r.tag(tag.kind, uint32(now), tag.data)
			continue
		}
		if word == "release" {
			r.m.Release()
			continue
		}
		m := sampleWord.FindStringSubmatch(word)
		if m == nil {
			r.t.Fatalf("no such word: %s", word)
		}
		at, _ := strconv.Atoi(m[2])
		shift, _ := strconv.Atoi(m[3])
		n, _ := strconv.Atoi(m[4])
		for i := range max(n, 1) {
			now = at + i*64/3
			switch name := fmt.Sprint(m[1], now); m[1] {
			case "a":
				r.tag(audio, uint32(now), aacFrame(name))
			case "K":
				r.tag(video, uint32(now), avcKey(name))
			case "P":
				r.tag(video, uint32(now), avcDelta(int32(shift), name))
			}
		}
	}
}

// String prints the fragments: changes of the init segment, whether a viewer can start, the start,
// and the samples with dts, pts if it differs, and duration in units of their track. Consecutive
// audio samples are printed together: 3×a0@0+1024.
func (r *rig) String() string {
	var out []string
	inits := r.inits
	for i, f := range r.fragments {
		var words []string
		if f.NewInit {
			words = append(words, "init")
			init := inits[0]
			inits = inits[1:]
			for _, t := range readInit(init) {
				words = append(words, map[string]string{
					"vide": fmt.Sprintf("%dx%d", t.width, t.height),
					"soun": fmt.Sprint(t.scale)}[t.handler])
			}
		}
		if f.Key {
			words = append(words, "key")
		}
		words = append(words, f.Start.String()+":")
		all := readFragments(r.bytes[i])
		for len(all) > 0 {
			n := 1
			for n < len(all) && all[0].track == 2 && all[n].track == 2 &&
				all[n].duration == all[0].duration &&
				all[n].dts == all[n-1].dts+int64(all[n-1].duration) {
				n++
			}
			word := all[0].String()
			if n > 1 {
				word = fmt.Sprint(n, "×", word)
			}
			words, all = append(words, word), all[n:]
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, " | ")
}

func (r *rig) init() []byte {
	r.t.Helper()
	var c millrace.Chain
	defer c.Release()
	if err := r.m.AppendInit(&c); err != nil {
		r.t.Fatal(err)
	}
	return bytes.Clone(c.Bytes())
}

// packets reads all fragments, starting with the given one.
func (r *rig) packets(from int) []packet {
	return readFragments(bytes.Join(r.bytes[from:], nil))
}

// ofTrack selects the packets of one track: 1 is video, 2 is audio.
func ofTrack(id uint32, all []packet) (some []packet) {
	for _, p := range all {
		if p.track == id {
			some = append(some, p)
		}
	}
	return some
}

// makeTag builds a tag, and describes it with a Decoder.
func makeTag(t testing.TB, kind flv.Type, ts uint32, data string) (flv.Tag, millrace.Chain) {
	t.Helper()
	var stream, body, c millrace.Chain
	flv.AppendHeader(&stream, flv.Header{})
	body.AppendCopy([]byte(data))
	var enc flv.Encoder
	defer enc.Release()
	if _, err := enc.Append(&stream, kind, ts, &body); err != nil {
		t.Fatal(err)
	}
	r := millrace.NewReaderFrom(
		func(dst *millrace.Chain) error { dst.Merge(&stream); return io.EOF })
	defer r.Release()
	tag, err := flv.NewDecoder(r).Next(&c)
	if err != nil {
		t.Fatal(err)
	}
	return tag, c
}
