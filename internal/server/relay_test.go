package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

func TestViewersGetTheStreamByteForByte(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(3, 10, 2000)
	watchers := []*watcher{f.ask("/live/cam", 0), f.ask("/live/cam.flv", 0)}
	f.waiting("cam", 2)

	p := f.publish("cam")
	p.send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))
	for _, w := range watchers {
		w.begin()
		if got := w.res.Header.Get("Content-Type"); got != "video/x-flv" {
			t.Errorf("content type %q", got)
		}
		if got := w.res.Header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("CORS header %q", got)
		}
		same(t, "while the stream goes on", w.read(len(sc.whole())), sc.whole())
	}

	res := p.end()
	var got summary
	if err := json.Unmarshal([]byte(res.body), &got); err != nil || res.status != http.StatusOK {
		t.Fatalf("answer %d %q: %v", res.status, res.body, err)
	}
	if got.Stream != "cam" || got.Format != "flv" || got.Frames != int64(len(sc.config)+len(sc.tags)) || got.Bytes != int64(len(sc.whole())-len(sc.header)) {
		t.Errorf("summary %+v", got)
	}
	for _, w := range watchers {
		if rest := w.rest(); len(rest) > 0 {
			t.Errorf("%d bytes more at the end", len(rest))
		}
	}
	f.logged("publisher ended", "stream=cam", `reason="end of the body"`)
	f.logged("viewer ended", "stream=cam", `reason="stream ended"`)
	if res := f.get("/api/streams"); !strings.Contains(res.body, `"streams":[]`) {
		t.Errorf("the stream is still listed: %s", res.body)
	}
}

func TestALateViewerStartsAtTheLastKeyFrame(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(3, 10, 2000)
	p := f.publish("cam")
	p.send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))

	w := f.watch("/live/cam", 0)
	want := sc.from(sc.keys[2])
	same(t, "what was there", w.read(len(want)), want)
	more := flvTag(9, 4000, []byte("\x27\x01\x00\x00\x00live"))
	p.send(more)
	same(t, "what came then", w.read(len(more)), more)
	p.end()
}

// A group of pictures longer than what is kept is told of: in the log once a stream, in the metrics and by the API.
func TestAGroupThatDoesNotFitIsToldOf(t *testing.T) {
	for _, limit := range []struct {
		name string
		set  func(*Config)
		size int // of a picture
	}{
		{"frames", func(c *Config) { c.KeepFrames = 16 }, 100},
		{"bytes", func(c *Config) { c.KeepBytes, c.MaxTagBytes = 64<<10, 32<<10 }, 10_000},
	} {
		t.Run(limit.name, func(t *testing.T) { groupThatDoesNotFit(t, limit.set, limit.size) })
	}
}

func groupThatDoesNotFit(t *testing.T, set func(*Config), size int) {
	f := serve(t, set)
	sc := newScript(3, 10, size) // twenty frames a group, of which the last one is only begun
	p := f.publish("cam")
	p.send(bytes.Join([][]byte{sc.start(), bytes.Join(sc.tags[:sc.keys[2]+4], nil)}, nil))
	eventually(t, "the API to say so", func() bool { return strings.Contains(f.get("/api/streams").body, `"groups_cut":2`) })
	w := f.watch("/live/cam", 0) // the group that is begun fits so far
	p.end()
	want := bytes.Join([][]byte{sc.start(), bytes.Join(sc.tags[sc.keys[2]:sc.keys[2]+4], nil)}, nil)
	same(t, "the late viewer", w.rest(), want)
	f.logged("level=WARN", "a group of pictures is longer", "stream=cam",
		fmt.Sprintf("keep-bytes=%d", f.cfg.KeepBytes), fmt.Sprintf("keep-frames=%d", f.cfg.KeepFrames))
	if n := strings.Count(f.log.String(), "a group of pictures is longer"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if got := f.metric("millrace_groups_cut_total"); got != "2" {
		t.Errorf("metric %s, want 2", got)
	}
}

// With the defaults a still picture with sound has groups of minutes, and who comes late gets all of the last one.
func TestALongGroupIsKept(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 1, 5000)
	for i := range 12_000 {
		at := uint32(i * 21)
		if i%47 == 46 {
			sc.tags = append(sc.tags, flvTag(9, at, []byte("\x27\x01\x00\x00\x00still")))
		}
		sc.tags = append(sc.tags, flvTag(8, at, []byte("\xaf\x01a piece of sound")))
	}
	p := f.publish("cam")
	p.send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))
	late := []*watcher{f.watch("/live/cam.flv", 0), f.watch("/live/cam.mp4", 0)}
	same(t, "FLV", late[0].read(len(sc.whole())), sc.whole())
	for _, want := range []string{"ftyp", "moov", "moof", "mdat"} {
		if kind, _ := late[1].box(); kind != want {
			t.Errorf("MP4: a box %s, want %s", kind, want)
		}
	}
	p.end()
	if strings.Contains(f.log.String(), "a group of pictures is longer") {
		t.Error("warned of a group that fits")
	}
}

