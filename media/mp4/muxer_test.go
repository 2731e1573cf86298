package mp4_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

const (
	video  = flv.TypeVideo
	audio  = flv.TypeAudio
	script = flv.TypeScript
)

// Input and output are in the notation of rig.play and rig.String.
func TestFragments(t *testing.T) {
	both := []mp4.Option{mp4.Tracks(true, true)}
	for _, tt := range []struct {
		name string
		opts []mp4.Option
		in   string
		want []string
	}{
		{"pictures and sound", nil, "meta avc aac44 K0 a0 a23 P40+80 a46 P80-40 K120 end",
			[]string{"init 640x360 44100 key 0s: K0@0+40 a0@0+1024",
				"23ms: P40@40>120+40 a23@1024+1024", "80ms: P80@80>40+40",
				"key 46ms: K120@120+40 a46@2048+1024"}},
		{"enhanced tags", nil, "hvc1 mp4a hvc1:K mp4a:a hvc1:P",
			[]string{"init 322x182 48000 key 0s: K@0>40+1", "0s: P@1+40 a@0+1024"}},
		{"sound alone", nil, "aac48 a0x8",
			[]string{"init 48000 key 0s: 5×a0@0+1024", "key 106ms: 3×a106@5120+1024"}},
		{"sound that stops is not kept back until it comes again", nil,
			"avc aac48 a0 a21 K0 K200 K400 K600 K800 a900x3",
			[]string{"init 640x360 48000 key 0s: K0@0+200 a0@0+1024", "key 200ms: K200@200+200",
				"key 21ms: K400@400+200 a21@1024+1024", "key 600ms: K600@600+200",
				"900ms: a900@43200+1024", "key 800ms: K800@800+200 2×a921@44224+1024"}},
		{"audio leaves soon after the video has stopped, whose last frame lasts until the next one",
			nil, "avc aac48 K0 P40 a0x30 K650 P690",
			[]string{"init 640x360 48000 key 0s: K0@0+40", "0s: 2×a0@0+1024",
				"42ms: 2×a42@2048+1024", "85ms: a85@4096+1024", "106ms: a106@5120+1024",
				"128ms: a128@6144+1024", "149ms: a149@7168+1024", "170ms: a170@8192+1024",
				"192ms: a192@9216+1024", "213ms: a213@10240+1024", "234ms: a234@11264+1024",
				"256ms: a256@12288+1024", "277ms: a277@13312+1024", "298ms: a298@14336+1024",
				"320ms: a320@15360+1024", "341ms: a341@16384+1024", "362ms: a362@17408+1024",
				"384ms: a384@18432+1024", "405ms: a405@19456+1024", "426ms: a426@20480+1024",
				"448ms: a448@21504+1024", "469ms: a469@22528+1024", "490ms: a490@23552+1024",
				"512ms: a512@24576+1024", "533ms: a533@25600+1024", "554ms: a554@26624+1024",
				"40ms: P40@40+610 3×a576@27648+1024", "key 650ms: K650@650+40",
				"690ms: P690@690+40"}},
		{"sound waits a second for the first picture", nil, "avc aac48 a0x52 K1100 a1109 P1140",
			[]string{"init 640x360 48000 key 0s: 47×a0@0+1024", "key 1.002s: a1002@48128+1024",
				"key 1.024s: a1024@49152+1024", "key 1.045s: a1045@50176+1024",
				"key 1.066s: a1066@51200+1024", "key 1.088s: K1100@1100+40 a1088@52224+1024",
				"1.109s: P1140@1140+40 a1109@53248+1024"}},
		{"sound waits no longer for pictures that were announced", both,
			"avc aac48 a0x52 K1100 a1109 P1140",
			[]string{"init 640x360 48000 key 0s: 47×a0@0+1024", "key 1.002s: a1002@48128+1024",
				"key 1.024s: a1024@49152+1024", "key 1.045s: a1045@50176+1024",
				"key 1.066s: a1066@51200+1024", "key 1.088s: K1100@1100+40 a1088@52224+1024",
				"1.109s: P1140@1140+40 a1109@53248+1024"}},
		{"pictures wait a second for sound that was announced", both,
			"avc K500 K800 K1100 K1480 K1500 K1520",
			[]string{"init 640x360 key 500ms: K500@500+300 K800@800+300 K1100@1100+380",
				"key 1.48s: K1480@1480+20 K1500@1500+20", "key 1.52s: K1520@1520+20"}},
		{"sound waits a second for pictures that were announced", both, "aac48 a500x49",
			[]string{"init 48000 key 500ms: 47×a500@24000+1024", "key 1.502s: 2×a1502@72128+1024"}},
		{"samples before a sequence header and pictures before a keyframe are dropped", nil,
			"K0 a0 avc P40 K80 empty command",
			[]string{"init 640x360 key 80ms: K80@80+40"}},
		{"a new sequence header ends what was, a repeated one does nothing", nil,
			"avc aac44 K0 a0 P40 avc aac44 avc320 P80 K120 K160",
			[]string{"init 640x360 44100 key 0s: K0@0+40", "0s: P40@40+40 a0@0+1024",
				"init 320x240 44100 key 120ms: K120@120+40", "key 160ms: K160@160+40"}},
		{"a sequence header that comes back before it was missed", nil,
			"avc aac44 K0 a0 K40 a40 avc320 aac48 aac44 avc K50 a50 K120 a120",
			[]string{"init 640x360 44100 key 0s: K0@0+40", "key 0s: K40@40+40 2×a0@0+1024",
				"key 80ms: K50@80+40", "50ms: a50@2205+1024",
				"key 73ms: K120@120+40 a120@3229+1024"}},
		{"a track that comes late", nil, "avc K0 K40 K80 K120 aac48 a160 K160",
			[]string{"init 640x360 key 0s: K0@0+40", "key 40ms: K40@40+40", "key 80ms: K80@80+40",
				"init 640x360 48000 key 120ms: K120@120+40",
				"key 160ms: K160@160+40 a160@7680+1024"}},
		{"a late track that was announced", both, "avc K0 K40 K80 K120 aac48 a160 K160",
			[]string{"init 640x360 48000 key 0s: K0@0+40 K40@40+40",
				"key 80ms: K80@80+40 K120@120+40",
				"key 160ms: K160@160+40 a160@7680+1024"}},
		{"a late track that was announced, and no room to wait", append(both, mp4.MaxWaitBytes(15)),
			"avc K0 K40 K80 K120 aac48 a160 K160",
			[]string{"init 640x360 key 0s: K0@0+40", "key 40ms: K40@40+40",
				"init 640x360 48000 key 80ms: K80@80+40", "key 120ms: K120@120+40",
				"key 160ms: K160@160+40 a160@7680+1024"}},
		{"nothing is left from before Release", nil, "avc aac48 a0 a21 K0 release P40 K80",
			[]string{"init 640x360 48000 key 80ms: K80@80+80"}},
		{"times of sound are rounded to ms", nil, "aac48 a1000x5",
			[]string{"init 48000 key 1s: 5×a1000@48000+1024"}},
		{"a gap in the audio", nil, "aac48 a0 a21 a442x49",
			[]string{"init 48000 key 0s: a0@0+1024 a21@1024+20192 47×a442@21216+1024",
				"key 1.444s: 2×a1444@69344+1024"}},
		{"a short gap, which four frames confirm", nil, "aac48 a0 a21 a142x5",
			[]string{"init 48000 key 0s: 4×a0@0+1024 a184@4096+5760",
				"key 205ms: 2×a206@9856+1024"}},
		{"audio that is a little late", nil, "aac48 a0 a21 a46",
			[]string{"init 48000 key 0s: 3×a0@0+1024"}},
		{"audio that is a little early", nil, "aac48 a0 a21 a40",
			[]string{"init 48000 key 0s: 3×a0@0+1024"}},
		{"audio at the same time", nil, "aac48 a0 a21 a21",
			[]string{"init 48000 key 0s: 3×a0@0+1024"}},
		{"audio that steps back", nil, "aac48 a0 a21 a0",
			[]string{"init 48000 key 0s: 3×a0@0+1024"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaktest.Check(t, millrace.DefaultPool())
			r := newRig(t, tt.opts...)
			r.play(tt.in)
			r.flush()
			if got, want := r.String(), strings.Join(tt.want, " | "); got != want {
				t.Errorf("got\n%s, want\n%s", got, want)
			}
		})
	}
}

