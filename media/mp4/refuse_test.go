package mp4_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// Audio waits for video, but only up to a limit.
func TestWaitIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		opt  mp4.Option
		most int // waiting samples
	}{
		"samples": {mp4.MaxWaitBytes(mp4.DefaultMaxWaitBytes), 128},
		"bytes":   {mp4.MaxWaitBytes(1000), 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.opt)
			r.tag(video, 0, avcHeader(avc640x360))
			r.tag(audio, 0, aacHeader(aac48000))
			r.tag(video, 0, avcKey("K"))
			for i := range 300 {
				r.tag(audio, uint32(i), aacFrame(strings.Repeat("x", 100)))
				if n := len(r.packets(0)); n < i+1-tt.most {
					t.Fatalf("%d samples of %d have left", n, i+1)
				}
			}
			r.tag(video, 300, avcKey("L"))
			for i := range 300 {
				r.tag(audio, uint32(300+i), aacFrame(strings.Repeat("x", 100)))
			}
			shown := 0
			for i, f := range r.fragments {
				pictures := len(ofTrack(1, readFragments(r.bytes[i])))
				if shown += pictures; f.Key != (pictures > 0 || shown == 0) {
					t.Errorf("%+v has %d video frames after %d: a viewer cannot begin at sound alone after these", f, pictures, shown)
				}
			}
			if shown == 0 {
				t.Error("no picture has left")
			}
		})
	}
}

func TestSampleAboveTheLimit(t *testing.T) {
	r := newRig(t, mp4.MaxWaitBytes(9))
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac48000))
	r.tag(video, 0, avcKey("1234"))
	for _, kind := range []flv.Type{video, audio} {
		data := avcDelta(0, "12345")
		if kind == audio {
			data = aacFrame("1234567890")
		}
		var limit *mp4.LimitError
		if err := r.try(kind, 40, data); !errors.As(err, &limit) || limit.Have != 10 ||
			limit.Limit != 9 {
			t.Errorf("error %v, want a LimitError", err)
		} else if err.Error() != "mp4: sample (MaxWaitBytes): 10 bytes, limit 9" {
			t.Errorf("error %q, want the size and the limit", err)
		}
	}
	r.tag(video, 80, avcDelta(0, "lost")) // its reference frame is missing
	r.tag(video, 120, avcKey("K"))
	r.flush()
	if got := r.packets(0); len(got) != 2 || got[0].duration != 120 || got[1].data != "K" {
		t.Errorf("%v, want the two keyframes", got)
	}
}

func TestRefusedTags(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind flv.Type
		data string
		want string
	}{
		{"MP3", audio, "\x2fabc", "mp4: MP3 is not carried: video is AVC or HEVC, audio is AAC"},
		{"AV1", video, "\x90av01abc", "mp4: AV1 is not carried: video is AVC or HEVC, audio is AAC"},
		{"a codec without a name", video, "\x90xyz9abc",
			`mp4: "xyz9" is not carried: video is AVC or HEVC, audio is AAC`},
		{"VP6", video, "\x14abc", "mp4: VP6 is not carried: video is AVC or HEVC, audio is AAC"},
		{"two tracks", video, "\x96\x11avc1\x00abc", "mp4: video tag (AVC): in a list of tracks"},
		{"encrypted", video | 0x20, avcKey("x"), "mp4: video tag (AVC): encrypted"},
		{"AVC record cut short", video, avcHeader(avc640x360[:20]),
			"mp4: sequence header of AVC: sequence parameter set is cut short"},
		{"no AVC record", video, avcHeader(""), "mp4: sequence header of AVC: record is cut short"},
		{"AVC record of version 0", video, avcHeader("\x00" + avc640x360[1:]),
			"mp4: sequence header of AVC: record is not of version 1"},
		{"AVC record without SPS", video, avcHeader(avc640x360[:5] + "\xe0\x00\x00\x00"),
			"mp4: sequence header of AVC: no sequence parameter set"},
		{"no HEVC record", video, "\x90hvc1\x01",
			"mp4: sequence header of HEVC: record is cut short"},
		{"HEVC record without SPS", video, "\x90hvc1" + hevc322x182[:22] + "\x00",
			"mp4: sequence header of HEVC: no sequence parameter set"},
		{"HEVC record cut short", video, "\x90hvc1" + hevc322x182[:60],
			"mp4: sequence header of HEVC: record is cut short"},
		{"no AAC record", audio, aacHeader(""), "mp4: sequence header of AAC: cut short"},
		{"AAC record of no rate", audio, aacHeader("\x16\x90"),
			"mp4: sequence header of AAC: no sampling rate"},
		{"AAC record of no channels", audio, aacHeader("\x11\x80"),
			"mp4: sequence header of AAC: channel configuration 0, browsers know 1 to 7"},
		{"AAC record of reserved channels", audio, aacHeader("\x11\xf8"),
			"mp4: sequence header of AAC: channel configuration 15, browsers know 1 to 7"},
		{"AAC record of no kind", audio, aacHeader("\x01\x90"),
			"mp4: sequence header of AAC: audio object type 0"},
		{"enormous record", video, avcHeader(strings.Repeat("x", 70_000)),
			"mp4: sequence header: 70000 bytes, limit 65536"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leaktest.Check(t, millrace.DefaultPool())
			r := newRig(t)
			r.tag(video, 0, avcHeader(avc640x360))
			r.tag(audio, 0, aacHeader(aac48000))
			r.tag(video, 0, avcKey("K"))
			err := r.try(tt.kind, 0, tt.data)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %q, want %q", err, tt.want)
			}
			codec, ok := errors.AsType[*mp4.CodecError](err)
			if ok == strings.HasPrefix(tt.want, "mp4: sequence header") || ok &&
				codec.Type != tt.kind&^0x20 {
				t.Errorf("error %q, as a CodecError %+v", err, codec)
			}
			r.tag(video, 40, avcDelta(0, "P")) // continues
			r.flush()
			if n := len(r.packets(0)); n != 2 {
				t.Errorf("%d samples, want 2", n)
			}
			r.m.Release()
		})
	}
}

func TestMisuse(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	m := mp4.NewMuxer()
	defer m.Release()
	var c millrace.Chain
	if err := m.AppendInit(&c); err != mp4.ErrNoInit || c.Len() > 0 {
		t.Errorf("AppendInit before the first fragment: %v", err)
	}
	if f := m.Flush(&c); f != (mp4.Fragment{}) || c.Len() > 0 {
		t.Errorf("Flush of nothing: %+v", f)
	}
	tag, whole := makeTag(t, video, 0, avcKey("K"))
	whole.Discard(1)
	if _, err := m.WriteTag(&c, tag, &whole); err == nil || whole.Len() > 0 {
		t.Errorf("a chain that is not the tag: %v, %d bytes left", err, whole.Len())
	}
	for want, f := range map[string]func(){
		"mp4: MaxWaitBytes(0): from 1 byte to 1 GiB": func() { mp4.MaxWaitBytes(0) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
}