// A viewer that comes between two tags of the configuration gets each once.
func TestAViewerThatComesDuringTheConfigurationGetsAllOfItOnce(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 5, 500)
	p := f.publish("cam")
	p.send(bytes.Join([][]byte{sc.header, sc.config[0]}, nil))
	f.published("cam", len(sc.config[0]))
	w := f.watch("/live/cam", 0)
	same(t, "the header", w.read(len(sc.header)), sc.header)
	p.send(bytes.Join(append(sc.config[1:], sc.tags...), nil))
	p.end()
	same(t, "the rest", w.rest(), sc.whole()[len(sc.header):])
}

// Sound that comes before the first picture is not lost to those who were there.
func TestSoundBeforeTheFirstPicture(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 5, 500)
	sound := flvTag(8, 0, []byte("\xaf\x01early"))
	sc.tags = append([][]byte{sound, sound}, sc.tags...)
	w := f.ask("/live/cam", 0)
	f.waiting("cam", 1)
	p := f.publish("cam")
	p.send(sc.whole())
	p.end()
	w.begin()
	same(t, "the stream", w.rest(), sc.whole())
}

func TestSoundAlone(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 3, 10)
	var sounds [][]byte
	for _, tag := range sc.tags {
		if tag[0] == 8 {
			sounds = append(sounds, tag)
		}
	}
	p := f.publish("radio")
	p.send(bytes.Join([][]byte{sc.header, sc.config[2], bytes.Join(sounds, nil)}, nil))
	f.published("radio", len(sc.config[2])+len(bytes.Join(sounds, nil)))
	w := f.watch("/live/radio", 0)
	want := bytes.Join([][]byte{sc.header, sc.config[2], sounds[2]}, nil) // every piece of sound is a place to start
	same(t, "what was there", w.read(len(want)), want)
	p.end()
}

func TestUnknownBytesAreRelayedFromTheMomentOfJoining(t *testing.T) {
	f := serve(t, nil)
	early := f.ask("/live/raw", 0)
	f.waiting("raw", 1)
	p := f.publish("raw")
	p.send([]byte("not FLV at all, "))
	early.begin()
	if got := early.res.Header.Get("Content-Type"); got != "application/octet-stream" {
		t.Errorf("content type %q", got)
	}
	early.read(len("not FLV at all, "))

	late := f.watch("/live/raw", 0)
	f.viewers(2)
	p.send([]byte("and then some"))
	p.end()
	if got := string(early.rest()); got != "and then some" {
		t.Errorf("early: %q", got)
	}
	if got := string(late.rest()); got != "and then some" {
		t.Errorf("late: %q", got)
	}
}

// Bytes that begin like FLV are told from it, however slowly they come.
func TestTheFormIsKnownByTheFirstBytes(t *testing.T) {
	for _, tt := range []struct{ body, format string }{
		{"x", "raw"},
		{"FL", "raw"},
		{"FLAC is not FLV", "raw"},
		{"FLV\x02 another version", "raw"},
		{"FLV\x01\x05\x00\x00\x00\x01bad offset", "raw"},
		{"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00", "flv"},
	} {
		f := serve(t, nil)
		p := f.publish("x")
		for i := range tt.body {
			p.send([]byte(tt.body[i : i+1]))
		}
		res := p.end()
		if res.status != 200 || !strings.Contains(res.body, `"format":"`+tt.format+`"`) {
			t.Errorf("%q: %d %s, want %s", tt.body, res.status, res.body, tt.format)
		}
	}
}

func TestANameIsFreeAgainWhenItsStreamHasEnded(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 2, 100)
	for range 3 {
		w := f.ask("/live/cam", 0)
		f.waiting("cam", 1)
		p := f.publish("cam")
		p.send(sc.whole())
		if res := p.end(); res.status != 200 {
			t.Fatalf("%d %s", res.status, res.body)
		}
		w.begin()
		same(t, "the stream", w.rest(), sc.whole())
	}
}

// With no latency bound a publisher's connection is read in another way.
func TestRelayWithoutALatencyBound(t *testing.T) {
	f := serve(t, func(c *Config) { c.Latency = 0 })
	sc := newScript(3, 10, 2000)
	w := f.ask("/live/cam", 0)
	f.waiting("cam", 1)
	p := f.publish("cam")
	for _, tag := range append([][]byte{sc.start()}, sc.tags...) {
		p.send(tag)
	}
	w.begin()
	same(t, "while the stream goes on", w.read(len(sc.whole())), sc.whole())
	p.end()
}

