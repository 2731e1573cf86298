package mp4_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// A shot is a frame of an encoder, with the times at which it was made and arrives, and its
// timestamp, in ms.
type shot struct {
	kind         flv.Type
	made, ts, at float64
	stray        bool
}

// An encoder lists the possible oddities of an encoder.
type encoder struct {
	step         float64 // ms between video frames
	jitter       [2]float64
	together     int // audio frames that share a timestamp
	late         float64
	strays       int // odd timestamps in each track
	pauses       int
	audio, video bool
	base         uint32
}

func randomEncoder(rng *rand.Rand) encoder {
	pick := func(list ...float64) float64 { return list[rng.IntN(len(list))] }
	e := encoder{
		step:   pick(1000./60, 1000./30, 1001./24, 40, 1000./15, 1000./7, 500, 2000),
		jitter: [2]float64{pick(0, 0, 1, 5), pick(0, 0, 3, 15)}, together: 1 + rng.IntN(4),
		late: pick(0, 0, 90, 250, 1000), strays: rng.IntN(4), pauses: rng.IntN(3),
		audio: true, video: true, base: rng.Uint32(),
	}
	switch rng.IntN(5) {
	case 0:
		e.audio = false
	case 1:
		e.video = false
	}
	return e
}

// shots returns a minute of frames in the order of arrival.
func (e *encoder) shots(rng *rand.Rand) (all []shot) {
	const length = 60_000.
	var pauses []float64 // times and lengths of the publisher's pauses
	for range e.pauses {
		pauses = append(pauses, 5000+rng.Float64()*50_000, 500+rng.Float64()*20_000)
	}
	passed := func(ms float64) (moved float64) { // passed adds the pauses before a time.
		for i := 0; i < len(pauses); i += 2 {
			if ms >= pauses[i] {
				moved += pauses[i+1]
			}
		}
		return ms + moved
	}
	track := func(kind flv.Type, step, jitter, late float64, together int) {
		n := int(length / step)
		odd := map[int]float64{}
		for range min(e.strays, n/15) {
			by := 500 + 59_500*rng.Float64()
			if rng.IntN(2) == 0 {
				by = -by
			}
			odd[10+rng.IntN(n/12)*10] = by
		}
		for i := range n {
			s := shot{kind: kind, made: passed(float64(i) * step)}
			s.ts = passed(float64(i-i%together) * step)
			if s.made-s.ts > float64(together)*step {
				s.ts = s.made // with a pause between the two
			}
			if jitter > 0 {
				s.ts += rng.Float64() * jitter
			}
			// During a pause, no exact time is expected.
			near := passed(float64(i+4)*step)-passed(float64(i-4)*step) > 8*step+1
			if by, ok := odd[i]; ok && !near {
				s.ts, s.stray = s.ts+by, true
			}
			if s.at = s.made; late > 0 {
				s.at = float64(int(s.at/late)+1) * late
			}
			all = append(all, s)
		}
	}
	if e.video {
		track(video, e.step, e.jitter[0], 0, 1)
	}
	if e.audio {
		track(audio, 1024./48, e.jitter[1], e.late, e.together)
	}
	slices.SortStableFunc(all, func(a, b shot) int { return cmp.Compare(a.at, b.at) })
	return all
}

// For every oddity of an encoder, video frames are at their real times and last until the next one.
// Audio frames are near their times and last as long as their samples.
func TestClockAgainstTheTruth(t *testing.T) {
	const frame = 1024. / 48
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		e := randomEncoder(rng)
		shots := e.shots(rng)
		begin := time.Unix(1_000_000, 0)
		now := begin
		r := newRig(t, mp4.Clock(func() time.Time { return now }))
		if e.video {
			r.tag(video, 0, avcHeader(avc640x360))
		}
		if e.audio {
			r.tag(audio, 0, aacHeader(aac48000))
		}
		picture, pictureData := makeTag(t, video, 0, avcKey("v"))
		sound, soundData := makeTag(t, audio, 0, aacFrame("a"))
		tracks := map[flv.Type][]shot{}
		for _, s := range shots {
			tracks[s.kind] = append(tracks[s.kind], s)
			now = begin.Add(time.Duration(s.at * 1e6))
			tag, data := picture, &pictureData
			if s.kind == audio {
				tag, data = sound, &soundData
			}
			tag.Timestamp = e.base + uint32(int64(s.ts+100_000))
			var c millrace.Chain
			data.CloneTo(&c)
			if err := r.write(tag, &c); err != nil {
				t.Fatal(err)
			}
		}
		pictureData.Release()
		soundData.Release()
		r.flush()
		packets := readFragments(bytes.Join(r.bytes, nil))
		fail := func(format string, args ...any) {
			t.Fatalf("seed %d, %+v: %s", seed, e, fmt.Sprintf(format, args...))
		}
		zero := float64(0) // the stream's time at the start
		for id, kind := range []flv.Type{video, audio} {
			list := ofTrack(uint32(id+1), packets)
			if len(list) != len(tracks[kind]) {
				fail("%d packets of %d", len(list), len(tracks[kind]))
			}
			scale := map[flv.Type]float64{video: 1, audio: 48}[kind]
			odd := 0
			for i, p := range list {
				s := tracks[kind][i]
				at := float64(p.dts) / scale
				if i == 0 && zero == 0 {
					zero = at - s.made
				}
				off := at - zero - s.made
				may := e.jitter[0] + 2
				if kind == audio {
					may = 2*frame + e.jitter[1] + float64(e.together)*frame + 2
					if i > 0 && list[i-1].duration != 1024 {
						odd++
					}
				} else if s.stray {
					may += e.step
				}
				if off < -may || off > may {
					fail("%v frame %d, made at %.1f and stamped %.1f, is at %.1f", kind, i, s.made,
						s.ts, s.made+off)
				}
				if i > 0 && kind == video && p.dts != list[i-1].dts+int64(list[i-1].duration) {
					fail("video frame %d does not last until the next one", i-1)
				}
			}
			if kind == audio && odd > e.pauses+2 {
				fail("%d audio frames of another length", odd)
			}
		}
	}
}
