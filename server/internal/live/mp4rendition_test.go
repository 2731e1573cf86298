package live_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// box reads one MP4 box.
func box(w *livetest.Watcher) (kind string, body []byte) {
	head := w.Next(8)
	return string(head[4:]), w.Next(int(binary.BigEndian.Uint32(head)) - 8)
}

// All viewers that have waited for the publisher get MP4 from the start, even if the stream begins
// at once.
func TestMP4(t *testing.T) {
	f := serve(t, nil)
	var watchers []*livetest.Watcher
	for range 5 {
		watchers = append(watchers, f.Ask("/live/cam.mp4", 0))
	}
	f.waiting("cam", len(watchers))
	p := f.Publisher("cam")
	p.Send(demo.Sample)
	f.published("cam", len(demo.Sample)-13)
	late := f.Watcher("/live/cam.mp4", 0)
	if res := p.End(); res.Status != 200 {
		t.Fatalf("publishing: %d %s, want 200", res.Status, res.Body)
	}
	samples, media := sampleMedia(t)
	for i, w := range watchers {
		w.Begin()
		if got := w.Res.Header.Get("Content-Type"); got != "video/mp4" {
			t.Errorf("content type %q", got)
		}
		file := w.Rest()
		if n := contiguous(t, stretches(t, file)); n != samples {
			t.Errorf("viewer %d got %d samples, want %d", i, n, samples)
		}
		var kinds []string
		bytesOf := 0
		boxes(t, file, func(kind string, body []byte) {
			if kind == "mdat" {
				bytesOf += len(body)
			}
			if kind == "moov" && !(bytes.Contains(body, []byte("avc1")) &&
				bytes.Contains(body, []byte("mp4a"))) {
				t.Error("pictures or sound are not in the file's head")
			}
			kinds = append(kinds, kind)
		})
		if bytesOf != media || kinds[0] != "ftyp" || kinds[1] != "moov" {
			t.Errorf("%d bytes of pictures and sound, want %d; boxes %v", bytesOf, media, kinds[:2])
		}
	}
	if kind, _ := box(late); kind != "ftyp" {
		t.Errorf("the late viewer begins with %s", kind)
	}
	late.Rest()
	f.viewers(0)
}

// sampleMedia returns the number of the sample's video and audio frames, and their bytes.
func sampleMedia(t *testing.T) (samples, size int) {
	for _, tag := range cut(t, demo.Sample[13:]) {
		if head := map[byte]int{9: 5, 8: 2}[tag[0]]; head > 0 && tag[12] == 1 {
			samples++
			size += len(tag) - 11 - head - 4
		}
	}
	return samples, size
}

// MP4 is only made while it has viewers.
func TestMP4IsMadeOnlyWhileItIsWatched(t *testing.T) {
	f := serve(t, nil)
	p := f.Publisher("cam")
	p.Send(newScript(2, 3, 500).whole())
	f.published("cam", 3000)
	st := f.LookUp("cam")
	for range 3 {
		w := f.Watcher("/live/cam.mp4", 0)
		box(w)
		box(w)
		box(w)
		_ = w.Conn.Close()
		eventually(t, "the making to end", func() bool {
			return len(st.Forms().All()) == 1 && st.Forms().Stats().Cursors == 0
		})
	}
	v, err := f.NewViewer(st, live.WatchRequest{Format: rendition.MP4})
	if err != nil {
		t.Fatal(err)
	}
	v.Start().Cursor.Close()
	v.Exit()
	if len(st.Forms().All()) > 1 {
		t.Error("the next viewer would get a rendition that ends")
	}
	p.End()
}

// When the codecs change, an MP4 file ends, because it has one header. A viewer that reconnects
// gets the new one.
func TestMP4EndsWhenTheCodecsChange(t *testing.T) {
	f := serve(t, nil)
	p := f.Publisher("cam")
	p.Send(demo.Sample)
	f.published("cam", len(demo.Sample)-13)
	w := f.Watcher("/live/cam.mp4", 0)
	box(w)
	sc := newScript(2, 3, 500) // other sequence headers
	p.Send(bytes.Join(sc.config, nil))
	p.Send(bytes.Join(sc.tags, nil))
	w.Rest()
	f.Logged("viewer ended", `reason="codecs changed"`)
	again := f.Watcher("/live/cam.mp4", 0)
	box(again)
	p.End()
	again.Rest()
}