func TestInit(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []track
	}{
		{"avc aac44 K0 a0", []track{
			{id: 1, handler: "vide", entry: "avc1", scale: 1000, width: 640, height: 360,
				shown: 640 << 16, record: avc640x360},
			{id: 2, handler: "soun", entry: "mp4a", scale: 44100, channels: 2, rate: 44100 << 16,
				record: aac44100},
		}},
		{"avc7:5 K0", []track{
			{id: 1, handler: "vide", entry: "avc1", scale: 1000, width: 322, height: 182,
				aspect: "7:5",
				shown:  322 * 7 << 16 / 5, record: avc322x182},
		}},
		{"hvc1 mp4a hvc1:K mp4a:a", []track{
			{id: 1, handler: "vide", entry: "hvc1", scale: 1000, width: 322, height: 182,
				shown: 322 << 16, record: hevcComplete},
			{id: 2, handler: "soun", entry: "mp4a", scale: 48000, channels: 1, rate: 48000 << 16,
				record: aac48000},
		}},
	} {
		r := newRig(t)
		r.play(tt.in)
		r.flush()
		if got := readInit(r.init()); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("tracks\n%+v, want\n%+v", got, tt.want)
		}
	}
}

// The samples share the publisher's bytes, at the same address.
func TestSamplesAreByReference(t *testing.T) {
	m := mp4.NewMuxer()
	defer m.Release()
	var dst millrace.Chain
	defer dst.Release()
	_, c := makeTag(t, video, 0, avcHeader(avc640x360))
	c.Release()
	var where *byte
	for i, data := range []string{avcHeader(avc640x360), avcKey("picture"), avcDelta(0, "next")} {
		tag, c := makeTag(t, video, uint32(40*i), data)
		if i == 1 {
			where = &c.Bytes()[tag.Payload]
		}
		if _, err := m.WriteTag(&dst, tag, &c); err != nil {
			t.Fatal(err)
		}
	}
	var last []byte
	for p := range dst.All() {
		last = p
	}
	if unitData(string(last)) != "picture" || &last[0] != where {
		t.Errorf("the fragment ends with %q, not with the tag's own bytes", last)
	}
}

