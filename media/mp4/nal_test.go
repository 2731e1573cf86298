package mp4_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
)

// Empty NAL units are removed from frames. Frames at which decoders fail are left out.
func TestOddNALUnits(t *testing.T) {
	const sps, aud, sei, slice, empty = "\x00\x00\x00\x03\x67ab", "\x00\x00\x00\x02\x09\x10",
		"\x00\x00\x00\x02\x06x",
		"\x00\x00\x00\x04\x41abc", "\x00\x00\x00\x00"
	for _, tt := range []struct {
		name, frame, want string // want is "" for a frame that is left out
		leftOut           int64
	}{
		{"one", slice, slice, 0},
		{"several", aud + sei + slice + slice, aud + sei + slice + slice, 0},
		{"empty ones everywhere", empty + aud + empty + empty + slice + empty, aud + slice, 3},
		{"zeros at the end", slice + "\x00\x00", slice, 1},
		{"many zeros at the end", slice + strings.Repeat("\x00", 15), slice, 1},
		{"nothing but empty ones", empty + empty, "", 1},
		{"no part of a picture", aud + sps + sei, "", 1},
		{"start codes of 4 bytes", "\x00\x00\x00\x01\x67ab" + "\x00\x00\x00\x01\x41abcdef", "", 1},
		{"start codes of 3 bytes", "\x00\x00\x01\x67ab" + "\x00\x00\x01\x41abcdef", "", 1},
		{"a start code in front of lengths", "\x00\x00\x00\x01" + slice, "", 1},
		{"a length beyond the end", slice + "\x00\x00\x00\x05\x41abc", "", 1},
		{"a huge length", "\xff\xff\xff\xff\x41abc", "", 1},
		{"a length that is cut", slice + "\x00\x00\x01", "", 1},
		{"one byte", "\x41", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.tag(video, 0, avcHeader(avc640x360))
			r.tag(video, 0, avcKey("K"))
			r.tag(video, 40, "\x27\x01\x00\x00\x00"+tt.frame)
			r.tag(video, 80, avcDelta(0, "P"))
			r.flush()
			got := r.packets(0)
			want := []string{"K", "P"}
			if tt.want != "" {
				want = []string{"K", unitData(tt.want), "P"}
			}
			if len(got) != len(want) {
				t.Fatalf("%v, want %q", got, want)
			}
			for i := range want {
				if got[i].data != want[i] {
					t.Errorf("frame %d is %q, want %q", i, got[i].data, want[i])
				}
			}
			if n := r.m.LeftOut(); (n > 0) != (tt.leftOut > 0) {
				t.Errorf("%d left out, want some: %v", n, tt.leftOut > 0)
			}
		})
	}
}

// Audio continues without the frames, and video continues at the next keyframe.
func TestKeyFramesThatAreLeftOut(t *testing.T) {
	r := newRig(t)
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac48000))
	r.tag(video, 0, "\x17\x01\x00\x00\x00\x00\x00\x00\x01\x65Annex B")
	r.tag(video, 40, avcDelta(0, "refers to it"))
	for i := range 5 {
		r.tag(audio, uint32(21*i), aacFrame("a"))
	}
	r.tag(video, 80, avcKey("K"))
	r.tag(video, 120, avcDelta(0, "P"))
	r.flush()
	var frames []string
	for _, p := range r.packets(0) {
		frames = append(frames, p.data)
	}
	slices.Sort(frames)
	if got := strings.Join(frames, " "); got != "K P a a a a a" {
		t.Errorf("the frames are %s, want K P a a a a a", got)
	}
}