// A viewer has waited for a stream that cannot be converted to MP4. It is disconnected when that is
// known, and gets the reason when it reconnects. The reason is the same whether the publisher sends
// everything at once or the rendition keeps up with it.
func TestMP4WithoutTracksEnds(t *testing.T) {
	for name, pause := range map[string]time.Duration{"at once": 0,
		"keeps up": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) { testMP4OfNothing(t, pause) })
	}
}

func testMP4OfNothing(t *testing.T, pause time.Duration) {
	f := serve(t, nil)
	w := f.Ask("/live/cam.mp4", 0)
	f.waiting("cam", 1)
	p := f.Publisher("cam")
	p.Send([]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"))
	w.Begin()
	for at := uint32(0); at <= 2*flvstream.TrackWait; at += 40 {
		if at == flvstream.TrackWait {
			time.Sleep(pause)
		}
		p.Send(flvTag(flv.TypeVideo, at, []byte("\x91av01picture")))
		p.Send(flvTag(flv.TypeAudio, at, []byte("\x91Opussound")))
	}
	if got, err := io.ReadAll(w.Res.Body); err == nil || len(got) > 0 {
		t.Errorf("%d bytes, %v, want none and an error", len(got), err)
	}
	f.Logged("rendition ended", "H.264, H.265, AAC")
	if res := f.Get("/live/cam.mp4"); res.Status != 406 {
		t.Errorf("%d %s, want 406", res.Status, res.Body)
	}
	p.End()
}

// The same applies to a stream with codecs that MP4 supports, whose sequence headers are refused,
// missing, or do not match the frames.
func TestMP4WithoutATrackEnds(t *testing.T) {
	type payload struct {
		of   flv.Type
		data string
	}
	sound := payload{flv.TypeAudio, "\xaf\x01sound"}
	soundHead := payload{flv.TypeAudio, "\xaf\x00\x12\x10"}
	picture := payload{flv.TypeVideo, "\x17\x01\x00\x00\x00" + unitOf("picture")}
	hevcPicture := payload{flv.TypeVideo, "\x91hvc1" + unitOf("picture")}
	head := avcHeader()
	pictureHead := payload{flv.TypeVideo, string(head[11 : len(head)-4])}
	for name, tt := range map[string]struct {
		first, each payload
		want        string
	}{
		"reserved channels": {payload{flv.TypeAudio, "\xaf\x00\x11\xf8"}, sound,
			"channel configuration 15"},
		"none":                    {sound, sound, "no frame of H.264"},
		"that of mute sound":      {soundHead, picture, "no frame of H.264"},
		"that of no pictures":     {pictureHead, sound, "no frame of H.264"},
		"that of another codec's": {pictureHead, hevcPicture, "no frame of H.264"},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil)
			waits := f.Ask("/live/cam.mp4", 0)
			f.waiting("cam", 1)
			p := f.Publisher("cam")
			p.Send([]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"))
			waits.Begin()
			at := uint32(0)
			send := func(ms uint32) {
				p.Send(flvTag(tt.first.of, at, []byte(tt.first.data)))
				for end := at + ms; at < end; at += 40 {
					p.Send(flvTag(tt.each.of, at, []byte(tt.each.data)))
				}
			}
			send(2 * flvstream.TrackWait)
			if got, err := io.ReadAll(waits.Res.Body); len(got) > 0 || err == nil ||
				errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d bytes, %v, want none and the end of the connection", len(got), err)
			}
			f.Logged("rendition ended", tt.want)
			comes := f.Watcher("/live/cam.mp4", 0)
			// The file begins with audio if no video has come.
			send(flvstream.VideoGapAfter + 2*flvstream.TrackWait)
			if got, err := io.ReadAll(comes.Res.Body); len(got) > 0 || err == nil ||
				errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a later viewer got %d bytes, %v, want none and an end", len(got), err)
			}
			p.End()
		})
	}
}

