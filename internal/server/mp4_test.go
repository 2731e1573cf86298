package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

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

// The muxing lasts as long as somebody watches MP4.
func TestMP4IsMadeOnlyWhileSomebodyWatches(t *testing.T) {
	f := serve(t, func(c *Config) { c.Demo = true })
	for range 3 {
		w := f.watch("/live/demo.mp4", 0)
		w.box()
		w.box()
		w.box()
		st := f.registry.find("demo")
		_ = w.conn.Close()
		eventually(t, "the muxing to end", func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.mp4 == nil
		})
	}
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
