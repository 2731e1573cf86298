package live_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// The log and Streams name what MP4, HLS and browsers do not get, as soon as it is known.
func TestCodecsThatBrowsersDoNotGetAreReported(t *testing.T) {
	const (
		sorenson, avc, vp9 = "\x12x", "\x17\x01\x00\x00\x00\x00\x00\x00\x01\x65", "\x91vp09x"
		mp3, aac           = "\x2fx", "\xaf\x01x"
	)
	for _, tt := range []struct{ name, video, audio, want string }{
		{"old", sorenson, mp3, "all"}, {"old-video", sorenson, "", "all"},
		{"old-audio", "", mp3, "all"},
		{"video", vp9, aac, "video"}, {"audio", avc, mp3, "audio"},
		{"none", avc, aac, ""}, {"none-video", avc, "", ""}, {"none-audio", "", aac, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := serve(t, nil)
			p := f.Publisher("cam")
			p.Send([]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"))
			for _, at := range []uint32{0, flvstream.TrackWait, flvstream.TrackWait + 40} {
				if tt.video != "" {
					p.Send(flvTag(flv.TypeVideo, at, []byte(tt.video)))
				}
				if tt.audio != "" {
					p.Send(flvTag(flv.TypeAudio, at, []byte(tt.audio)))
				}
			}
			p.End()
			const warning = "get only H.264, H.265 and AAC"
			if n := strings.Count(f.Log.String(), warning); (n == 1) != (tt.want != "") || n > 1 {
				t.Errorf("%d warnings, want one only if a codec is left out", n)
			}
			if tt.want != "" {
				f.Logged("level=WARN", warning, "left_out="+tt.want)
			}
		})
	}
}

// The log warns of a stream that is not FLV, with the guessed format.
func TestUnknownFormatIsWarnedOf(t *testing.T) {
	f := serve(t, nil)
	for name, tt := range map[string]struct{ body, want string }{
		"ts":   {"G\x40\x00\x10" + strings.Repeat("x", 184), "MPEG-TS"},
		"mkv":  {"\x1aE\xdf\xa3\x01\x00\x00\x00", "Matroska"},
		"mp4":  {"\x00\x00\x00\x18ftypisom", "MP4"},
		"h264": {"\x00\x00\x00\x01\x67\x42\x00\x1f", "H.264"},
		"x":    {"x", "unknown"},
	} {
		p := f.Publisher(name)
		p.Send([]byte(tt.body))
		p.End()
		f.Logged("level=WARN", "is not FLV", "stream="+name, "looks_like", tt.want)
	}
}

// The log says once for each publisher why MP4 lacks a track, however often MP4 is made.
func TestWhyMP4LacksATrack(t *testing.T) {
	head := avcHeader()
	for name, tt := range map[string]struct{ header, frame, want string }{
		"annexb": {string(head[11 : len(head)-4]),
			"\x17\x01\x00\x00\x00\x00\x00\x00\x01\x65abc", "start codes (Annex B)"},
		"empty": {string(head[11 : len(head)-4]), "\x17\x01\x00\x00\x00",
			"frames without video data"},
		"no-header": {"", "\x17\x01\x00\x00\x00" + unitOf("abc"),
			"without the sequence header"},
		"annexb-header": {"\x17\x00\x00\x00\x00\x00\x00\x00\x01\x67abc",
			"\x17\x01\x00\x00\x00" + unitOf("abc"), "not of version 1"},
		"other-header": {string(head[11 : len(head)-4]), "\x91hvc1" + unitOf("abc"),
			"without the sequence header"},
		"good": {string(head[11 : len(head)-4]), "\x17\x01\x00\x00\x00" + unitOf("abc"),
			""},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil)
			w := f.Ask("/live/cam.mp4", 0)
			f.waiting("cam", 1)
			p := f.Publisher("cam")
			p.Send([]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"))
			if tt.header != "" {
				p.Send(flvTag(flv.TypeVideo, 0, []byte(tt.header)))
			}
			p.Send(flvTag(flv.TypeAudio, 0, []byte("\xaf\x00\x11\x90")))
			for round := range uint32(2) {
				if round > 0 {
					w = f.Watcher("/live/cam.mp4", 0)
				}
				for ms := uint32(0); ms < 3000; ms += 40 {
					p.Send(flvTag(flv.TypeVideo, 3000*round+ms, []byte(tt.frame)))
					p.Send(flvTag(flv.TypeAudio, 3000*round+ms, []byte("\xaf\x01a")))
				}
				if round == 0 {
					w.Begin()
				}
				for kind, n := "", 0; n < 4; { // number of fragments
					if kind, _ = box(w); kind == "mdat" {
						n++
					}
				}
				_ = w.Conn.Close()
				eventually(t, "no rendition",
					func() bool {
						return strings.Count(f.Log.String(), "rendition ended") == int(round)+1
					})
			}
			p.End()
			if tt.want != "" {
				f.Logged("level=WARN", tt.want)
			}
			if n := strings.Count(f.Log.String(), "level=WARN"); (n == 1) != (tt.want != "") ||
				n > 1 {
				t.Errorf("%d warnings, want one only if a track is left out", n)
			}
		})
	}
}
