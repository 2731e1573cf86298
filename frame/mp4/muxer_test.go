package mp4_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/mp4"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

const (
	video  = flv.TypeVideo
	audio  = flv.TypeAudio
	script = flv.TypeScript
)

func TestFragmentsOfPicturesAndSound(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	r := newRig(t)
	r.tag(script, 0, "\x02\x00\x0aonMetaData\x08")
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac44100))
	r.tag(video, 0, avcKey("K0"))
	r.tag(audio, 0, aacFrame("a0"))
	r.tag(audio, 23, aacFrame("a1"))
	r.tag(video, 40, avcDelta(80, "P1"))
	r.tag(audio, 46, aacFrame("a2"))
	r.tag(video, 80, avcDelta(-40, "B2"))
	r.tag(video, 120, avcKey("K3"))
	r.tag(video, 120, "\x17\x02\x00\x00\x00") // end of sequence
	r.flush()

	want := []packet{
		{1, 0, 0, 40, true, "K0"}, {2, 0, 0, 1024, true, "a0"},
		{1, 40, 120, 40, false, "P1"}, {2, 1024, 1024, 1024, true, "a1"},
		{1, 80, 40, 40, false, "B2"},
		{1, 120, 120, 40, true, "K3"}, {2, 2048, 2048, 1024, true, "a2"},
	}
	if got := r.packets(0); !reflect.DeepEqual(got, want) {
		t.Errorf("packets\n%v, want\n%v", got, want)
	}
	ms := time.Millisecond
	wantFragments := []mp4.Fragment{
		{Samples: 2, Key: true, NewInit: true, Start: 0}, {Samples: 2, Start: 23 * ms},
		{Samples: 1, Start: 80 * ms}, {Samples: 2, Key: true, Start: 46 * ms},
	}
	if !reflect.DeepEqual(r.fragments, wantFragments) {
		t.Errorf("fragments\n%+v, want\n%+v", r.fragments, wantFragments)
	}
	wantTracks := []track{
		{id: 1, handler: "vide", entry: "avc1", scale: 1000, width: 640, height: 360, shown: 640 << 16, record: avc640x360},
		{id: 2, handler: "soun", entry: "mp4a", scale: 44100, channels: 2, rate: 44100 << 16, record: aac44100},
	}
	if got := readInit(r.init()); !reflect.DeepEqual(got, wantTracks) {
		t.Errorf("tracks\n%+v, want\n%+v", got, wantTracks)
	}
}

// The samples' bytes are the publisher's: at the same address.
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
	if string(last) != "picture" || &last[0] != where {
		t.Errorf("the fragment ends with %q, not with the tag's own bytes", last)
	}
}

func TestSoundAlone(t *testing.T) {
	r := newRig(t)
	r.tag(audio, 0, aacHeader(aac48000))
	for i := range 8 {
		r.tag(audio, uint32(i*1024/48), aacFrame(fmt.Sprint(i)))
	}
	r.flush()
	if len(r.fragments) != 2 || r.fragments[1] != (mp4.Fragment{Samples: 3, Key: true, Start: 106 * time.Millisecond}) {
		t.Errorf("fragments %+v", r.fragments)
	}
	for i, p := range r.packets(0) {
		if want := (packet{2, int64(i) * 1024, int64(i) * 1024, 1024, true, fmt.Sprint(i)}); p != want {
			t.Errorf("%v, want %v", p, want)
		}
	}
	if tracks := readInit(r.init()); len(tracks) != 1 || tracks[0].channels != 1 {
		t.Errorf("tracks %+v", tracks)
	}
}

// times feeds frames of sound at the given milliseconds and returns where they were placed.
func times(t *testing.T, record string, ms ...uint32) (at []int64) {
	r := newRig(t)
	r.tag(audio, 0, aacHeader(record))
	for _, ts := range ms {
		r.tag(audio, ts, aacFrame("x"))
	}
	r.flush()
	end := int64(-1)
	for i, p := range r.packets(0) {
		if i > 0 && p.dts != end {
			t.Errorf("frame %d begins at %d, the one before ends at %d", i, p.dts, end)
		}
		end = p.dts + int64(p.duration)
		at = append(at, p.dts)
	}
	return at
}

