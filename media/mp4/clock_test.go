package mp4_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// A mark is a tag in a trace: a video or audio frame, and its time in ms.
type mark struct {
	kind flv.Type
	ms   int64
}

func (m mark) String() string {
	if m.kind == video {
		return fmt.Sprint("v", m.ms)
	}
	return fmt.Sprint("a", m.ms)
}

// trace reads marks such as "v0 a21". "v0x3" are three video frames, 40 ms apart; audio frames are
// 21.3 ms apart.
func trace(t testing.TB, s string) (marks []mark) {
	for _, f := range strings.Fields(s) {
		from, times, _ := strings.Cut(f[1:], "x")
		ms, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.ParseInt(cmp.Or(times, "1"), 10, 64)
		for i := range n {
			if f[0] == 'v' {
				marks = append(marks, mark{video, ms + 40*i})
			} else {
				marks = append(marks, mark{audio, ms + (128*i+3)/6})
			}
		}
	}
	return marks
}

// placed passes video and audio of 48 kHz at the given times to a Muxer. It returns the times that
// the Muxer gives them, in ms, in the same order. It checks that each sample of a track ends when
// the next one begins, or before.
func placed(t *testing.T, in []mark) (out []mark) {
	t.Helper()
	r := newRig(t)
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac48000))
	picture, pictureData := makeTag(t, video, 0, avcKey("v"))
	sound, soundData := makeTag(t, audio, 0, aacFrame("a"))
	defer pictureData.Release()
	defer soundData.Release()
	for _, m := range in {
		tag, data := picture, &pictureData
		if m.kind == audio {
			tag, data = sound, &soundData
		}
		tag.Timestamp = uint32(m.ms)
		var c millrace.Chain
		data.CloneTo(&c)
		if err := r.write(tag, &c); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	all := r.packets(0)
	pictures, sounds := ofTrack(1, all), ofTrack(2, all)
	if len(pictures)+len(sounds) != len(in) {
		t.Fatalf("%d video frames and %d frames of sound of %d tags", len(pictures), len(sounds),
			len(in))
	}
	for _, track := range [][]packet{pictures, sounds} {
		for i, p := range track {
			if p.dts < 0 || p.duration == 0 || i > 0 &&
				p.dts < track[i-1].dts+int64(track[i-1].duration) {
				t.Fatalf("sample %d of track %d: %v after %v", i, p.track, p, track[max(i-1, 0)])
			}
		}
	}
	for _, m := range in {
		if m.kind == video {
			out, pictures = append(out, mark{video, pictures[0].dts}), pictures[1:]
		} else {
			out, sounds = append(out, mark{audio, (sounds[0].dts + 24) / 48}), sounds[1:]
		}
	}
	return out
}

