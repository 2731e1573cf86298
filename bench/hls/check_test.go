package hls

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

const testRate = 400_000

func testSynth() *load.Synth { return load.NewSynth(0, testRate, keyInterval) }

// fragments returns an initialization segment, and the fragments of a number of tags.
func fragments(t testing.TB, tags int) (init []byte, all [][]byte) {
	synth := testSynth()
	stream := []byte(httpflv.Header)
	for _, h := range synth.Headers(testRate) {
		stream = httpflv.AppendTag(stream, h)
	}
	for range tags {
		stream = httpflv.AppendTag(stream, synth.Next(time.Unix(1, 0)))
	}
	r := millrace.NewReader(bytes.NewReader(stream))
	defer r.Release()
	d, m := flv.NewDecoder(r), mp4.NewMuxer(mp4.Tracks(true, true))
	defer m.Release()
	take := func(c *millrace.Chain) []byte {
		defer c.Release()
		return bytes.Clone(c.Bytes())
	}
	for {
		var tag, out millrace.Chain
		info, err := d.Next(&tag)
		if err != nil {
			break
		}
		f, err := m.WriteTag(&out, info, &tag)
		if err != nil {
			t.Fatal(err)
		}
		if f.NewInit {
			if err := m.AppendInit(&tag); err != nil {
				t.Fatal(err)
			}
			init = take(&tag)
		}
		if b := take(&out); f.Samples > 0 {
			all = append(all, b)
		}
	}
	return init, all
}

func TestCheckerTakesWhatWasSent(t *testing.T) {
	init, all := fragments(t, 600)
	c := newChecker(testSynth())
	if err := c.readHeader(init); err != nil {
		t.Fatal(err)
	}
	var last contents
	for i := 0; i+1 < len(all); i += 2 { // two fragments per part
		in, err := c.check(bytes.Join(all[i:i+2], nil))
		if err != nil {
			t.Fatalf("the check refuses part %d, which was sent: %v", i, err)
		}
		if in.picture <= last.picture || in.newest < in.picture || in.newest <= last.newest {
			t.Fatalf("part %d: %+v after %+v", i, in, last)
		}
		last = in
	}
	if n := c.countMissing(); n > 0 || len(c.seen) < 500 {
		t.Errorf("%d tags are missing of %d", n, len(c.seen))
	}
}

func TestCheckerFindsFaults(t *testing.T) {
	init, all := fragments(t, 600)
	change := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	for name, part := range map[string][]byte{
		"a wrong byte":       change(all[0], len(all[0])-1),
		"cut":                all[0][:len(all[0])-1],
		"nothing":            nil,
		"a wrong box":        change(all[0], 5),
		"bytes behind":       append(bytes.Clone(all[0]), 0),
		"twice":              bytes.Join([][]byte{all[0], all[0]}, nil),
		"in the wrong order": bytes.Join([][]byte{all[1], all[0]}, nil),
		"an HTML page":       []byte("<html><body>There is nothing here.</body></html>"),
	} {
		c := newChecker(testSynth())
		if err := c.readHeader(init); err != nil {
			t.Fatal(err)
		}
		if in, err := c.check(part); err == nil {
			t.Errorf("%s: accepted as %+v", name, in)
		}
	}
	c := newChecker(testSynth())
	if err := c.readHeader(init); err != nil {
		t.Fatal(err)
	}
	for i, b := range all {
		if i == len(all)/2 {
			continue
		}
		if _, err := c.check(b); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.countMissing(); n < 1 || n > 5 {
		t.Errorf("%d tags are missing of one fragment", n)
	}
}

// ts writes elementary stream packets as a transport stream.
func ts(pid uint16, kind byte, data []byte) (b []byte) {
	p := append([]byte{0, 0, 1, kind, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1}, data...)
	for first := true; len(p) > 0; first = false {
		head := []byte{tsSync, byte(pid >> 8), byte(pid), 0x10}
		if first {
			head[1] |= 0x40
		}
		if room := tsPacket - 4; len(p) < room { // stuffing
			head[3] |= 0x20
			stuff := room - len(p)
			head = append(head, byte(stuff-1))
			if stuff > 1 {
				head = append(append(head, 0), bytes.Repeat([]byte{0xff}, stuff-2)...)
			}
		}
		n := min(len(p), tsPacket-len(head))
		b, p = append(append(b, head...), p[:n]...), p[n:]
	}
	return b
}

// segment returns a transport stream of a number of tags, with two audio frames per packet.
func segment(tags int) (b []byte) {
	synth := testSynth()
	var sound []byte
	b = append([]byte{tsSync, 0x40, 0, 0x10, 0}, make([]byte, tsPacket-5)...) // a table
	for range tags {
		t := synth.Next(time.Unix(1, 0))
		if t.Kind == load.Audio {
			n := len(t.Payload) - 2 + 7
			sound = append(sound, 0xff, 0xf1, 0x50, 0x80|byte(n>>11), byte(n>>3), byte(n<<5)|0x1f,
				0xfc)
			sound = append(sound, t.Payload[2:]...)
			if len(sound) > n {
				b, sound = append(b, ts(0x101, pesAudio, sound)...), nil
			}
			continue
		}
		data := []byte{0, 0, 0, 1, 9, 0xf0}
		if t.Payload[0] == 0x17 {
			data = append(data, "\x00\x00\x00\x01\x67abc\x00\x00\x00\x01\x68abc"...)
		}
		for nal := t.Payload[5:]; len(nal) > 0; {
			n := binary.BigEndian.Uint32(nal)
			data = append(append(data, 0, 0, 1), nal[4:4+n]...)
			nal = nal[4+n:]
		}
		b = append(b, ts(0x100, pesVideo, data)...)
	}
	return b
}

func TestCheckerReadsTransportStream(t *testing.T) {
	good := segment(300)
	c := newChecker(testSynth())
	in, err := c.check(good)
	if err != nil || c.countMissing() > 0 || in.newest < 298 {
		t.Errorf("%+v, %v, %d tags are missing", in, err, c.countMissing())
	}
	wrong := bytes.Clone(good)
	wrong[len(wrong)-1] ^= 1
	for name, b := range map[string][]byte{
		"a wrong byte": wrong, "cut": good[:len(good)-1],
		"a packet less": append(bytes.Clone(good[:10*tsPacket]), good[11*tsPacket:]...),
		"no picture":    good[:tsPacket], "another sync byte": append(bytes.Clone(good),
			make([]byte, tsPacket)...),
	} {
		if in, err := newChecker(testSynth()).check(b); err == nil {
			t.Errorf("%s: accepted as %+v", name, in)
		}
	}
}

func FuzzChecker(f *testing.F) {
	init, all := fragments(f, 20)
	f.Add(init, all[0])
	f.Add(init, segment(5))
	f.Add([]byte{}, []byte(strings.Repeat("G", tsPacket)))
	f.Fuzz(func(t *testing.T, init, part []byte) {
		c := newChecker(testSynth())
		c.readHeader(init)
		c.check(part)
		c.countMissing()
	})
}
