package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/internal/server/demo"
)

// box reads one MP4 box.
func (w *watcher) box() (kind string, body []byte) {
	w.t.Helper()
	head := w.read(8)
	return string(head[4:]), w.read(int(binary.BigEndian.Uint32(head)) - 8)
}

func TestMP4(t *testing.T) {
	f := serve(t, nil)
	w := f.ask("/live/cam.mp4", 0)
	f.waiting("cam", 1)
	p := f.publish("cam")
	p.send(demo.Sample)
	w.begin()
	if got := w.res.Header.Get("Content-Type"); got != "video/mp4" {
		t.Errorf("content type %q", got)
	}
	if kind, _ := w.box(); kind != "ftyp" {
		t.Fatalf("begins with %s", kind)
	}
	if kind, body := w.box(); kind != "moov" || !bytes.Contains(body, []byte("avc1")) || !bytes.Contains(body, []byte("mp4a")) {
		t.Fatalf("goes on with %s", kind)
	}
	late := f.watch("/live/cam.mp4", 0)
	if kind, _ := late.box(); kind != "ftyp" {
		t.Fatalf("the late viewer begins with %s", kind)
	}
	if res := p.end(); res.status != 200 {
		t.Fatalf("%d %s", res.status, res.body)
	}
	// Every picture and every piece of sound of the sample, by reference, once: their bytes are its bytes.
	var media []byte
	for rest := w.rest(); len(rest) > 0; {
		n := int(binary.BigEndian.Uint32(rest))
		if string(rest[4:8]) == "mdat" {
			media = append(media, rest[8:n]...)
		} else if string(rest[4:8]) != "moof" {
			t.Fatalf("a %q box", rest[4:8])
		}
		rest = rest[n:]
	}
	if want := mediaBytes(t); len(media) != want {
		t.Errorf("%d bytes of pictures and sound, want %d", len(media), want)
	}
	late.rest()
	f.viewers(0)
}

// mediaBytes counts the sample's bytes of pictures and sound.
func mediaBytes(t *testing.T) (n int) {
	for _, tag := range cut(t, demo.Sample[13:]) {
		switch {
		case tag[0] == 9 && tag[12] == 1:
			n += len(tag) - 11 - 5 - 4
		case tag[0] == 8 && tag[12] == 1:
			n += len(tag) - 11 - 2 - 4
		}
	}
	return n
}

// MP4 is made as long as there are viewers of it.
func TestMP4IsMadeOnlyWhileItIsWatched(t *testing.T) {
	f := serve(t, nil)
	p := f.publish("cam")
	p.send(newScript(2, 3, 500).whole())
	f.published("cam", 3000)
	st := f.lookUp("cam")
	for range 3 {
		w := f.watch("/live/cam.mp4", 0)
		w.box()
		w.box()
		w.box()
		_ = w.conn.Close()
		eventually(t, "the making to end", func() bool { return len(st.renditions()) == 1 && st.live.ring.Stats().Cursors == 0 })
	}
	p.end()
}

// When the codecs change an MP4 file ends, because it has one header; who comes again gets the new one.
func TestMP4EndsWhenTheCodecsChange(t *testing.T) {
	f := serve(t, nil)
	p := f.publish("cam")
	p.send(demo.Sample)
	f.published("cam", len(demo.Sample)-13)
	w := f.watch("/live/cam.mp4", 0)
	w.box()
	sc := newScript(2, 3, 500) // other sequence headers
	p.send(bytes.Join(sc.config, nil))
	p.send(bytes.Join(sc.tags, nil))
	w.rest()
	f.logged("viewer ended", `reason="codecs changed"`)
	again := f.watch("/live/cam.mp4", 0)
	again.box()
	p.end()
	again.rest()
}

