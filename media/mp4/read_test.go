package mp4_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
)

func TestReadMovie(t *testing.T) {
	for _, tt := range []struct{ tags, codecs, size string }{
		{"avc mp4a K0 a0 K40 K80 K120", "avc1.4d401f,mp4a.40.2", "640x360"},
		{"avc K0 K40", "avc1.4d401f", "640x360"},
		{"avc7:5 K0 K40", "avc1.64000d", "450x182"}, // displayed size
		{"aac44 a0x6", "mp4a.40.2", "0x0"},
		{"hvc1 hvc1:K hvc1:P hvc1:P", "hvc1.1.6.L60.90", "322x182"},
	} {
		r := newRig(t)
		r.play(tt.tags)
		r.flush()
		m, err := mp4.ReadMovie(r.init())
		if err != nil {
			t.Fatal(tt.tags, err)
		}
		if !strings.HasPrefix(m.Codecs, tt.codecs) ||
			fmt.Sprintf("%dx%d", m.Width, m.Height) != tt.size ||
			m.Video != (tt.size != "0x0") || m.Audio != strings.Contains(m.Codecs, "mp4a") {
			t.Errorf("%s: %+v, want codecs %s and size %s", tt.tags, m, tt.codecs, tt.size)
		}
	}
}

// A box without content, the shortest that can be, is skipped.
func TestReadMovieWithAnEmptyBox(t *testing.T) {
	r := newRig(t)
	r.play("avc aac48 K0 a0 P40 P80")
	init := r.init()
	want, err := mp4.ReadMovie(init)
	if err != nil {
		t.Fatal(err)
	}
	moov := init[binary.BigEndian.Uint32(init):]
	for _, box := range []string{"\x00\x00\x00\x08free", "\x00\x00\x00\x09free-"} {
		binary.BigEndian.PutUint32(moov, uint32(len(moov)+len(box)))
		got, err := mp4.ReadMovie(append(bytes.Clone(init), box...))
		if !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("with %q: %+v, %v, want %+v", box, got, err, want)
		}
	}
}