func TestRounds(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{
			"both start over, the video first",
			"v1000x4 a1000x7 | v0x4 a0x7",
			"v1000x4 a1000x7 v1160x4 a1149x7",
		},
		{
			"the audio first: the round begins where the longer track ends",
			"v1000x4 a1000x7 | a0x7 v0x4 a149x7 v160x4",
			"v1000x4 a1000x14 v1160x4 a1299x7 v1320x4",
		},
		{
			"audio from before the seam comes behind it",
			"v1000x4 a1000x7 | v0 v40 a1149x4 v80 v120 a0x7",
			"v1000x4 a1000x7 v1160x2 a1149x4 v1240x2 a1235x7",
		},
		{
			"one track",
			"v5000x3 | v0x26 v1520x26 | v0x26",
			"v5000x29 v6640x52",
		},
		{
			"only the video starts over",
			"v1000x4 a1000x7 | v0x4 a1149x7 v160x4 a1299x7",
			"v1000x4 a1000x7 v1160x4 a1149x7 v1320x4 a1299x7",
		},
		{
			"the audio steps back less than the limit, the video more",
			"v1000x13 a1000x24 | v800x30 a1200x7 v2000x4 a1349x7",
			"v1000x13 a1000x24 v1520x30 a1920x7 v2720x4 a2069x7",
		},
		{
			"audio that was silent at the seam joins although its time continues",
			"v500x4 a500x7 v4000x29 | v2900x4 v3060x40 a4660x7 v4660x4",
			"v500x4 a500x7 v4000x73 a6920x7 v6920x4",
		},
		{
			"video that had stopped continues where the audio is",
			"v1000x4 a1000x94 | v0x4 a0x7 v160x50",
			"v1000x4 a1000x94 v3006x4 a3005x7 v3166x50",
		},
		{
			"twice the same time",
			"v0 v40 v40 v80",
			"v0x2 v60 v80",
		},
		{
			"begun before zero",
			"v4294967256 v0 v40",
			"v4294967256x3",
		},
		{
			"small steps back",
			"v0x4 a0x7 v40x2 a64 a85 v160x2 a149",
			"v0x4 a0x7 v140 v160 a149x2 v180 v200 a192",
		},
		{
			"only the video starts over, twice, and then both jump",
			"v1000x4 a1000x7 | v0x30 | v0x30 | " +
				"a500000x7 v500000x4 a500149x7 v500160x4 a500299x7 v500320x4 a500448x7 " +
				"v500480x4 a500597x7 v500640x4 a500747x7 v500800x4 a500896x7 v500960x4 a501045x7 v501120x4",
			"v1000x4 a1000x7 v1160x60 a3561x7 v3561x4 a3710x7 v3721x4 a3860x7 v3881x4 a4009x7" +
				" v4041x4 a4158x7 v4201x4 a4308x7 v4361x4 a4457x7 v4521x4 a4606x7 v4681x4",
		},
		{
			"audio 12 s ahead",
			"v0x4 a12000x7 v160x4 a12149x7 | v10000x4 a22000x49 v10160x25",
			"v0x4 a12000x7 v160x4 a12149x7 v10000x4 a22000x49 v10160x25",
		},
		{
			"audio 12 s behind, and both start over",
			"v13000x4 a1000x7 | v12000x4 a0x7 v12160x4 a149x7",
			"v13000x4 a1000x7 v13160x4 a1149x7 v13320x4 a1299x7",
		},
		{
			"a video frame every 80 s",
			"v0 a0x3750 v80000 a80000x3750 v160000 a160000x3",
			"v0 a0x3750 v80000 a80000x3750 v160000 a160000x3",
		},
		{
			"a minute's pause",
			"v0x4 a0x7 v60160x30 a60149x60",
			"v0x4 a0x7 v60160x30 a60149x60",
		},
		{
			"more than a minute for the video, less for the audio",
			"v0x4 a0x7 v60580x3 a60280x3 v60700x24 a60344x50",
			"v0x4 a0x7 v450x3 a149x3 v570x24 a213x50",
		},
		{
			"times a month apart",
			"v0 a2000000000 v40 a2000000021 v80 a2000000042 v120x20 | v0x3 a2000000064x30",
			"v0 a22 v40 a43 v80 a65 v120x23 a86x30",
		},
		{
			"round the 32 bits",
			"v4294967290 a4294967280 a5 v34 a26",
			"v4294967290 a4294967280x2 v4294967330 a4294967323",
		},
		{
			"a stray frame ahead",
			"v0x4 a0x7 v160 v20200 v240x4 a149x9",
			"v0x4 a0x7 v160x6 a149x9",
		},
		{
			"a stray frame behind",
			"v60000x4 a60000x7 v60160 v40200 v60240x4 a60149x9",
			"v60000x4 a60000x7 v60160x6 a60149x9",
		},
		{
			"stray audio",
			"v0x4 a0x7 a3149 v160x4 a171x7",
			"v0x4 a0x8 v160x4 a171x7",
		},
		{
			"stray frames of both at once",
			"v0x4 a0x7 v30160 a30149 v200x4 a171x7",
			"v0x4 a0x7 v160 a149 v200x4 a171x7",
		},
		{
			"two in turn, at different times",
			"v0x4 a0x7 v30160 v700 v240x4 a149x7",
			"v0x4 a0x7 v160x6 a149x7",
		},
		{
			"the first frame is the stray",
			"v20000 a0x2 v40x4 a43x7",
			"v0 a0x2 v40x4 a43x7",
		},
		{
			"the last frame is the stray",
			"v0x4 a0x7 v20160",
			"v0x4 a0x7 v160",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, want := placed(t, trace(t, strings.ReplaceAll(tt.in, "|", ""))), trace(t, tt.want)
			if !slices.EqualFunc(got, want, func(a, b mark) bool {
				// rounding
				return a == b || a.kind == audio && b.kind == audio &&
					max(a.ms-b.ms, b.ms-a.ms) == 1
			}) {
				t.Errorf("%s\n%s, want\n%s", tt.in, got, want)
			}
		})
	}
}