// A viewer that waited for a stream of which nothing can be had as MP4 is cut when that is known, and told why when it comes
// again.
func TestMP4OfNothingEnds(t *testing.T) {
	f := serve(t, nil)
	w := f.ask("/live/cam.mp4", 0)
	f.waiting("cam", 1)
	p := f.publish("cam")
	p.send([]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"))
	w.begin()
	for at := uint32(0); at <= 2*hopeWait; at += 40 {
		p.send(flvTag(flv.TypeVideo, at, []byte("\x91av01picture")))
		p.send(flvTag(flv.TypeAudio, at, []byte("\x91Opussound")))
	}
	if got, err := io.ReadAll(w.res.Body); err == nil || len(got) > 0 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	f.logged("MP4 ended", "H.264, H.265, AAC")
	if res := f.get("/live/cam.mp4"); res.status != 406 {
		t.Errorf("%d %s", res.status, res.body)
	}
	p.end()
}

// The same of a stream whose codecs MP4 could have, but whose sequence headers are refused, or do not come.
func TestMP4OfNoSequenceHeaderEnds(t *testing.T) {
	for name, tt := range map[string]struct{ first, want string }{
		"reserved channels": {"\xaf\x00\x11\xf8", "channel configuration 15"},
		"none":              {"\xaf\x01sound", "no sequence header"},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil)
			waits := f.ask("/live/cam.mp4", 0)
			f.waiting("cam", 1)
			p := f.publish("cam")
			p.send([]byte("FLV\x01\x04\x00\x00\x00\x09\x00\x00\x00\x00"))
			waits.begin()
			at := uint32(0)
			send := func() {
				p.send(flvTag(flv.TypeAudio, at, []byte(tt.first)))
				for end := at + 2*hopeWait; at < end; at += 40 {
					p.send(flvTag(flv.TypeAudio, at, []byte("\xaf\x01sound")))
				}
			}
			send()
			if got, err := io.ReadAll(waits.res.Body); err == nil || len(got) > 0 {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			f.logged("MP4 ended", tt.want)
			comes := f.watch("/live/cam.mp4", 0)
			send()
			if got, err := io.ReadAll(comes.res.Body); err == nil || len(got) > 0 {
				t.Errorf("who comes later: %d bytes, %v", len(got), err)
			}
			p.end()
		})
	}
}

// A viewer who comes while a stream has only begun is not refused for what came first: neither one who has waited for
// it, nor one who finds it there; not when its times go back a little either.
func TestMP4IsNotRefusedBeforeASecondHasPassed(t *testing.T) {
	for name, times := range map[string][]uint32{
		"one sound": {0}, "almost a second": {0, hopeWait - 1}, "back by a millisecond": {20, 19}, "anew": {60_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, nil)
			waits := f.ask("/live/cam.mp4", 0)
			f.waiting("cam", 1)
			p := f.publish("cam")
			sc := newScript(2, 5, 500)
			p.send(sc.header)
			waits.begin()
			sent := 0
			for _, at := range times {
				sound := flvTag(flv.TypeAudio, at, []byte("\x2fMP3"))
				p.send(sound)
				sent += len(sound)
			}
			f.published("cam", sent)
			comes := f.watch("/live/cam.mp4", 0)
			p.send(avcHeader())
			for i := 0; i < len(sc.tags); i += 2 {
				p.send(sc.tags[i])
			}
			p.end()
			for _, w := range []*watcher{waits, comes} {
				if n := contiguous(t, stretches(t, w.rest())); n != 10 {
					t.Errorf("%d pictures, want 10", n)
				}
			}
		})
	}
}

// A codec that MP4 is made of may come a moment after another.
func TestMP4OfWhatComesLater(t *testing.T) {
	f := serve(t, nil)
	w := f.ask("/live/cam.mp4", 0)
	f.waiting("cam", 1)
	sc := newScript(2, 5, 500)
	p := f.publish("cam")
	p.send(sc.header)
	w.begin()
	for at := uint32(0); at < hopeWait; at += 40 {
		p.send(flvTag(flv.TypeAudio, at, []byte("\x91Opussound")))
	}
	p.send(avcHeader())
	for i, tag := range sc.tags {
		if i%2 == 0 {
			p.send(tag)
		}
	}
	p.end()
	if kind, _ := w.box(); kind != "ftyp" {
		t.Errorf("begins with %q", kind)
	}
	w.rest()
}