// A parsed fragment equals the muxer's description, and the reference reader's.
func TestReadFragment(t *testing.T) {
	for _, tags := range []string{
		"avc aac48 K0 a0 a21 P40+80 a43 a64 P80 K120 a120 P160",
		"avc K0 P40 P80 K5000 P5040",
		"aac44 a0x60",
		"avc aac48 K0 P40 a40x60 K2000 P2040",
	} {
		r := newRig(t)
		r.play(tags)
		r.flush()
		m, err := mp4.ReadMovie(r.init())
		if err != nil {
			t.Fatal(err)
		}
		scales := map[uint32]int64{}
		for _, tr := range readInit(r.init()) {
			scales[tr.id] = int64(tr.scale)
		}
		all := bytes.Join(r.bytes, nil)
		for i := 0; len(all) > 0; i++ {
			info, need, err := m.ReadFragment(all)
			if err != nil || need != 0 || info.Size > len(all) || info.Sequence != uint32(i+1) {
				t.Fatalf("%s: fragment %d: %+v, need %d, %v", tags, i, info, need, err)
			}
			b := all[:info.Size]
			track := uint32(2)
			if info.Pictures > 0 {
				track = 1
			}
			list := ofTrack(track, readFragments(b))
			if info.Pictures > 0 && info.Pictures != len(list) {
				t.Errorf("%s: fragment %d: %d video frames, want %d", tags, i, info.Pictures,
					len(list))
			}
			if info.Pictures > 0 && info.Key != list[0].key {
				t.Errorf("%s: fragment %d: key %v", tags, i, info.Key)
			}
			last := list[len(list)-1]
			start := time.Duration(list[0].dts) * time.Second / time.Duration(scales[track])
			end := time.Duration(
				last.dts+int64(last.duration)) * time.Second / time.Duration(scales[track])
			if info.Start != start || info.End != end {
				t.Errorf("%s: fragment %d: %v to %v, want %v to %v", tags, i, info.Start, info.End,
					start, end)
			}
			// If the head is incomplete, ReadFragment returns how many bytes it needs, and those
			// bytes are enough.
			for n := 0; n < info.Head; n++ {
				_, need, err := m.ReadFragment(all[:n])
				if err != nil || need <= n || need > info.Head {
					t.Fatalf("%d bytes: need %d, %v", n, need, err)
				}
			}
			all = all[info.Size:]
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = m.ReadFragment(r.bytes[0]) }); n > 0 {
			t.Errorf("%v allocations, want 0", n)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	r := newRig(t)
	r.play("avc aac48 K0 a0 P40 P80")
	init, fragment := r.init(), r.bytes[0]
	for i := range init {
		if m, err := mp4.ReadMovie(init[:i]); err == nil {
			t.Fatalf("%d bytes of an init segment: %+v", i, m)
		}
	}
	m, err := mp4.ReadMovie(init)
	if err != nil {
		t.Fatal(err)
	}
	info, _, _ := m.ReadFragment(fragment)
	for _, tt := range []struct {
		at int
		b  string
	}{
		{0, "\x7f"}, {3, "\x07"}, {4, "free"}, {info.Head - 4, "free"},
		{info.Head - 8, "\x00\x00\x00\x07"},
		{8, "\x7f"}, {24, "\x00\x00\x00\x00"}, {24, "\x00\x00\x00\x09"}, {28, "free"},
	} {
		b := bytes.Clone(fragment)
		copy(b[tt.at:], tt.b)
		if f, need, err := m.ReadFragment(b); err == nil {
			t.Errorf("%q at %d: %+v, need %d", tt.b, tt.at, f, need)
		}
	}
}

// A Timeline is as long as the video, or as the audio if it continues alone, in any order.
func TestTimeline(t *testing.T) {
	for _, tt := range []struct {
		name, tags string
		want       time.Duration // in ms, from 0
	}{
		{"in step", "avc aac48 K0 a0 a21 P40 a43 a64 P80 a85 a107 P120", 120},
		{"audio late", "avc aac48 K0 P40 P80 P120 P160 P200 a0x9 P240 P280", 280},
		{"audio early", "avc aac48 K0 a0x12 P40 P80 P120 P160 P200 P240 P280", 280},
		{"slides", "avc aac48 K0 a0x94 K2000 a2000x94 K4000 a4000x94", 6000},
		{"audio late and slides", "avc aac48 K0 a0x24 K2000 a500x94 K4000 a2500x94 K6000", 8000},
		{"audio 12 s ahead", "avc aac48 K0 a12000x2 P40 a12043x2 P80 a12085x2 P120 a12128x2 P160",
			160},
		{"audio alone", "aac48 a0x60", 1280},
	} {
		r := newRig(t)
		r.play(tt.tags)
		r.flush()
		m, err := mp4.ReadMovie(r.init())
		if err != nil {
			t.Fatal(err)
		}
		var line mp4.Timeline
		at := time.Duration(0)
		all := bytes.Join(r.bytes, nil)
		for i := 0; len(all) > 0; i++ {
			f, _, err := m.ReadFragment(all)
			if err != nil {
				t.Fatal(err)
			}
			all = all[f.Size:]
			from, to := line.Add(f)
			if i == 0 {
				at = from
			}
			if from != at || to < from || line.End() != to {
				t.Errorf("%s: fragment %d from %v to %v, after %v", tt.name, i, from, to, at)
			}
			at = to
		}
		if off := at - tt.want*time.Millisecond; off < -45*time.Millisecond ||
			off > 45*time.Millisecond {
			t.Errorf("%s: %v, want %v", tt.name, at, tt.want*time.Millisecond)
		}
	}
}

// AppendEarlier shifts the times of both tracks, copies only the head, and hides a track that would
// begin before 0.
func TestAppendEarlier(t *testing.T) {
	r := newRig(t)
	r.play("avc aac48 K3600000 a3599990 a3600011 P3600040 a3600033 P3600080 P3600120")
	r.flush()
	m, err := mp4.ReadMovie(r.init())
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{0, time.Second, 3_599_990 * time.Millisecond, time.Hour} {
		for i, b := range r.bytes {
			var src, dst millrace.Chain
			src.AppendCopy(b)
			src.AppendCopy([]byte("next"))
			f, _, err := m.ReadFragment(b)
			if err != nil {
				t.Fatal(err)
			}
			hidden := m.AppendEarlier(&dst, &src, f, by)
			if string(src.Bytes()) != "next" {
				t.Errorf("%d bytes are left", src.Len())
			}
			want := readFragments(b)
			for i := range want {
				want[i].dts -= int64(by/time.Millisecond) * map[uint32]int64{1: 1,
					2: 48}[want[i].track]
				want[i].pts -= int64(by/time.Millisecond) * map[uint32]int64{1: 1,
					2: 48}[want[i].track]
			}
			if audio := ofTrack(2, want); len(audio) > 0 && audio[0].dts < 0 {
				got, _, err := m.ReadFragment(dst.Bytes())
				if err != nil || got.Pictures != f.Pictures || got.Sounds != 0 ||
					got.Start != f.Start-by || got.Size != f.Size || hidden != f.Sounds {
					t.Errorf("fragment %d, %v earlier: %+v, %v, %d hidden", i, by, got, err, hidden)
				}
			} else if got := readFragments(dst.Bytes()); !reflect.DeepEqual(got, want) || hidden != 0 {
				t.Errorf("fragment %d, %v earlier: %v, %d hidden, want %v", i, by, got, hidden, want)
			}
			src.Release()
			dst.Release()
		}
	}
}

// FuzzRead reads any bytes as an init segment, and as a fragment of a real one. It checks for
// panics and impossible sizes.
func FuzzRead(f *testing.F) {
	r := newRig(f)
	r.play("avc aac48 K0 a0 P40 P80")
	init := r.init()
	f.Add(init)
	for _, b := range r.bytes {
		f.Add(b)
	}
	m, err := mp4.ReadMovie(init)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if movie, err := mp4.ReadMovie(b); err == nil && movie.Codecs == "" {
			t.Errorf("%+v has no codecs and was accepted", movie)
		}
		info, need, err := m.ReadFragment(b)
		if err == nil && need == 0 && (info.Head > len(b) || info.Size < info.Head ||
			info.End < info.Start) || need > 0 && need <= len(b) {
			t.Errorf("%d bytes: %+v, need %d", len(b), info, need)
		}
	})
}
