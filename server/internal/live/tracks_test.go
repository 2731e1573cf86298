package live_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// only returns the tags of a type.
func only(kind flv.Type, tags [][]byte) (out [][]byte) {
	for _, tag := range tags {
		if tag[0] == byte(kind) {
			out = append(out, tag)
		}
	}
	return out
}

// joinStart returns what a new viewer gets: the flags of the header, the types of the sequence
// headers before the first frame, and how long the viewer waited.
func (h *hubTest) joinStart() (flags byte, headers string, waited time.Duration) {
	h.t.Helper()
	since := time.Now()
	v, err := live.NewAdmission(h.Hub).Admit(h.t.Context(),
		live.WatchRequest{Name: "cam", Format: rendition.FLV})
	if err != nil {
		h.t.Fatal(err)
	}
	waited = time.Since(since)
	defer v.Decline()
	var c millrace.Chain
	defer c.Release()
	if _, err := v.Start().Cursor.Take(&c); err != nil {
		h.t.Fatal(err)
	}
	for _, tag := range cut(h.t, bytes.Clone(c.Bytes())) {
		kind, first, second := flv.Type(tag[0]), tag[11], tag[12]
		switch {
		case kind == flv.TypeVideo && first == 0x17 && second == 0:
			headers += "v"
		case kind == flv.TypeAudio && first == 0xaf && second == 0:
			headers += "a"
		case kind != flv.TypeScript:
			return v.Head()[4], headers, waited
		}
	}
	return v.Head()[4], headers, waited
}

// The FLV header states the tracks that exist. A viewer that joins before they are known waits for
// at most a second.
func TestHeaderStatesTheTracksThatExist(t *testing.T) {
	sc := newScript(60, 25, 300) // a keyframe each second
	video, audio := only(flv.TypeVideo, sc.tags), only(flv.TypeAudio, sc.tags)
	videoHeader, audioHeader := sc.config[1], sc.config[2]
	var pacing sync.WaitGroup
	for _, tt := range []struct {
		name    string
		publish func(h *hubTest) *live.Publisher
		flags   byte
		headers string
		waits   time.Duration // at most
	}{
		{"both", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:4])
			return p
		}, 5, "va", 0},
		{"video alone, for 0.2 s so far", func(h *hubTest) *live.Publisher {
			p := h.publish(videoHeader)
			h.pace(p, video[:5])
			pacing.Go(func() { h.pace(p, video[5:100]) })
			return p
		}, 1, "v", 900 * time.Millisecond},
		{"nothing so far but the metadata", func(h *hubTest) *live.Publisher {
			return h.publish(sc.config[0])
		}, 5, "", time.Second},
		{"audio alone", func(h *hubTest) *live.Publisher {
			p := h.publish(audioHeader)
			h.pace(p, audio[:60])
			return p
		}, 4, "a", 0},
		{"an audio header without audio", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, video[:175])
			return p
		}, 1, "v", 0},
		{"audio that begins after 2 s", func(h *hubTest) *live.Publisher {
			p := h.publish(videoHeader)
			h.pace(p, video[:50])
			h.send(p, audioHeader)
			h.pace(p, sc.tags[100:160])
			return p
		}, 5, "va", 0},
		{"a video header without video", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, audio[:175])
			return p
		}, 4, "a", 0},
		{"a video header long before the video", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, audio[:175])
			h.pace(p, sc.tags[350:400])
			return p
		}, 5, "va", 0},
		{"audio that has stopped", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.pace(p, video[50:50+7*25])
			return p
		}, 1, "v", 0},
		{"audio that has stopped for a moment", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.pace(p, video[50:50+3*25])
			return p
		}, 5, "va", 0},
		{"audio that is back", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.pace(p, video[50:50+7*25])
			h.pace(p, sc.tags[2*(50+7*25):2*(50+9*25)])
			return p
		}, 5, "va", 0},
		{"video that has stopped", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.pace(p, audio[50:50+32*25])
			return p
		}, 4, "a", 0},
		{"a still picture every 10 s", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			for from := 0; from < 40*25; from += 250 {
				h.send(p, video[from])
				h.pace(p, audio[from:from+250])
			}
			return p
		}, 5, "va", 0},
		{"one odd time in the future", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.send(p, flvTag(flv.TypeVideo, 60_000, []byte("\x27\x01\x00\x00\x00"+unitOf("later"))))
			h.pace(p, sc.tags[100:200])
			return p
		}, 5, "va", 0},
		{"a publisher that comes back without audio", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.done(p, errors.New("cut"))
			p = h.publish(videoHeader)
			h.pace(p, video[:75])
			return p
		}, 1, "v", 0},
		{"a publisher that comes back without video", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.done(p, errors.New("cut"))
			p = h.publish(audioHeader)
			h.pace(p, audio[:75])
			return p
		}, 4, "a", 0},
		{"one that comes back with audio again", func(h *hubTest) *live.Publisher {
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:100])
			h.done(p, errors.New("cut"))
			p = h.publish(videoHeader)
			h.pace(p, video[:75])
			h.done(p, errors.New("cut"))
			p = h.publish(sc.config...)
			h.pace(p, sc.tags[:150])
			return p
		}, 5, "va", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, nil)
				p := tt.publish(h)
				flags, headers, waited := h.joinStart()
				if flags != tt.flags || headers != tt.headers {
					t.Errorf("header with flags %d, then %q; want %d, %q", flags, headers, tt.flags,
						tt.headers)
				}
				if waited > tt.waits {
					t.Errorf("waited %v, want at most %v", waited, tt.waits)
				}
				pacing.Wait()
				h.Close()
				h.done(p, nil)
			})
		})
	}
}

