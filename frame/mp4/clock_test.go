package mp4_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// A mark is a tag in a trace: a picture or a frame of sound, and its time in ms.
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

// trace reads marks such as "v0 a21".
func trace(t testing.TB, s string) (marks []mark) {
	for _, f := range strings.Fields(s) {
		ms, err := strconv.ParseInt(f[1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		marks = append(marks, mark{map[byte]flv.Type{'v': video, 'a': audio}[f[0]], ms})
	}
	return marks
}

// placed feeds a Muxer with pictures and sound of 48 kHz at the given times, and returns where it put each, in ms, in
// the same order. It checks that the samples of each track last until the next one, or end before it.
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
		data.Clone(&c)
		if err := r.write(tag, &c); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	all := r.packets(0)
	pictures, sounds := ofTrack(1, all), ofTrack(2, all)
	if len(pictures)+len(sounds) != len(in) {
		t.Fatalf("%d pictures and %d frames of sound of %d tags", len(pictures), len(sounds), len(in))
	}
	for _, track := range [][]packet{pictures, sounds} {
		for i, p := range track {
			if p.dts < 0 || p.duration == 0 || i > 0 && p.dts < track[i-1].dts+int64(track[i-1].duration) {
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
			"both start over, the picture first",
			"v1000 a1000 a1021 v1040 a1043 | v0 a0 a21 v40",
			"v1000 a1000 a1021 v1040 a1043 | v1080 a1080 a1101 v1120",
		},
		{
			"the sound first: the round begins where the longer track ends",
			"v1000 a1000 a1021 v1040 | a0 v0 a21 v40 a43",
			"v1000 a1000 a1021 v1040 | a1043 v1080 a1101 v1120 a1122",
		},
		{
			"sound from before the seam comes behind it",
			"v1000 a1000 a1021 v1040 | v0 a1043 a1064 v40 a1085 a0 a21 v80",
			"v1000 a1000 a1021 v1040 | v1080 a1043 a1064 v1120 a1085 a1107 a1128 v1187",
		},
		{
			"one track",
			"v5000 v5040 v5080 | v0 v40 v600 | v0 v40",
			"v5000 v5040 v5080 | v5120 v5160 v5720 | v6220 v6260",
		},
		{
			"only the picture starts over",
			"v1000 a1000 v1040 a1021 | v0 a1043 a1064 v40 a1085 v80 a1107",
			"v1000 a1000 v1040 a1021 | v1080 a1043 a1064 v1120 a1085 v1160 a1107",
		},
		{
			"the sound steps back less than the limit, the picture more",
			"v600 a600 a1021 v1040 | v480 a580 v520 a601",
			"v600 a600 a1021 v1040 | v1480 a1580 v1520 a1601",
		},
		{
			"sound that was silent at the seam joins although its time goes on",
			"v500 a500 v540 a521 v4000 v4040 | v2900 v2940 v4000 a4000 a4021 v4040",
			"v500 a500 v540 a521 v4000 v4040 | v4080 v4120 v5180 a5180 a5201 v5220",
		},
		{
			"pictures that had stopped go on where the sound is",
			"v1000 a1000 a1021 v1040 a2000 a3000 | v0 a0 v40 a21",
			"v1000 a1000 a1021 v1040 a2000 a3000 | v2519 a3021 v3062 a3043",
		},
		{
			"twice the same time",
			"v0 v40 v40 v80",
			"v0 v40 v41 v80",
		},
		{
			"begun before zero",
			"v4294967256 v0 v40",
			"v4294967256 v4294967296 v4294967336",
		},
		{
			"small steps back",
			"v0 a0 v400 a400 v100 a200 v500 a500",
			"v0 a0 v400 a400 v401 a400 v500 a500",
		},
		{
			"small steps back that add up",
			"v1000 v1040 v1080 v700 v400 v440",
			"v1000 v1040 v1080 v1081 v1082 v1121",
		},
		{
			"only the picture starts over, twice, and then both leap",
			"v1000 a1000 v1040 a1021 | v0 v40 v600 | v0 v40 | a500000 v500000 a500021 v500040",
			"v1000 a1000 v1040 a1021 | v1080 v1120 v1680 | v2180 v2220 | a1701 v2260 a2281 v2300",
		},
		{
			"sound 12 s ahead",
			"v0 a12000 a12021 v40 a12043 | v10000 a22000 a22021 v10040",
			"v0 a12000 a12021 v40 a12043 | v10000 a22000 a22021 v10040",
		},
		{
			"sound 12 s behind, and both start over",
			"v13000 a1000 v13040 a1021 | v12000 a1043 a0 a21 v12040",
			"v13000 a1000 v13040 a1021 | v13080 a1043 a1080 a1101 v13120",
		},
		{
			"a picture every 80 s",
			"v0 a0 a40000 v80000 a80000 a120000 v160000 a160000",
			"v0 a0 a40000 v80000 a80000 a120000 v160000 a160000",
		},
		{
			"a minute's pause",
			"v0 a0 v40 a21 v60040 a60000 a60021",
			"v0 a0 v40 a21 v60040 a60000 a60021",
		},
		{
			"more than a minute for the picture, less for the sound",
			"v0 a0 v40 a21 a43 v60140 a60030 a60051 v60180",
			"v0 a0 v40 a21 a43 v80 a64 a85 v215",
		},
		{
			"times a month apart",
			"v0 a2000000000 v40 a2000000021 v80 a2000000043 v1000 | v0 v40 a2000000064",
			"v0 a22 v40 a43 v80 a65 v1000 | v1500 v1540 a86",
		},
		{
			"round the 32 bits",
			"v4294967290 a4294967280 a5 v34 a26",
			"v4294967290 a4294967280 a4294967301 v4294967330 a4294967323",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := trace(t, strings.ReplaceAll(tt.in, "|", ""))
			if got, want := fmt.Sprint(placed(t, in)), fmt.Sprint(trace(t, strings.ReplaceAll(tt.want, "|", ""))); got != want {
				t.Errorf("%s\n%s, want\n%s", tt.in, got, want)
			}
		})
	}
}
