package mp4

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

// The parameter sets are those of libx264 and libx265.
func TestPictureSizes(t *testing.T) {
	for _, tt := range []struct {
		name, sps     string
		width, height uint16
		shape         [2]uint16
	}{
		{"baseline", "6742c00dd90141fb011000000300100000030320f142a480", 320, 240, [2]uint16{}},
		{"cropped", "6764000dacd941519e226c0440000003004000000c83c50a6580", 322, 182, [2]uint16{}},
		{"interlaced 16:9", "6764001eacd940b424dff8020001688000000300800000190f8a14cb", 720, 576,
			[2]uint16{64, 45}},
		{"interlaced, cropped", "67640028acd94078044fde0220000003002000000643e2c5b2c0", 1920, 1080,
			[2]uint16{}},
		{"4:2:2", "677a000dbcd941519e222f011000000300100000030320f14299", 322, 182, [2]uint16{}},
		{"4:4:4", "67f4000d919b282a33c2119808800000030080000019078a14cb", 321, 181, [2]uint16{}},
		{"10 bit", "676e000da6cd941519e226c044000003000400000300c83c50a658", 322, 182, [2]uint16{}},
		{"gray", "6764000df365054678f8bc05b2000003000200000300641e28532c", 322, 182, [2]uint16{}},
		{"2160p", "6742c033da00f0010fb011000003000100000300320f1832a0", 3840, 2160, [2]uint16{}},
		{"HEVC",
			"42010101600000030090000003000003003ca00a480b9c9596566924caf0168080000003008000000c84",
			322, 182, [2]uint16{}},
		{"HEVC 4:4:4", "4201010408000003009e0800000300003c90014901739ef2cacd24995e02d01000000300100000030190", 322, 182,
			[2]uint16{}},
		{"HEVC 4:2:2, 10 bit",
			"4201010408000003009d0800000300003cb00a480b9c96d96566924caf016808000003000800000300c840", 322, 182,
			[2]uint16{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sps, err := hex.DecodeString(tt.sps)
			if err != nil {
				t.Fatal(err)
			}
			var c config
			parse := parseAVCSPS
			if sps[0] == 0x42 {
				parse = parseHEVCSPS
			}
			why := parse(&c, unescape(sps))
			if why != "" || c.width != tt.width || c.height != tt.height || c.shape != tt.shape {
				t.Errorf("%q, %dx%d, shape %v; want %dx%d, %v", why, c.width, c.height, c.shape,
					tt.width, tt.height, tt.shape)
			}
		})
	}
}

// bitWriter is the reference's writer, with one bit in each byte.
type bitWriter []byte

func (w *bitWriter) u(n int, v uint32) {
	for i := n - 1; i >= 0; i-- {
		*w = append(*w, byte(v>>i)&1)
	}
}

func (w *bitWriter) ue(v uint32) {
	n := 0
	for (v+1)>>n > 1 {
		n++
	}
	w.u(n, 0)
	w.u(n+1, v+1)
}

func (w *bitWriter) se(v int32) {
	if v > 0 {
		w.ue(uint32(2*v - 1))
	} else {
		w.ue(uint32(-2 * v))
	}
}

// nal packs the bits, and inserts emulation prevention bytes.
func (w bitWriter) nal() (out []byte) {
	for len(w)%8 != 0 {
		w = append(w, 1)
	}
	zeros := 0
	for i := 0; i < len(w); i += 8 {
		var b byte
		for _, bit := range w[i : i+8] {
			b = b<<1 | bit
		}
		if zeros >= 2 && b <= 3 {
			out, zeros = append(out, 3), 0
		}
		if out = append(out, b); b == 0 {
			zeros++
		} else {
			zeros = 0
		}
	}
	return out
}

