package mp4_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// Consecutive frames with odd times are ignored if the times return to the old clock, however often
// that happens, in video, in audio, or in both. The stream then has its real length, and each frame
// is near its time. If the clock jumps and stays there, there is no gap either, if no time has
// passed.
func TestOddFramesInARow(t *testing.T) {
	type odd struct {
		name  string
		kinds []flv.Type
		ts    func(i int, made float64) float64 // timestamp of frame i of the track, made at the given time
	}
	both := []flv.Type{video, audio}
	list := []odd{
		{"keyframes", both[:1], func(i int, made float64) float64 {
			if i%50 == 0 && i > 0 {
				return made + 5000
			}
			return made
		}},
		{"the first frame", both, func(i int, made float64) float64 {
			if i == 0 {
				return made + 5000
			}
			return made
		}},
	}
	for _, kinds := range [][]flv.Type{both[:1], both[1:], both} {
		for _, by := range []float64{5000, 20_000, 600, -5000, -20_000, -600} {
			for _, run := range []int{1, 2, 3, 5, 10, 20} {
				name := fmt.Sprintf("%d by %g ms every 3 s", run, by)
				list = append(list, odd{name, kinds, func(i int, made float64) float64 {
					every := 75
					if len(kinds) == 1 && kinds[0] == audio {
						every = 140
					}
					if i%every >= every-run {
						return made + by
					}
					return made
				}})
			}
			jump := fmt.Sprintf("a jump of %g ms that stays", by)
			list = append(list, odd{jump, kinds, func(_ int, made float64) float64 {
				if made >= 10_000 {
					return made + by
				}
				return made
			}}, odd{jump + " for 5 s", kinds, func(_ int, made float64) float64 {
				if made >= 10_000 && made < 15_000 {
					return made + by
				}
				return made
			}})
		}
	}
	const length, base = 25_000, 100_000
	const aac = 1024. / 48
	for _, e := range []struct {
		name         string
		video, audio float64 // ms between frames; 0 without the track
		late         float64 // frames of so many ms arrive together at their end
	}{
		{"25 a second", 40, aac, 0},
		{"60 a second", 1000. / 60, aac, 0},
		{"12 a second", 1000. / 12, aac, 0},
		{"video alone", 40, 0, 0},
		{"audio alone", 0, aac, 0},
		{"all of 200 ms at once", 40, aac, 200},
	} {
		for _, o := range list {
			t.Run(fmt.Sprint(e.name, o.kinds, o.name), func(t *testing.T) {
				var shots []shot
				for kind, step := range map[flv.Type]float64{video: e.video, audio: e.audio} {
					for i := 0; step > 0 && float64(i)*step < length; i++ {
						s := shot{kind: kind, made: float64(i) * step}
						if s.ts, s.at = s.made, s.made; e.late > 0 {
							s.at = (math.Floor(s.made/e.late) + 1) * e.late
						}
						if slices.Contains(o.kinds, kind) {
							s.ts = o.ts(i, s.made)
						}
						shots = append(shots, s)
					}
				}
				slices.SortStableFunc(shots, func(a, b shot) int {
					return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.made, b.made),
						cmp.Compare(b.kind, a.kind))
				})
				begin := time.Unix(1_000_000, 0)
				now := begin
				r := newRig(t, mp4.Clock(func() time.Time { return now }))
				if e.video > 0 {
					r.tag(video, 0, avcHeader(avc640x360))
				}
				if e.audio > 0 {
					r.tag(audio, 0, aacHeader(aac48000))
				}
				tags := map[flv.Type]flv.Tag{}
				datas := map[flv.Type]*millrace.Chain{}
				for kind, data := range map[flv.Type]string{video: avcKey("v"),
					audio: aacFrame("a")} {
					tag, c := makeTag(t, kind, 0, data)
					tags[kind], datas[kind] = tag, &c
					defer c.Release()
				}
				waits := time.Duration(0) // the longest time without a fragment
				seen, came := 0, begin
				for _, s := range shots {
					now = begin.Add(time.Duration(s.at * 1e6))
					tag := tags[s.kind]
					tag.Timestamp = base + uint32(int64(s.ts))
					var c millrace.Chain
					datas[s.kind].CloneTo(&c)
					if err := r.write(tag, &c); err != nil {
						t.Fatal(err)
					}
					if waits = max(waits, now.Sub(came)); len(r.fragments) > seen {
						seen, came = len(r.fragments), now
					}
				}
				r.flush()
				if waits > 1200*time.Millisecond {
					t.Errorf("no fragment for %v", waits)
				}
				packets := readFragments(bytes.Join(r.bytes, nil))
				made := map[flv.Type][]float64{}
				for _, s := range shots {
					made[s.kind] = append(made[s.kind], s.made)
				}
				for id, kind := range []flv.Type{video, audio} {
					list := ofTrack(uint32(id+1), packets)
					if len(list) != len(made[kind]) {
						t.Fatalf("%d frames of %v of %d", len(list), kind, len(made[kind]))
					}
					scale, may := 1., 2*e.video
					if kind == audio {
						scale, may = 48, 110
					}
					if e.video == 0 {
						scale = 48
					}
					for i, p := range list {
						if off := float64(p.dts)/scale - base - made[kind][i]; off < -may ||
							off > may {
							at := made[kind][i]
							t.Fatalf("%v frame %d, made at %.0f, is at %.0f", kind, i, at, at+off)
						}
						if kind == video && i > 0 && list[i-1].duration < 10 {
							t.Fatalf("video frame %d lasts %d ms", i-1, list[i-1].duration)
						}
					}
				}
			})
		}
	}
}