// An HLS playlist keeps its tracks. When the stream's tracks change, the playlist ends, and the
// multivariant playlist names another one.
func TestHLSPlaylistEndsWhenTracksChange(t *testing.T) {
	sc := newScript(60, 25, 300) // GOPs of one second
	video, audio := only(flv.TypeVideo, sc.tags), only(flv.TypeAudio, sc.tags)
	both := func(from, to int) [][]byte { return sc.tags[50*from : 50*to] }
	videoAlone := func(from, to int) [][]byte { return video[25*from : 25*to] }
	damaged := func(as string, tags [][]byte) (out [][]byte) {
		for _, tag := range tags {
			if tag[0] == byte(flv.TypeVideo) {
				at := uint32(tag[4])<<16 | uint32(tag[5])<<8 | uint32(tag[6])
				tag = flvTag(flv.TypeVideo, at, append(bytes.Clone(tag[11:16]), as...))
			}
			out = append(out, tag)
		}
		return out
	}
	const annexB = "\x00\x00\x00\x01\x65abc"
	audioAlone := func(from, to int) [][]byte { return audio[25*from : 25*to] }
	videoHeader, audioHeader := sc.config[1:2], sc.config[2:3]
	type look struct {
		at       int    // second of the stream
		playlist string // named by the multivariant playlist at that time
	}
	for _, tt := range []struct {
		name  string
		tags  [][][]byte
		looks []look
	}{
		{"late audio", [][][]byte{videoHeader, videoAlone(0, 8), audioHeader, both(8, 16)},
			[]look{{6, hlslive.VideoName}, {10, hlslive.MediaName}}},
		{"late video", [][][]byte{audioHeader, audioAlone(0, 8), videoHeader, both(8, 16)},
			[]look{{6, hlslive.AudioName}, {10, hlslive.MediaName}}},
		{"audio that stops and is back", [][][]byte{sc.config, both(0, 6), videoAlone(6, 16),
			both(16, 24)},
			[]look{{5, hlslive.MediaName}, {13, hlslive.VideoName}, {18, hlslive.MediaName}}},
		{"video that stops and is back", [][][]byte{sc.config, both(0, 6), audioAlone(6, 42),
			both(42, 50)},
			[]look{{5, hlslive.MediaName}, {38, hlslive.AudioName}, {45, hlslive.MediaName}}},
		{"Annex B at first", [][][]byte{sc.config, damaged(annexB, both(0, 8)), both(8, 16)},
			[]look{{4, hlslive.AudioName}, {11, hlslive.MediaName}}},
		{"Annex B later", [][][]byte{sc.config, both(0, 6), damaged(annexB, both(6, 26)),
			both(26, 34)},
			[]look{{5, hlslive.MediaName}, {22, hlslive.AudioName}, {30, hlslive.MediaName}}},
		{"empty video at first", [][][]byte{sc.config, damaged("", both(0, 8)), both(8, 16)},
			[]look{{4, hlslive.AudioName}, {11, hlslive.MediaName}}},
		{"Annex B for a moment", [][][]byte{sc.config, both(0, 6), damaged(annexB, both(6, 8)),
			both(8, 16)},
			[]look{{5, hlslive.MediaName}}},
		{"a video header long before the video",
			[][][]byte{sc.config, audioAlone(0, 12), both(12, 20)},
			[]look{{9, hlslive.AudioName}, {15, hlslive.MediaName}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, func(c *live.Config) { c.HLS = hlsDefaults })
				p := h.publish()
				paced := make(chan struct{})
				go func() {
					defer close(paced)
					begin := time.Now()
					for _, tag := range slices.Concat(tt.tags...) {
						at := uint32(tag[4])<<16 | uint32(tag[5])<<8 | uint32(tag[6])
						time.Sleep(time.Until(begin.Add(time.Duration(at) * time.Millisecond)))
						h.send(p, tag)
					}
				}()
				media := func(name string) string {
					t.Helper()
					list, err := live.NewHLS(h.Hub).Media(t.Context(), "cam", name, hls.Reload{},
						false)
					if err != nil {
						return err.Error()
					}
					return string(list.Text)
				}
				begin, before := time.Now(), ""
				for _, look := range tt.looks {
					time.Sleep(time.Until(begin.Add(time.Duration(look.at) * time.Second)))
					if before != "" {
						h.checkEnd(media(before))
						if got := media(hlslive.MediaName); got != media(before) {
							t.Errorf("after %d s %s is another playlist than %s:\n%s", look.at,
								hlslive.MediaName, before, got)
						}
					}
					list, err := live.NewHLS(h.Hub).Master(t.Context(), "cam")
					if err != nil {
						t.Fatal(err)
					}
					lines := strings.Split(strings.TrimSpace(string(list.Text)), "\n")
					if got := lines[len(lines)-1]; got != look.playlist {
						t.Errorf("after %d s the multivariant playlist names %s, want %s", look.at,
							got, look.playlist)
					}
					if list := media(look.playlist); strings.Contains(list, "ENDLIST") ||
						!strings.Contains(list, "#EXTINF") {
						t.Errorf("after %d s, want segments and no end:\n%s", look.at, list)
					}
					if before != "" {
						h.checkEnd(media(before))
					}
					before = look.playlist
				}
				<-paced
				h.Close()
				h.done(p, nil)
			})
		})
	}
}

