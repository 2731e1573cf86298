package mp4_test

import (
	"bytes"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// fuzzSeeds are the data of consecutive tags, in the form that unpack reads.
var fuzzSeeds = [][]string{
	{"v" + avcHeader(avc640x360), "a" + aacHeader(aac44100), "v" + avcKey("K"), "a" + aacFrame("a"),
		"v" + avcDelta(80, "P")},
	{"v" + avcHeader(avc640x360), "v" + avcKey("K"), "v" + avcHeader(avc320x240), "v" + avcKey("K"),
		"v" + avcKey("K")},
	{"a" + aacHeader(aac48000), "a" + aacFrame("a"), "a" + aacFrame("b"), "a" + aacHeader(aac44100),
		"a" + aacFrame("c")},
	{"v\x90hvc1" + hevc322x182, "v\x91hvc1\x00\x00\x28K", "v\xa3hvc1P", "a\x90mp4a" + aac48000,
		"a\x91mp4ax"},
	{"a\x2fmp3", "v\x90av01x", "s\x02\x00\x0aonMetaData", "v\x17\x02\x00\x00\x00"},
}

// pack writes kind, time and length before each tag's data.
func pack(tags []string) (b []byte) {
	for i, s := range tags {
		b = append(b, s[0], byte(i*40), byte(len(s)-1))
		b = append(b, s[1:]...)
	}
	return b
}

// unpack makes tags from any bytes: kind, time step, length, data.
func unpack(b []byte, f func(kind flv.Type, step int, data string)) {
	for len(b) >= 3 {
		kind := map[byte]flv.Type{'v': video, 'a': audio}[b[0]]
		if kind == 0 {
			kind = flv.Type(b[0] & 0x3f)
		}
		step, n := int(int8(b[1])), min(int(b[2]), len(b)-3)
		switch b[1] {
		case 100:
			step = 1 << 20 // a jump
		case 101:
			step = -1 << 10 // a restart
		case 102:
			step = 30_000 // a pause
		}
		f(kind, step, string(b[3:3+n]))
		b = b[3+n:]
	}
}

// FuzzMuxer writes arbitrary tags. It checks that there is no panic and no leak, that the output
// can be read, that samples do not overlap, and that each init segment was announced.
func FuzzMuxer(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(pack(seed), false)
		f.Add(pack(seed), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, both bool) {
		before := millrace.DefaultPool().Stats().InUse
		fuzzOne(t, in, both)
		if after := millrace.DefaultPool().Stats().InUse; after != before {
			t.Fatalf("%d bytes in use, were %d", after, before)
		}
	})
}

func fuzzOne(t *testing.T, in []byte, both bool) {
	m := mp4.NewMuxer(mp4.Tracks(both, both), mp4.MaxWaitBytes(200))
	defer m.Release()
	ends := map[uint32]int64{}
	var last []byte // init segment
	check := func(frag mp4.Fragment, dst *millrace.Chain) {
		defer dst.Release()
		if (frag.Samples == 0) != (dst.Len() == 0) {
			t.Fatalf("%+v with %d bytes", frag, dst.Len())
		}
		if frag.Samples == 0 {
			return
		}
		var init millrace.Chain
		defer init.Release()
		if err := m.AppendInit(&init); err != nil {
			t.Fatal(err)
		}
		known := map[uint32]bool{}
		for _, tr := range readInit(init.Bytes()) {
			known[tr.id] = true
		}
		if frag.NewInit {
			clear(ends)
		} else if !bytes.Equal(init.Bytes(), last) {
			t.Fatalf("%+v has another init segment than the fragment before", frag)
		}
		last = bytes.Clone(init.Bytes())
		checkParts(t, m, dst.Bytes())
		packets := readFragments(dst.Bytes())
		if len(packets) != frag.Samples || packets[0].key != frag.Key && packets[0].track == 1 {
			t.Fatalf("the fragment %+v has packets %v", frag, packets)
		}
		for _, p := range packets {
			if end, ok := ends[p.track]; !known[p.track] || p.duration == 0 || ok && p.dts < end {
				t.Fatalf("%+v comes after the time %d, or is of no track, or has no duration", p,
					end)
			}
			ends[p.track] = p.dts + int64(p.duration)
		}
	}
	ts := uint32(0)
	unpack(in, func(kind flv.Type, step int, data string) {
		ts += uint32(step)
		tag, c := makeTag(t, kind, ts, data)
		var dst millrace.Chain
		frag, err := m.WriteTag(&dst, tag, &c)
		if c.Len() > 0 || err != nil && (dst.Len() > 0 || frag != mp4.Fragment{}) {
			t.Fatalf("%v: %d bytes left, %d given", err, c.Len(), dst.Len())
		}
		check(frag, &dst)
	})
	var dst millrace.Chain
	check(m.Flush(&dst), &dst)
	if err := m.AppendInit(&dst); err != nil && err != mp4.ErrNoInit {
		t.Fatal(err)
	}
	dst.Release()
	if f := m.Flush(&dst); f.Samples > 0 {
		t.Fatalf("%+v after Flush", f)
	}
}