// A viewer that joins a starting stream is not refused because of its first tags, whether it has
// waited for the stream or found it, and even if the times go back a little.
func TestMP4IsNotRefusedBeforeASecondHasPassed(t *testing.T) {
	for name, times := range map[string][]uint32{
		"one sound": {0}, "almost a second": {0, flvstream.TrackWait - 1},
		"back by a millisecond": {20, 19}, "anew": {60_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil)
			waits := f.Ask("/live/cam.mp4", 0)
			f.waiting("cam", 1)
			p := f.Publisher("cam")
			sc := newScript(2, 5, 500)
			p.Send(sc.header)
			waits.Begin()
			sent := 0
			for _, at := range times {
				sound := flvTag(flv.TypeAudio, at, []byte("\x2fMP3"))
				p.Send(sound)
				sent += len(sound)
			}
			f.published("cam", sent)
			comes := f.Watcher("/live/cam.mp4", 0)
			p.Send(avcHeader())
			for i := 0; i < len(sc.tags); i += 2 {
				p.Send(sc.tags[i])
			}
			p.End()
			for _, w := range []*livetest.Watcher{waits, comes} {
				if n := contiguous(t, stretches(t, w.Rest())); n != 10 {
					t.Errorf("%d video frames, want 10", n)
				}
			}
		})
	}
}

// A viewer has waited for a stream whose video starts long after its audio. It also gets the early
// audio.
func TestMP4WithAudioBeforeVideo(t *testing.T) {
	f := serve(t, nil)
	w := f.Ask("/live/cam.mp4", 0)
	f.waiting("cam", 1)
	p := f.Publisher("cam")
	sc := newScript(2, 5, 500)
	sounds := pieces(100, 0) // 2.1 s
	p.Send(bytes.Join([][]byte{sc.start(), bytes.Join(sounds, nil), bytes.Join(sc.tags, nil)}, nil))
	p.End()
	w.Begin()
	if n, want := contiguous(t, stretches(t, w.Rest())), len(sounds)+len(sc.tags); n != want {
		t.Errorf("%d samples, want %d", n, want)
	}
}

// A mill converts a stream to MP4. The test chooses when tags are published.
type mill struct {
	t    *testing.T
	st   *live.Stream
	p    *live.Publisher
	dec  *flv.Decoder
	r    *rendition.Rendition
	view *broadcast.Cursor // of its only viewer
}