func TestAViewerThatLeavesIsNoticedWhileNothingIsSent(t *testing.T) {
	f := serve(t, nil)
	p := f.publish("cam")
	p.send([]byte("quiet"))
	w := f.watch("/live/cam", 0)
	f.viewers(1)
	_ = w.conn.Close()
	f.viewers(0)
	f.logged("viewer ended", `reason="viewer left"`)
	p.end()
}

func TestTheDemoPlays(t *testing.T) {
	f := serve(t, func(c *Config) { c.Demo = true })
	w := f.watch("/live/demo.flv", 0)
	got := w.read(30_000)
	if !bytes.HasPrefix(got, []byte("FLV\x01")) || !bytes.Contains(got, []byte("onMetaData")) {
		t.Errorf("begins with % x", got[:16])
	}
	if res := f.publish("demo").wait(); res.status != http.StatusConflict {
		t.Errorf("publishing demo: %d %s", res.status, res.body)
	}
	f.stop()
	f.logged("publisher ended", "stream=demo")
}

// The demo's timestamps never go back, also where the sample begins again.
func TestTheDemoIsMonotonicAcrossRounds(t *testing.T) {
	f := serve(t, nil)
	st := f.newStream("demo", "demo")
	d, err := newDemo(st)
	if err != nil {
		t.Fatal(err)
	}
	defer d.release()
	defer st.end()
	last := map[byte]uint32{}
	for round := range 3 {
		for i := range d.tags {
			tag := &d.tags[i]
			at := uint32(d.due(tag, round) / time.Millisecond)
			kind := byte(tag.Type)
			if before, ok := last[kind]; ok && at <= before {
				t.Fatalf("round %d, tag %d: %d ms after %d ms", round, i, at, before)
			}
			last[kind] = at
		}
	}
}

// The demo is played in real time, round after round: what is due has been published, and nothing else.
func TestTheDemoIsPlayedInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Defaults())
		if err != nil {
			t.Fatal(err)
		}
		st := s.newStream("demo", "demo")
		if err := s.registry.claim(st); err != nil {
			t.Fatal(err)
		}
		d, err := newDemo(st)
		if err != nil {
			t.Fatal(err)
		}
		before := st.live.ring.Stats().Published.Frames
		ctx, cancel := context.WithCancel(t.Context())
		played := make(chan error, 1)
		begin := time.Now()
		go func() { played <- d.play(ctx) }()
		for range 100 {
			time.Sleep(333 * time.Millisecond)
			synctest.Wait()
			due := uint64(0)
			for round := range 20 {
				for i := range d.tags {
					if d.due(&d.tags[i], round) <= time.Since(begin) {
						due++
					}
				}
			}
			if n := st.live.ring.Stats().Published.Frames - before; n != due {
				t.Errorf("after %v: %d tags, %d are due", time.Since(begin), n, due)
			}
		}
		cancel()
		if err := <-played; !errors.Is(err, errDraining) {
			t.Errorf("play = %v", err)
		}
		d.release()
		st.end()
	})
}

// Where pictures of several codecs are in one tag, sound is no place to start either.
func TestSoundBesideTracksOfManyCodecs(t *testing.T) {
	f := serve(t, nil)
	p := f.publish("cam")
	key := flvTag(flv.TypeVideo, 0, []byte("\x96\x21avc1\x00\x00\x00\x01xhvc1\x01\x00\x00\x01y"))
	stream := bytes.Join([][]byte{
		[]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"), key,
		flvTag(flv.TypeAudio, 0, []byte("\xaf\x01sound")),
		flvTag(flv.TypeVideo, 40, []byte("\xa6\x21avc1\x00\x00\x00\x01xhvc1\x01\x00\x00\x01y")),
	}, nil)
	p.send(stream)
	f.published("cam", len(stream)-13)
	w := f.watch("/live/cam", 0)
	p.end()
	same(t, "what a late viewer gets", w.rest(), stream)
}

// What could not be published is not counted, whatever it was.
func TestWhatIsNotPublishedIsNotCounted(t *testing.T) {
	st := shortStream(t)
	defer st.end()
	st.open(formFLV, nil)
	_ = st.live.ring.Close()
	var frame, header, preamble millrace.Chain
	frame.AppendCopy([]byte("frame"))
	header.AppendCopy([]byte("header"))
	header.Clone(&preamble)
	if err := st.publish(&frame, true); err == nil {
		t.Error("published to a closed ring")
	}
	if err := st.configure(&header, &preamble); err == nil {
		t.Error("configured a closed ring")
	}
	if frames, bytes := st.framesIn.Load(), st.bytesIn.Load(); frames != 0 || bytes != 0 {
		t.Errorf("%d frames, %d bytes", frames, bytes)
	}
}