// writeAVC writes a random parameter set for the given frame size.
func writeAVC(rnd *rand.Rand, width, height uint32) []byte {
	w := &bitWriter{}
	profile := []uint32{66, 77, 100, 122, 244}[rnd.IntN(5)]
	w.u(8, 0x67)
	w.u(8, profile)
	w.u(16, rnd.Uint32N(1<<16))
	w.ue(rnd.Uint32N(32))
	chroma, planes := uint32(1), uint32(0)
	if profile >= 100 {
		chroma = rnd.Uint32N(4)
		w.ue(chroma)
		if chroma == 3 {
			planes = rnd.Uint32N(2)
			w.u(1, planes)
		}
		w.ue(rnd.Uint32N(7))
		w.ue(rnd.Uint32N(7))
		w.u(1, 0)
		w.u(1, rnd.Uint32N(2))
		if (*w)[len(*w)-1] == 1 {
			writeScalingLists(w, rnd, chroma)
		}
	}
	w.ue(rnd.Uint32N(13))
	switch order := rnd.Uint32N(3); order {
	case 0:
		w.ue(0)
		w.ue(rnd.Uint32N(13))
	case 1:
		w.ue(1)
		w.u(1, 1)
		w.se(rnd.Int32N(1000) - 500)
		w.se(-7)
		n := rnd.Uint32N(5)
		w.ue(n)
		for range n {
			w.se(rnd.Int32N(1000) - 500)
		}
	case 2:
		w.ue(2)
	}
	w.ue(rnd.Uint32N(17))
	w.u(1, 0)
	writeAVCSize(w, rnd, width, height, chroma, planes == 1)
	return w.nal()
}

func writeScalingLists(w *bitWriter, rnd *rand.Rand, chroma uint32) {
	lists := 8
	if chroma == 3 {
		lists = 12
	}
	for i := range lists {
		if rnd.IntN(2) == 0 {
			w.u(1, 0)
			continue
		}
		w.u(1, 1)
		size := 16
		if i >= 6 {
			size = 64
		}
		if rnd.IntN(3) == 0 {
			w.se(-8) // the next value is 0: the remaining ones repeat the last
			continue
		}
		last := int32(8)
		for range size {
			next := 1 + rnd.Int32N(255)
			w.se((next-last+128)&0xff - 128)
			last = next
		}
	}
}

func writeAVCSize(w *bitWriter, rnd *rand.Rand, width, height, chroma uint32, planes bool) {
	fields := 1 + rnd.Uint32N(2)
	unitX, unitY := uint32(1), fields
	if !planes && (chroma == 1 || chroma == 2) {
		unitX = 2
	}
	if !planes && chroma == 1 {
		unitY = 2 * fields
	}
	across, down := (width+15)/16, (height+16*fields-1)/(16*fields)
	for (16*across-width)%unitX != 0 {
		across++
	}
	w.ue(across - 1)
	w.ue(down - 1)
	w.u(1, 2-fields)
	if fields == 2 {
		w.u(1, 0)
	}
	w.u(1, 1)
	right, bottom := (16*across-width)/unitX, (16*fields*down-height)/unitY
	w.u(1, 1)
	w.ue(right / 2)
	w.ue(right - right/2)
	w.ue(bottom / 2)
	w.ue(bottom - bottom/2)
	w.u(1, 0)
}

// writeHEVC does the same for HEVC.
func writeHEVC(rnd *rand.Rand, width, height uint32) []byte {
	w := &bitWriter{}
	w.u(16, 0x4201)
	w.u(4, 0)
	layers := rnd.Uint32N(7)
	w.u(3, layers)
	w.u(1, 1)
	for range 96 / 8 {
		w.u(8, rnd.Uint32N(256))
	}
	extra := 0
	for range layers {
		profile, level := rnd.Uint32N(2), rnd.Uint32N(2)
		w.u(1, profile)
		w.u(1, level)
		extra += int(88*profile + 8*level)
	}
	for i := layers; layers > 0 && i < 8; i++ {
		w.u(2, 0)
	}
	for range extra {
		w.u(1, rnd.Uint32N(2))
	}
	w.ue(rnd.Uint32N(16))
	chroma, planes := rnd.Uint32N(4), uint32(0)
	w.ue(chroma)
	if chroma == 3 {
		planes = rnd.Uint32N(2)
		w.u(1, planes)
	}
	unitX, unitY := uint32(1), uint32(1)
	if chroma == 1 || chroma == 2 {
		unitX = 2
	}
	if chroma == 1 {
		unitY = 2
	}
	left, top := rnd.Uint32N(5), rnd.Uint32N(5)
	w.ue(width + left*unitX)
	w.ue(height + top*unitY)
	w.u(1, 1)
	w.ue(left)
	w.ue(0)
	w.ue(0)
	w.ue(top)
	w.u(16, rnd.Uint32N(1<<16)) // any following bytes
	return w.nal()
}