// Ten minutes of audio with times truncated to milliseconds stay at multiples of the frame
// duration.
func TestSoundDoesNotDrift(t *testing.T) {
	for _, record := range []struct {
		config string
		rate   int
	}{{aac44100, 44100}, {aac48000, 48000}, {unhex("138856e500"), 22050},
		{unhex("2b118800"), 24000}, {unhex("eb098800"), 24000}, {unhex("131056e598"), 24000},
		{unhex("1310"), 24000}} {
		r := newRig(t)
		r.tag(audio, 0, aacHeader(record.config))
		for i := range record.rate * 600 / 1024 {
			r.tag(audio, uint32(int64(i)*1024*1000/int64(record.rate)), aacFrame("x"))
		}
		r.flush()
		for i, p := range r.packets(0) {
			if p.dts != int64(i)*1024 || p.duration != 1024 {
				t.Fatalf("%d Hz: frame %d at %d for %d, want %d", record.rate, i, p.dts, p.duration,
					i*1024)
			}
		}
	}
}

// Audio waits for video, however far it is ahead. Audio before the first video frame waits for a
// second.
func TestSoundWaitsForPictures(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac48000))
	for i := range 125 {
		if i >= 46 && i%2 == 0 {
			r.tag(video, uint32(i*64/3), avcKey("x"))
		}
		r.tag(audio, uint32(12_000+i*64/3), aacFrame("a"))
	}
	for i, f := range r.fragments {
		if len(ofTrack(1, readFragments(r.bytes[i]))) != 1 {
			t.Errorf("fragment %d, %+v, is not of one picture", i, f)
		}
	}
}