// newMill publishes the header and the configuration of sc, and makes a rendition that has not
// converted anything yet.
func newMill(t *testing.T, change func(*live.Config), sc *script) *mill {
	t.Helper()
	cfg := testConfig()
	cfg.Latency = 0
	change(&cfg)
	p, err := live.NewHub(cfg).Open("cam", "test", live.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	body := p.SetReader(millrace.NewReader(bytes.NewReader(sc.whole())))
	l := &mill{t: t, p: p, st: p.Stream(), dec: flv.NewDecoder(body)}
	header, err := l.dec.Header()
	if err != nil {
		t.Fatal(err)
	}
	p.Begin(header)
	l.publish(len(sc.config))
	r, start := l.st.Forms().Join(rendition.MP4, false)
	l.r, l.view = r, start.Cursor
	return l
}

// publish publishes the next n tags.
func (l *mill) publish(n int) {
	l.t.Helper()
	for range n {
		if err := l.p.Next(l.dec); err != nil {
			l.t.Fatal(err)
		}
	}
}

// begin starts the conversion.
func (l *mill) begin() {
	l.p.Flush()
	synctest.Wait()
}

// end ends the stream, and returns the file of its viewer.
func (l *mill) end() (file []byte) {
	l.t.Helper()
	l.p.Close(nil)
	synctest.Wait()
	defer l.view.Close()
	var c millrace.Chain
	defer c.Release()
	for {
		b, err := l.view.Take(&c)
		if err != nil {
			return bytes.Clone(c.Bytes())
		}
		if b.Missed.Why != broadcast.NotMissed {
			l.t.Errorf("the viewer missed %v", b.Missed)
		}
	}
}

// A stretch consists of the samples of one track in one fragment.
type stretch struct {
	track   int
	at, end int64 // start and end, in the track's units
	samples int
	key     bool // its first video frame is a keyframe
}

// stretches lists the samples in the fragments of an MP4 file.
func stretches(t *testing.T, file []byte) (list []stretch) {
	t.Helper()
	var r stretch
	boxes(t, file, func(kind string, body []byte) {
		switch kind {
		case "tfhd":
			r = stretch{track: int(binary.BigEndian.Uint32(body[4:]))}
		case "tfdt":
			r.at = int64(binary.BigEndian.Uint64(body[4:]))
			r.end = r.at
		case "trun":
			size := 8
			if r.track == 1 {
				size = 16
				r.key = body[12+8] == 2
			}
			r.samples = int(binary.BigEndian.Uint32(body[4:]))
			for i := range r.samples {
				r.end += int64(binary.BigEndian.Uint32(body[12+size*i:]))
			}
			list = append(list, r)
		}
	})
	return list
}

// boxes calls f for each box, including those in moof and traf.
func boxes(t *testing.T, p []byte, f func(kind string, body []byte)) {
	t.Helper()
	for len(p) > 0 {
		n := int(binary.BigEndian.Uint32(p))
		if n < 8 || n > len(p) {
			t.Fatalf("a box of %d bytes in %d", n, len(p))
		}
		kind, body := string(p[4:8]), p[8:n]
		if kind == "moof" || kind == "traf" {
			boxes(t, body, f)
		} else {
			f(kind, body)
		}
		p = p[n:]
	}
}

// contiguous checks that each track is continuous, and that video begins with a keyframe. It
// returns the number of samples.
func contiguous(t *testing.T, list []stretch) (samples int) {
	t.Helper()
	ends := map[int]int64{}
	for i, r := range list {
		at, begun := ends[r.track]
		if begun && r.at != at {
			t.Errorf("stretch %d, track %d: begins at %d, the one before ends at %d", i, r.track,
				r.at, at)
		}
		if !begun && r.track == 1 && !r.key {
			t.Error("the pictures do not begin with a keyframe")
		}
		ends[r.track] = r.end
		samples += r.samples
	}
	return samples
}

// Frames that were dropped before the conversion are missing. The file continues at a keyframe,
// without a pause in time.
func TestMP4ContinuesAtAKeyframe(t *testing.T) {
	for _, early := range []int{0, 30, 50} { // number of tags before the others are published at once
		for _, late := range []int{0, 7} { // number of tags after them
			t.Run(fmt.Sprintf("%d before, %d after", early, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sc := newScript(30, 10, 500) // twenty tags per GOP
					l := newMill(t,
						func(c *live.Config) { c.KeepFrames = 64; c.Latency = time.Hour }, sc)
					l.publish(early)
					l.begin()
					l.publish(len(sc.tags) - early - late)
					l.p.Flush()
					synctest.Wait()
					l.publish(late)
					list := stretches(t, l.end())
					samples := contiguous(t, list)
					if lost := l.st.Forms().Lost(); lost == 0 || int(lost) != len(sc.tags)-samples {
						t.Errorf("%d frames lost, and %d samples of %d", lost, samples,
							len(sc.tags))
					}
					if kept := samples - early; kept < 20 || kept > 64+late {
						t.Errorf("%d samples behind what was lost", kept)
					}
				})
			})
		}
	}
}

// A fragment fits into the ring, however many frames wait for it.
func TestMP4FragmentsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(1, 1, 100)
		sc.tags = nil
		for i := range 20 {
			kind := byte(0x27)
			if i%5 == 0 {
				kind = 0x17
			}
			sc.tags = append(sc.tags, flvTag(flv.TypeVideo, uint32(500*i),
				append([]byte{kind, 1, 0, 0, 0}, unit(make([]byte, 40<<10))...)))
			// A viewer would start after audio that comes before the first video frame.
			for j := range min(i, 1) * 40 {
				sc.tags = append(sc.tags, flvTag(flv.TypeAudio, uint32(500*i+12*j),
					append([]byte{0xaf, 1}, make([]byte, 1000)...)))
			}
		}
		l := newMill(t, func(c *live.Config) { c.KeepBytes, c.MaxTagBytes = 64<<10, 48<<10 }, sc)
		l.begin()
		var file millrace.Chain
		defer file.Release()
		for range sc.tags {
			l.publish(1)
			synctest.Wait()
			if b, err := l.view.Take(&file); err != nil || b.Missed.Why != broadcast.NotMissed {
				t.Fatalf("%+v, %v, want no missed fragment", b, err)
			}
		}
		file.AppendCopy(l.end())
		if n := contiguous(t, stretches(t, file.Bytes())); n != len(sc.tags) {
			t.Errorf("%d samples, want %d", n, len(sc.tags))
		}
	})
}