func TestRandomParameterSets(t *testing.T) {
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		width, height := 4+4*rnd.Uint32N(2000), 4+4*rnd.Uint32N(2000)
		for name, f := range map[string]struct {
			write func(*rand.Rand, uint32, uint32) []byte
			parse func(*config, []byte) string
		}{"AVC": {writeAVC, parseAVCSPS}, "HEVC": {writeHEVC, parseHEVCSPS}} {
			nal := f.write(rnd, width, height)
			var c config
			why := f.parse(&c, unescape(nal))
			if why != "" || uint32(c.width) != width || uint32(c.height) != height {
				t.Fatalf("seed %d, %s %x: %q, %dx%d, want %dx%d", seed, name, nal, why, c.width,
					c.height, width, height)
			}
			for cut := range len(nal) - 2 { // must not panic
				f.parse(&config{}, nal[:cut])
			}
		}
	}
}

func TestAudioConfigs(t *testing.T) {
	for _, tt := range []struct {
		name, record string
		scale, step  uint32
		channels     uint16
	}{
		{"44.1 kHz stereo", "121056e500", 44100, 1024, 2},
		{"48 kHz 5.1", "11b056e500", 48000, 1024, 6},
		{"96 kHz 7.1", "103856e500", 96000, 1024, 8},
		{"two bytes", "1190", 48000, 1024, 2},
		{"960 samples a frame", "1194", 48000, 960, 2},
		{"SBR announced", "2b920800", 22050, 1024, 2},
		{"SBR announced, 24 kHz", "2b118800", 24000, 1024, 2},
		{"SBR announced, 960 samples a frame", "2b118a00", 24000, 960, 2},
		{"SBR and parametric stereo", "eb098800", 24000, 1024, 1},
		{"SBR announced behind the rest", "131056e598", 24000, 1024, 2},
		{"SBR not announced", "1310", 24000, 1024, 2},
		{"a rate in full", "1780562210", 44100, 1024, 2},
		{"low delay", "b990", 48000, 512, 2},
		{"enhanced low delay", "f8e640", 48000, 512, 2},
	} {
		record, err := hex.DecodeString(tt.record)
		if err != nil {
			t.Fatal(err)
		}
		c := config{record: record}
		if why := parseAAC(&c); why != "" || c.scale != tt.scale || c.step != tt.step ||
			c.channels != tt.channels {
			t.Errorf("%s: %q, %d Hz, %d a frame, %d channels", tt.name, why, c.scale, c.step,
				c.channels)
		}
	}
}

// Sizes that a file cannot contain are refused.
func TestImpossiblePictures(t *testing.T) {
	for name, size := range map[string][2]uint32{"too wide": {70_000, 16},
		"too high": {16, 70_000}} {
		nal := writeHEVC(rand.New(rand.NewPCG(1, 1)), size[0], size[1])
		if why := parseHEVCSPS(&config{}, unescape(nal)); why == "" {
			t.Errorf("%s: an impossible size was accepted", name)
		}
	}
	record := binary.BigEndian.AppendUint16([]byte{1, 100, 0, 13, 0xff, 0xe1}, 9)
	if why := parseAVC(&config{record: append(record, "\x67\x64"...)}); why == "" {
		t.Error("record cut short: taken")
	}
}