// Who has waited for a stream whose pictures come long after its sound gets that sound as well.
func TestMP4OfSoundInFrontOfThePictures(t *testing.T) {
	f := serve(t, nil)
	w := f.ask("/live/cam.mp4", 0)
	f.waiting("cam", 1)
	p := f.publish("cam")
	sc := newScript(2, 5, 500)
	sounds := pieces(100, 0) // 2.1 s
	p.send(bytes.Join([][]byte{sc.start(), bytes.Join(sounds, nil), bytes.Join(sc.tags, nil)}, nil))
	p.end()
	w.begin()
	if n, want := contiguous(t, stretches(t, w.rest())), len(sounds)+len(sc.tags); n != want {
		t.Errorf("%d samples, want %d", n, want)
	}
}

// A mill makes MP4 of a stream whose tags come when the test says so.
type mill struct {
	t    *testing.T
	st   *stream
	p    *Publisher
	dec  *flv.Decoder
	m    *mp4Rendition
	view *broadcast.Cursor // of its only viewer
}

// newMill publishes what stands before the tags of sc, and then makes a rendition, which waits for the test to begin it.
func newMill(t *testing.T, change func(*Config), sc *script) *mill {
	t.Helper()
	cfg := testConfig()
	cfg.Latency = 0
	change(&cfg)
	p, err := New(cfg).Open("cam", "test")
	if err != nil {
		t.Fatal(err)
	}
	p.r = millrace.NewReader(bytes.NewReader(sc.whole()))
	l := &mill{t: t, p: p, st: p.s, dec: flv.NewDecoder(p.r)}
	header, err := l.dec.Header()
	if err != nil {
		t.Fatal(err)
	}
	p.Begin(header)
	l.publish(len(sc.config))
	l.st.mu.Lock()
	defer l.st.mu.Unlock()
	l.m = l.st.newMP4()
	l.st.mp4, l.m.out.viewers = l.m.out, 1
	l.view = l.m.out.cursor()
	return l
}

// publish publishes the next n tags.
func (l *mill) publish(n int) {
	l.t.Helper()
	for range n {
		if err := l.p.next(l.dec); err != nil {
			l.t.Fatal(err)
		}
	}
}

// begin makes MP4 of what is there.
func (l *mill) begin() {
	go l.m.run(context.Background())
	synctest.Wait()
}

// end ends the stream, and returns the file that its viewer gets.
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

// A stretch is the samples of one track in one fragment.
type stretch struct {
	track   int
	at, end int64 // where it begins and ends, in the track's units
	samples int
	key     bool // its first picture is a key frame
}

// stretches lists what the fragments of an MP4 file hold.
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

// boxes calls f for each box, and for those in moof and traf.
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

// contiguous checks that each track goes on where it was, and that the pictures begin with a key frame. It returns how many
// samples there are.
func contiguous(t *testing.T, list []stretch) (samples int) {
	t.Helper()
	ends := map[int]int64{}
	for i, r := range list {
		at, begun := ends[r.track]
		if begun && r.at != at {
			t.Errorf("stretch %d, track %d: begins at %d, the one before ends at %d", i, r.track, r.at, at)
		}
		if !begun && r.track == 1 && !r.key {
			t.Error("the pictures do not begin with a key frame")
		}
		ends[r.track] = r.end
		samples += r.samples
	}
	return samples
}