func TestTimesOfSound(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []uint32
		want []int64 // at 48 kHz: 48 units a ms, 1024 a frame
	}{
		{"cut to ms", []uint32{0, 21, 42, 64, 85}, []int64{0, 1024, 2048, 3072, 4096}},
		{"rounded to ms", []uint32{1000, 1021, 1043, 1064, 1085}, []int64{48000, 49024, 50048, 51072, 52096}},
		{"a gap", []uint32{0, 21, 142, 164}, []int64{0, 1024, 142 * 48, 142*48 + 1024}},
		{"a little late", []uint32{0, 21, 46}, []int64{0, 1024, 46 * 48}},
		{"a little early", []uint32{0, 21, 40}, []int64{0, 1024, 40 * 48}},
		{"twice the same time", []uint32{0, 21, 21}, []int64{0, 1024, 1025}},
		{"a step back", []uint32{0, 21, 0}, []int64{0, 1024, 1025}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := times(t, aac48000, tt.in...); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// Ten minutes of sound whose times are cut to milliseconds keeps to the multiples of the frame.
func TestSoundDoesNotDrift(t *testing.T) {
	for _, record := range []struct {
		config string
		rate   int
	}{{aac44100, 44100}, {aac48000, 48000}, {unhex("138856e500"), 22050}} {
		var ms []uint32
		for i := range record.rate * 600 / 1024 {
			ms = append(ms, uint32(int64(i)*1024*1000/int64(record.rate)))
		}
		for i, at := range times(t, record.config, ms...) {
			if at != int64(i)*1024 {
				t.Fatalf("%d Hz: frame %d at %d, want %d", record.rate, i, at, i*1024)
			}
		}
	}
}

func TestTimesOfPictures(t *testing.T) {
	const day = 24 * 3600 * 1000
	for _, tt := range []struct {
		name string
		in   []uint32
		want []int64
	}{
		{"as they are", []uint32{7, 40, 90}, []int64{7, 40, 90}},
		{"far from zero", []uint32{45 * day, 45*day + 40}, []int64{45 * day, 45*day + 40}},
		{"round the 32 bits", []uint32{1<<32 - 20, 20, 60}, []int64{1<<32 - 20, 1<<32 + 20, 1<<32 + 60}},
		{"twice the same", []uint32{0, 40, 40, 80}, []int64{0, 40, 41, 80}},
		{"a step back", []uint32{0, 40, 30, 80}, []int64{0, 40, 41, 80}},
		{"begun before zero", []uint32{1<<32 - 40, 0, 40}, []int64{1<<32 - 40, 1 << 32, 1<<32 + 40}},
		{"a pause of 9 s", []uint32{0, 40, 9040}, []int64{0, 40, 9040}},
		{"started over", []uint32{60_000, 60_040, 0, 40, 80}, []int64{60_000, 60_040, 60_080, 60_120, 60_160}},
		{"a leap ahead", []uint32{0, 40, 5 * day, 5*day + 40}, []int64{0, 40, 80, 120}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.tag(video, 0, avcHeader(avc640x360))
			for _, ts := range tt.in {
				r.tag(video, ts, avcKey("x"))
			}
			r.flush()
			var got []int64
			for _, p := range r.packets(0) {
				got = append(got, p.dts)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// When the sound stops, its last frame is not kept back until it comes again.
func TestSoundThatStops(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac48000))
	r.tag(audio, 0, aacFrame("last"))
	for i := range 20 {
		r.tag(video, uint32(40*i), avcKey("x"))
	}
	if got := ofTrack(2, r.packets(0)); len(got) != 1 || got[0].duration != 1024 {
		t.Fatalf("sound %v, want the one frame", got)
	}
	r.tag(audio, 5000, aacFrame("again"))
	r.flush()
	if got := ofTrack(2, r.packets(0)); len(got) != 2 || got[1].dts != 5000*48 {
		t.Errorf("sound %v, want the second frame at 5 s", got)
	}
}

// When the pictures stop, the newest one and the sound with it leave after half a second, and the sound then by itself. The
// next picture is where the stream says, also after the one before has left early.
func TestPicturesThatStop(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac48000))
	r.tag(video, 0, avcKey("first"))
	r.tag(video, 40, avcKey("last"))
	for i := range 30 {
		r.tag(audio, uint32(i*1024/48), aacFrame("a"))
	}
	ms := time.Millisecond
	want := []mp4.Fragment{
		{Samples: 1, Key: true, NewInit: true},
		{Samples: 1 + 24, Key: true}, // the frame of sound at 512 ms is open
		{Samples: 5, Start: 512 * ms},
	}
	if !reflect.DeepEqual(r.fragments, want) {
		t.Errorf("fragments\n%+v, want\n%+v", r.fragments, want)
	}
	r.tag(video, 650, avcKey("again"))
	r.tag(video, 690, avcKey("and again"))
	r.flush()
	wantPictures := []packet{
		{1, 0, 0, 40, true, "first"}, {1, 40, 40, 40, true, "last"},
		{1, 650, 650, 40, true, "again"}, {1, 690, 690, 40, true, "and again"},
	}
	if got := ofTrack(1, r.packets(0)); !reflect.DeepEqual(got, wantPictures) {
		t.Errorf("pictures\n%v, want\n%v", got, wantPictures)
	}
}

// When there is a sequence header and no picture behind it, the sound is held back for a second, and then leaves by
// itself.
func TestPicturesThatNeverCome(t *testing.T) {
	for _, announced := range []bool{false, true} {
		r := newRig(t, mp4.Tracks(announced, announced))
		r.tag(video, 0, avcHeader(avc640x360))
		r.tag(audio, 0, aacHeader(aac48000))
		for i := range 60 {
			r.tag(audio, uint32(i*1024/48), aacFrame("a"))
			if i == 46 && len(r.fragments) > 0 { // 981 ms
				t.Fatalf("fragments %+v after less than a second", r.fragments)
			}
		}
		ms := time.Millisecond
		want := []mp4.Fragment{
			{Samples: 47, Key: true, NewInit: true}, {Samples: 5, Key: true, Start: 1002 * ms},
			{Samples: 5, Key: true, Start: 1109 * ms},
		}
		if !reflect.DeepEqual(r.fragments, want) {
			t.Errorf("fragments\n%+v, want\n%+v", r.fragments, want)
		}
		r.tag(video, 1280, avcKey("the first"))
		r.tag(audio, 1280, aacFrame("with it"))
		r.tag(video, 1320, avcKey("the second"))
		if got := r.fragments[len(r.fragments)-1]; !got.Key || len(ofTrack(1, r.packets(0))) != 1 {
			t.Errorf("%+v, want the first picture in the last fragment", got)
		}
	}
}

// Sound that is ahead of the pictures by any time waits for them all the same, and so does sound before the first
// picture, for a second.
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

func TestPicturesBeforeAKeyFrameAreDropped(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, avcKey("before the sequence header"))
	r.tag(audio, 0, aacFrame("likewise"))
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(video, 40, avcDelta(0, "P"))
	r.tag(video, 80, avcKey("K"))
	r.tag(video, 80, avcKey("")) // no picture at all
	r.tag(video, 80, "\x57\x00") // command to the player
	r.flush()
	if got := r.packets(0); len(got) != 1 || got[0].data != "K" {
		t.Errorf("%v, want the key frame alone", got)
	}
}

// A new sequence header ends what was, and says so; a repeated one does nothing.
func TestNewSequenceHeader(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac44100))
	r.tag(video, 0, avcKey("K0"))
	r.tag(audio, 0, aacFrame("a0"))
	r.tag(video, 40, avcDelta(0, "P1"))
	r.tag(video, 40, avcHeader(avc640x360)) // repeated
	r.tag(audio, 40, aacHeader(aac44100))
	if n := len(r.fragments); n != 1 {
		t.Fatalf("%d fragments after a repeated header, want 1", n)
	}
	r.tag(video, 80, avcHeader(avc320x240))
	if n := len(r.fragments); n != 2 || r.fragments[1].NewInit {
		t.Fatalf("fragments %+v, want a second one, under the first init segment", r.fragments)
	}
	if tracks := readInit(r.init()); tracks[0].width != 640 {
		t.Errorf("the init segment after the last old fragment is of the new size")
	}
	r.tag(video, 80, avcDelta(0, "cannot be decoded"))
	r.tag(video, 120, avcKey("K2"))
	r.tag(video, 160, avcKey("K3"))
	r.flush()
	if f := r.fragments[2]; !f.NewInit || !f.Key || r.fragments[3].NewInit {
		t.Errorf("fragments %+v, want NewInit at the third alone", r.fragments)
	}
	if tracks := readInit(r.init()); tracks[0].width != 320 || len(tracks) != 2 {
		t.Errorf("tracks %+v, want the new size", tracks)
	}
	var all []string
	for _, p := range r.packets(0) {
		all = append(all, p.data)
	}
	if got := strings.Join(all, " "); got != "K0 P1 a0 K2 K3" {
		t.Errorf("samples %q", got)
	}
}

