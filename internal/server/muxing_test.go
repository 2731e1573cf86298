package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/internal/server/demo"
)

// A mill makes MP4 of a stream whose tags come when the test says so.
type mill struct {
	t    *testing.T
	st   *stream
	in   *ingest
	dec  *flv.Decoder
	m    *muxing
	view *broadcast.Cursor // of its only viewer
}

// newMill publishes what stands before the tags of sc, and then makes a muxing, which waits for the test to begin it.
func newMill(t *testing.T, change func(*Config), sc *script) *mill {
	t.Helper()
	cfg := Defaults()
	change(&cfg)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &mill{t: t, st: s.newStream("cam", "test")}
	if err := s.registry.claim(l.st); err != nil {
		t.Fatal(err)
	}
	l.in = &ingest{s: l.st, r: millrace.NewReader(bytes.NewReader(sc.whole()))}
	l.dec = flv.NewDecoder(l.in.r)
	if _, err := l.dec.Header(); err != nil {
		t.Fatal(err)
	}
	l.st.open(formFLV, sc.header)
	l.publish(len(sc.config))
	source := l.st.source()
	l.st.mu.Lock()
	defer l.st.mu.Unlock()
	l.m = l.st.newMuxing(source)
	l.st.mp4, l.m.viewers = l.m, 1
	l.view = l.st.cursorLocked(l.m.out)
	return l
}

// publish publishes the next n tags.
func (l *mill) publish(n int) {
	l.t.Helper()
	for range n {
		if err := l.in.next(l.dec); err != nil {
			l.t.Fatal(err)
		}
	}
}

// begin makes MP4 of what is there.
func (l *mill) begin() {
	l.st.mu.Lock()
	l.m.begin()
	l.st.mu.Unlock()
	synctest.Wait()
}

// end ends the stream, and returns the file that its viewer gets.
func (l *mill) end() (file []byte) {
	l.t.Helper()
	l.in.release()
	l.st.end()
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
					l := newMill(t, func(c *Config) { c.KeepFrames = 64 }, sc)
					l.publish(early)
					l.begin()
					l.publish(len(sc.tags) - early - late)
					l.st.announce()
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

// A fragment has room in the ring, whatever waits for it.
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
			l.st.announce()
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
	st := f.registry.find("cam")
	source := st.source()
	st.mu.Lock()
	m := st.newMuxing(source)
	m.muxer = nil // a mistake
	st.mp4, st.awaited = m, 1
	st.mu.Unlock()
	w := f.watch("/live/cam.mp4", 0)
	st.arrived()
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

// A muxing that its only viewer leaves before it has begun gives everything back.
func TestMP4ThatNeverBegins(t *testing.T) {
	f := serve(t, nil)
	p := f.publish("cam")
	p.send(newScript(2, 3, 500).whole())
	f.published("cam", 3000)
	st := f.registry.find("cam")
	st.await(1)
	w := f.watch("/live/cam.mp4", 0)
	_ = w.conn.Close()
	eventually(t, "no cursor is left", func() bool { return f.census.count() == 0 && st.live.ring.Stats().Cursors == 0 })
	st.arrived()
	p.end()
}