// What is gone before MP4 was made of it is left out. The file goes on at a key frame, and its time without a pause.
func TestMP4GoesOnAtAKeyFrame(t *testing.T) {
	for _, early := range []int{0, 30, 50} { // tags that are made before the others come at once
		for _, late := range []int{0, 7} { // and after them
			t.Run(fmt.Sprintf("%d before, %d after", early, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sc := newScript(30, 10, 500) // twenty tags a group
					l := newMill(t, func(c *Config) { c.KeepFrames = 64; c.Latency = time.Hour }, sc)
					l.publish(early)
					l.begin()
					l.publish(len(sc.tags) - early - late)
					l.p.Flush()
					synctest.Wait()
					l.publish(late)
					list := stretches(t, l.end())
					samples := contiguous(t, list)
					if lost := l.st.lost.Load(); lost == 0 || int(lost) != len(sc.tags)-samples {
						t.Errorf("%d frames lost, and %d samples of %d", lost, samples, len(sc.tags))
					}
					if kept := samples - early; kept < 20 || kept > 64+late {
						t.Errorf("%d samples behind what was lost", kept)
					}
				})
			})
		}
	}
}

// A fragment has room in the ring, however much waits for it.
func TestMP4FragmentsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(1, 1, 100)
		sc.tags = nil
		for i := range 20 {
			kind := byte(0x27)
			if i%5 == 0 {
				kind = 0x17
			}
			sc.tags = append(sc.tags, flvTag(flv.TypeVideo, uint32(500*i), append([]byte{kind, 1, 0, 0, 0}, make([]byte, 40<<10)...)))
			for j := range min(i, 1) * 40 { // a viewer would begin behind sound that is made before the first picture
				sc.tags = append(sc.tags, flvTag(flv.TypeAudio, uint32(500*i+12*j), append([]byte{0xaf, 1}, make([]byte, 1000)...)))
			}
		}
		l := newMill(t, func(c *Config) { c.KeepBytes, c.MaxTagBytes = 64<<10, 48<<10 }, sc)
		l.begin()
		var file millrace.Chain
		defer file.Release()
		for range sc.tags {
			l.publish(1)
			synctest.Wait()
			if b, err := l.view.Take(&file); err != nil || b.Missed.Why != broadcast.NotMissed {
				t.Fatalf("%+v, %v", b, err)
			}
		}
		file.AppendCopy(l.end())
		if n := contiguous(t, stretches(t, file.Bytes())); n != len(sc.tags) {
			t.Errorf("%d samples, want %d", n, len(sc.tags))
		}
	})
}

// When MP4 cannot be made any more its viewers can tell, and so can the operator.
func TestMP4ThatFailsHasNoProperEnd(t *testing.T) {
	f := serve(t, nil)
	p := f.publish("cam")
	p.send(newScript(2, 3, 500).whole())
	f.published("cam", 3000)
	st := f.lookUp("cam")
	st.mu.Lock()
	m := st.newMP4()
	m.muxer = nil // a mistake
	st.mp4 = m.out
	st.mu.Unlock()
	w := f.watch("/live/cam.mp4", 0)
	go m.run(t.Context())
	if _, err := io.ReadAll(w.res.Body); err == nil {
		t.Error("the viewer got a proper end")
	}
	f.logged("level=ERROR", "making MP4 failed")
	f.logged("viewer ended", `reason="MP4 failed"`)
	if got := f.metric(`millrace_viewers_dropped_total{reason="mp4"}`); got != "1" {
		t.Errorf("%s viewers dropped by the metrics", got)
	}
	again := f.watch("/live/cam.mp4", 0)
	again.box()
	p.end()
	again.rest()
}

// Viewers who have waited for the publisher get MP4 from the start, also when the stream is there at once.
func TestAllWaitersGetMP4FromTheStart(t *testing.T) {
	f := serve(t, nil)
	var list []*watcher
	for range 5 {
		list = append(list, f.ask("/live/cam.mp4", 0))
	}
	f.waiting("cam", 5)
	p := f.publish("cam")
	p.send(demo.Sample)
	p.end()
	want := 0
	for _, tag := range cut(t, demo.Sample[13:]) {
		if tag[0] != byte(flv.TypeScript) && tag[12] == 1 {
			want++
		}
	}
	for i, w := range list {
		w.begin()
		if n := contiguous(t, stretches(t, w.rest())); n != want {
			t.Errorf("viewer %d got %d samples, want %d", i, n, want)
		}
	}
}