// checkEnd checks the last playlist of a window, and that players can fetch the rest.
func (h *hubTest) checkEnd(list string) {
	h.t.Helper()
	if !strings.HasSuffix(list, "#EXT-X-ENDLIST\n") || strings.Contains(list, "DISCONTINUITY\n") {
		h.t.Errorf("a playlist has no end, or a discontinuity:\n%s", list)
	}
	for _, line := range strings.Split(list, "\n") {
		if o, ok := hls.ParseObject(line); ok {
			var c millrace.Chain
			if err := live.NewHLS(h.Hub).Object(h.t.Context(), "cam", o, &c); err != nil ||
				c.Len() == 0 {
				h.t.Errorf("%s: %v", line, err)
			}
			c.Release()
		}
	}
}

// Video at which decoders fail is not in MP4, is counted, and is logged once for each publisher.
// FLV viewers get it.
func TestDamagedVideoIsLeftOutOfMP4(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.PublisherReturn = testTimeout })
	sc := newScript(4, 10, 100)
	damaged := 0
	for i, tag := range sc.tags {
		if tag[0] == byte(flv.TypeVideo) && i%10 == 6 {
			tag[16], tag[17], tag[18], tag[19] = 0, 0, 0, 1 // a start code
			damaged++
		}
	}
	mp4, asIs := f.Ask("/live/cam.mp4", 0), f.Ask("/live/cam", 0)
	f.waiting("cam", 2)
	for round := range 2 {
		p := f.Publisher("cam")
		p.Send(sc.whole())
		f.published("cam", (round+1)*len(sc.whole())-len(sc.header)-round*len(sc.start()))
		p.Cut()
		p.Wait()
	}
	eventually(t, "the metric", func() bool {
		return f.metric("millrace_video_left_out_total") == fmt.Sprint(2*damaged)
	})
	f.stop()
	mp4.Begin()
	if n := contiguous(t, stretches(t, mp4.Rest())); n < 2*(len(sc.tags)-damaged)-2 ||
		n > 2*(len(sc.tags)-damaged) {
		t.Errorf("%d samples of MP4, want %d", n, 2*(len(sc.tags)-damaged))
	}
	asIs.Begin()
	if n := len(cut(t, asIs.Rest()[len(sc.header):])); n != len(sc.config)+2*len(sc.tags) {
		t.Errorf("%d tags of FLV, want %d", n, len(sc.config)+2*len(sc.tags))
	}
	if n := strings.Count(f.Log.String(), "video that decoders fail at"); n != 2 {
		t.Errorf("logged %d times for two publishers", n)
	}
}