// Odd frames at the beginning of one track do not separate audio and video.
func TestFirstFramesAreOdd(t *testing.T) {
	for _, odd := range []flv.Type{video, audio} {
		for _, by := range []int64{5000, -5000, 50_000, 1_000_000, -90_000} {
			for _, from := range []int{0, 1} {
				for _, n := range []int{1, 2, 3, 5, 10} {
					if from+n > 3 && from == 1 {
						continue // the first frame is odd by definition
					}
					frames := trace(t, "v100000x250 a100000x470")
					slices.SortStableFunc(frames, func(a, b mark) int { return int(a.ms - b.ms) })
					in, seen := slices.Clone(frames), 0
					for i := range in {
						if in[i].kind != odd {
							continue
						}
						if seen >= from && seen < from+n {
							in[i].ms += by
						}
						seen++
					}
					out := placed(t, in)
					last := map[flv.Type]int64{}
					for i, m := range out {
						last[m.kind] = m.ms - frames[i].ms
					}
					if apart := last[video] - last[audio]; apart < -100 || apart > 100 {
						t.Errorf("%v frames %d to %d are off by %d ms: the tracks are %d ms apart",
							odd, from, from+n-1, by, apart)
					}
				}
			}
		}
	}
}

// If a clock steps back by less than a jump, video frames become shorter for a while, but not so
// short that they are not shown.
func TestClockStepsBack(t *testing.T) {
	for _, by := range []int64{20, 40, 60, 100, 200, 300, 499, 500} {
		for _, step := range []int64{17, 33, 40, 100} {
			for _, stays := range []int64{1, 3, 1 << 30} {
				var in []mark
				for i := range int64(200) {
					at := 1000 + i*step
					if i >= 100 && i < 100+stays {
						at -= by
					}
					in = append(in, mark{video, at})
				}
				out := placed(t, in)
				late := 0
				for i := 1; i < len(out); i++ {
					switch lasts := out[i].ms - out[i-1].ms; {
					case lasts < step/3 || lasts > step+min(by, max(step, stays*step))+1:
						t.Fatalf("back by %d ms for %d frames of %d ms: frame %d lasts %d ms",
							by, stays, step, i-1, lasts)
					case out[i].ms > in[i].ms:
						late++
					}
				}
				if most := 2*int(by/step) + int(min(stays, by/step)) + 4; late > most {
					t.Errorf("back by %d ms for %d frames of %d ms: %d frames are late, want %d at most",
						by, stays, step, late, most)
				}
			}
		}
	}
}

// If video is late, audio is sent without it, in short fragments. This includes audio that has
// waited. Parts as long as those with video can therefore be cut.
func TestAudioInPlaceOfVideoLeavesInShortFragments(t *testing.T) {
	r := newRig(t, mp4.Tracks(true, true))
	r.tag(video, 0, avcHeader(avc640x360))
	r.tag(audio, 0, aacHeader(aac48000))
	for i := range 150 {
		r.tag(audio, uint32(i*1024/48), aacFrame("a"))
	}
	r.flush()
	movie, err := mp4.ReadMovie(r.inits[0])
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for i := range r.fragments {
		for data := r.bytes[i]; len(data) > 0; {
			info, _, err := movie.ReadFragment(data)
			if err != nil {
				t.Fatal(err)
			}
			if info.Sounds > 2 {
				t.Errorf("a fragment of %d frames after %d", info.Sounds, count)
			}
			count += info.Sounds
			data = data[info.Size:]
		}
	}
	if count != 150 {
		t.Errorf("%d frames, want 150", count)
	}
}