// While all video is damaged, the init segment has only audio.
func TestInitWithoutDamagedVideo(t *testing.T) {
	const annexB, empty, beyond = "\x00\x00\x00\x01\x65abc", "", "\x00\x00\x00\x09\x65abc"
	head := map[string]string{"avc": avcHeader(avc640x360), "hevc": "\x90hvc1" + hevc322x182}
	frame := map[string]string{"avc": "\x17\x01\x00\x00\x00", "hevc": "\x91hvc1\x00\x00\x00"}
	const both, alone = "vide soun", "soun"
	for _, codec := range []string{"avc", "hevc"} {
		for _, damage := range []string{annexB, empty, beyond} {
			for _, tt := range []struct {
				name    string
				damaged func(second int) bool
				want    []string // the tracks of the init segments
			}{
				{"always", func(int) bool { return true }, []string{alone}},
				{"never", func(int) bool { return false }, []string{both}},
				{"at first", func(s int) bool { return s < 3 }, []string{alone, both}},
				{"for a moment at first", func(s int) bool { return s < 1 }, []string{both}},
				{"later", func(s int) bool { return s > 3 }, []string{both, alone}},
				{"for a moment", func(s int) bool { return s > 3 && s < 12 }, []string{both}},
				{"for long", func(s int) bool { return s > 3 && s < 20 },
					[]string{both, alone, both}},
				{"now and then", func(s int) bool { return s%5 > 0 }, []string{both}},
			} {
				r := newRig(t, mp4.Tracks(true, true))
				r.tag(video, 0, head[codec])
				r.tag(audio, 0, aacHeader(aac48000))
				for i := range 25 * 40 {
					ms := uint32(25 * i)
					if i%40 == 0 {
						data := unit("K")
						if tt.damaged(i / 40) {
							data = damage
						}
						r.tag(video, ms, frame[codec]+data)
					} else if i%2 == 0 && codec == "avc" {
						r.tag(video, ms, avcDelta(0, "P"))
					}
					r.tag(audio, ms, aacFrame("a"))
				}
				r.flush()
				var got []string
				for _, init := range r.inits {
					var tracks []string
					for _, tr := range readInit(init) {
						tracks = append(tracks, tr.handler)
					}
					got = append(got, strings.Join(tracks, " "))
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s, %q damaged %s: init segments of %q, want %q", codec, damage,
						tt.name, got, tt.want)
				}
				count, init := 0, -1
				for i, f := range r.fragments {
					if f.NewInit {
						init++
					}
					movie, err := mp4.ReadMovie(r.inits[init])
					if err != nil {
						t.Fatal(err)
					}
					for data := r.bytes[i]; len(data) > 0; { // one flush may write several fragments
						info, _, err := movie.ReadFragment(data)
						if err != nil {
							t.Fatal(err)
						}
						count += info.Sounds
						data = data[info.Size:]
					}
					if movie.Video == false && !f.Key {
						t.Errorf("%s, %q damaged %s: fragment %d of audio alone is no place to begin", codec, damage, tt.name, i)
					}
				}
				if count != 25*40 {
					t.Errorf("%s, %q damaged %s: %d frames of audio, want %d", codec, damage,
						tt.name, count, 25*40)
				}
				if n := r.m.LeftOut(); (n > 0) != (tt.name != "never") {
					t.Errorf("%s, %q damaged %s: %d left out", codec, damage, tt.name, n)
				}
			}
		}
	}
}

// Lengths of 1, 2 and 4 bytes, in blocks that are cut anywhere, are read as a simple parser reads
// them.
func TestNALUnitsAgainstASimpleParser(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := []int{1, 2, 4}[rnd.IntN(3)]
		record := []byte(avc640x360)
		record[4] = record[4]&^3 | byte(size-1)
		var frame []byte
		for range rnd.IntN(6) {
			n := rnd.IntN(5)
			for i := size - 1; i >= 0; i-- {
				frame = append(frame, byte(n>>(8*i)))
			}
			for range n {
				frame = append(frame, byte(rnd.IntN(32)))
			}
		}
		if rnd.IntN(3) == 0 && len(frame) > 0 {
			frame = frame[:rnd.IntN(len(frame))]
		}
		want, ok := simpleUnits(frame, size)
		m := mp4.NewMuxer()
		var dst millrace.Chain
		feed := func(at uint32, data string) {
			tag, c := makeTag(t, video, at, data)
			var pieces millrace.Chain
			for c.Len() > 0 { // each piece in a separate block
				var piece millrace.Chain
				c.CutTo(&piece, min(c.Len(), 1+rnd.IntN(7)))
				d := millrace.DefaultPool().Get(piece.Len())
				r := d.Freeze(piece.CopyTo(d.Bytes()))
				pieces.Append(&r)
				piece.Release()
			}
			if _, err := m.WriteTag(&dst, tag, &pieces); err != nil {
				t.Fatal(err)
			}
		}
		feed(0, avcHeader(string(record)))
		if len(frame) == 0 {
			m.Release()
			continue
		}
		feed(0, "\x17\x01\x00\x00\x00"+string(frame))
		f := m.Flush(&dst)
		if (f.Samples > 0) != ok {
			t.Fatalf("lengths of %d in %x: %d frames, want one: %v", size, frame, f.Samples, ok)
		}
		if ok && !bytes.HasSuffix(dst.Bytes(), append([]byte("mdat"), want...)) {
			t.Fatalf("lengths of %d in %x: %x, want %x", size, frame, dst.Bytes(), want)
		}
		dst.Release()
		m.Release()
	}
}

// simpleUnits returns the NAL units of a frame without the empty ones. ok is false if decoders fail
// at the frame.
func simpleUnits(frame []byte, size int) (out []byte, ok bool) {
	for len(frame) >= size {
		n := 0
		for _, b := range frame[:size] {
			n = n<<8 | int(b)
		}
		if n > len(frame)-size {
			return nil, false
		}
		if n > 0 {
			out = append(out, frame[:size+n]...)
			kind := frame[size] & 31
			ok = ok || kind >= 1 && kind <= 5
		}
		frame = frame[size+n:]
	}
	return out, ok && len(bytes.Trim(frame, "\x00")) == 0
}