// A sequence header that is replaced, and comes back before anything was made with the other one, is the one that
// viewers have: they can go on. So nothing overlaps.
func TestSequenceHeaderThatComesBack(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac44100))
	for _, at := range []uint32{0, 40} {
		r.tag(video, at, avcKey("K"))
		r.tag(audio, at, aacFrame("a"))
	}
	r.tag(video, 45, avcHeader(avc320x240))
	r.tag(audio, 45, aacHeader(aac48000))
	r.tag(audio, 45, aacHeader(aac44100))
	r.tag(video, 45, avcHeader(avc640x360))
	for _, at := range []uint32{50, 120} {
		r.tag(video, at, avcKey("K"))
		r.tag(audio, at, aacFrame("a"))
	}
	r.flush()
	for i, f := range r.fragments {
		if f.NewInit != (i == 0) {
			t.Errorf("fragment %d: %+v", i, f)
		}
	}
	want := []packet{
		{1, 0, 0, 40, true, "K"}, {1, 40, 40, 40, true, "K"}, {1, 80, 80, 40, true, "K"}, {1, 120, 120, 40, true, "K"},
		{2, 0, 0, 1764, true, "a"}, {2, 1764, 1764, 1024, true, "a"}, {2, 2789, 2789, 2503, true, "a"}, // rounded up
		{2, 5292, 5292, 1024, true, "a"},
	}
	if got := append(ofTrack(1, r.packets(0)), ofTrack(2, r.packets(0))...); !reflect.DeepEqual(got, want) {
		t.Errorf("packets\n%v, want\n%v", got, want)
	}
}

// What the header promised and never comes is waited for no longer than a second of the stream.
func TestTracksThatNeverCome(t *testing.T) {
	for kind, headers := range map[flv.Type]func(string) string{video: avcKey, audio: aacFrame} {
		r := newRig(t, mp4.Tracks(true, true))
		if kind == video {
			r.tag(video, 0, avcHeader(avc640x360))
		} else {
			r.tag(audio, 0, aacHeader(aac48000))
		}
		for ms := uint32(500); ms <= 1480; ms += 20 {
			r.tag(kind, ms, headers("x"))
		}
		if n := len(r.fragments); n != 0 {
			t.Errorf("%v: %d fragments after 980 ms", kind, n)
		}
		r.tag(kind, 1500, headers("x"))
		if n := len(r.fragments); n != 1 || r.fragments[0].Samples != 50 {
			t.Errorf("%v: fragments %+v after a second, want one of 50 samples", kind, r.fragments)
		}
	}
}

// Without Tracks a second sequence header that comes late changes the init segment; with it, the first fragment waits.
func TestTracks(t *testing.T) {
	feed := func(r *rig) {
		r.tag(video, 0, avcHeader(avc640x360))
		for i := range 4 {
			r.tag(video, uint32(40*i), avcKey(fmt.Sprint(i)))
		}
		r.tag(audio, 160, aacHeader(aac48000))
		r.tag(audio, 160, aacFrame("a"))
		r.tag(video, 160, avcKey("4"))
		r.flush()
	}
	for _, tt := range []struct {
		name        string
		opts        []mp4.Option
		inits       int
		firstSample int
	}{
		{"as they come", nil, 2, 1},
		{"announced", []mp4.Option{mp4.Tracks(true, true)}, 1, 4},
		{"announced, but too late", []mp4.Option{mp4.Tracks(true, true), mp4.MaxWaitBytes(2)}, 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.opts...)
			feed(r)
			inits := 0
			for _, f := range r.fragments {
				if f.NewInit {
					inits++
				}
			}
			if inits != tt.inits || r.fragments[0].Samples != tt.firstSample {
				t.Errorf("%d init segments, want %d; fragments %+v", inits, tt.inits, r.fragments)
			}
			if n := len(r.packets(0)); n != 6 {
				t.Errorf("%d samples, want 6", n)
			}
		})
	}
}

func TestEnhancedTags(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, "\x90hvc1"+hevc322x182)
	r.tag(audio, 0, "\x90mp4a"+aac48000)
	r.tag(video, 0, "\x91hvc1\x00\x00\x28K0")
	r.tag(audio, 0, "\x91mp4aa0")
	r.tag(video, 40, "\xa3hvc1P1")
	r.flush()
	want := []packet{{1, 0, 40, 40, true, "K0"}, {1, 40, 40, 40, false, "P1"}, {2, 0, 0, 1024, true, "a0"}}
	if got := append(ofTrack(1, r.packets(0)), ofTrack(2, r.packets(0))...); !reflect.DeepEqual(got, want) {
		t.Errorf("packets %v, want %v", got, want)
	}
	v := readInit(r.init())[0]
	if v.entry != "hvc1" || v.width != 322 || v.height != 182 || v.record != hevc322x182 {
		t.Errorf("track %+v", v)
	}
}

func TestSampleShape(t *testing.T) {
	r := newRig(t)
	// libx264, 322x182, samples of 7:5.
	r.tag(video, 0, avcHeader(unhex("0164000dffe1001e6764000dacd941519e226ffc001c001440000003004000000c83c50a65800100"+
		"0668ebe3cb22c0fdf8f800")))
	r.tag(video, 0, avcKey("K"))
	r.flush()
	if v := readInit(r.init())[0]; v.width != 322 || v.aspect != "7:5" || v.shown != 322*7<<16/5 {
		t.Errorf("track %+v", v)
	}
}
