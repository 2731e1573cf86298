package mp4_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
)

// An arrival is a tag of a publisher that restarts repeatedly.
type arrival struct {
	mark
	when  int64 // ms of the wall clock
	round int
}

// publish makes the tags of some rounds in the order of arrival, and returns the length of each
// round. Audio and video may differ by any distance in time, and by up to a tenth of a second in
// arrival.
func publish(rng *rand.Rand) (tags []arrival, lengths []int64) {
	period := []int64{17, 40, 100}[rng.IntN(3)]
	apart, lag := rng.Int64N(30_000)-15_000, rng.Int64N(200)-100
	if rng.IntN(2) == 0 {
		apart = 0
	}
	base, now := int64(20_000)+rng.Int64N(1_000_000), int64(0)
	for round := range 2 + rng.IntN(3) {
		length := 1500 + rng.Int64N(3000)
		pictures, sounds := length-rng.Int64N(150), length-rng.Int64N(150)
		for at := int64(0); at < pictures; at += period {
			tags = append(tags, arrival{mark{video, base + at}, now + at, round})
		}
		begin := rng.Int64N(60)
		for i := int64(0); begin+i*64/3 < sounds; i++ {
			at := begin + i*64/3
			tags = append(tags, arrival{mark{audio, base + apart + at}, now + at + lag, round})
		}
		lengths, now = append(lengths, length), now+length
		if rng.IntN(3) == 0 {
			base += length + 62_000 + rng.Int64N(1_000_000)
		} else {
			base = max(base+length-2000-rng.Int64N(base), 0)
			base = max(base, -apart)
		}
	}
	slices.SortStableFunc(tags, func(a, b arrival) int { return int(a.when - b.when) })
	return tags, lengths
}

// A publisher's rounds, of any kind, follow each other. In each round, once both tracks have begun,
// all video frames have the same distance from their FLV time. Audio frames have the same distance,
// within two frames.
func TestRoundsFollowOneAnother(t *testing.T) {
	const settles = 9 // audio or video frames at the beginning of a round
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		in, lengths := publish(rng)
		var marks []mark
		for _, a := range in {
			marks = append(marks, a.mark)
		}
		out := placed(t, marks)
		seen := map[int]map[flv.Type]int{} // frames of a round
		shift := map[int]int64{}           // from the FLV time of video to the stream's time, by round
		first, last := map[flv.Type]int64{}, map[flv.Type]int64{}
		for i, a := range in {
			if _, ok := first[a.kind]; !ok {
				first[a.kind] = out[i].ms
			}
			last[a.kind] = out[i].ms
			if seen[a.round] == nil {
				seen[a.round] = map[flv.Type]int{}
			}
			seen[a.round][a.kind]++
			if min(seen[a.round][video], seen[a.round][audio]) < settles {
				continue
			}
			by := out[i].ms - a.ms
			if _, ok := shift[a.round]; !ok && a.kind == video {
				shift[a.round] = by
			}
			may := map[flv.Type]int64{video: 0, audio: 45}[a.kind]
			if off, ok := shift[a.round]; ok && (by-off < -may || by-off > may) {
				t.Fatalf("seed %d: tag %d, %v of round %d, is at %v: moved by %d ms, not by %d",
					seed, i, a.mark, a.round, out[i],
					by, off)
			}
		}
		total := int64(0)
		for _, n := range lengths {
			total += n
		}
		for kind := range last {
			if got, slack := last[kind]-first[kind], int64(300*len(lengths)); got < total-slack ||
				got > total+slack {
				t.Errorf("seed %d: %v takes %d ms, and its rounds %v, %d ms", seed, kind, got,
					lengths, total)
			}
		}
	}
}

// Nonsensical times still result in consecutive samples.
func TestWildTimes(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 2))
		now := map[flv.Type]int64{video: rng.Int64N(1 << 32), audio: rng.Int64N(1 << 32)}
		var in []mark
		for range 300 {
			kind := video
			if rng.IntN(2) == 0 {
				kind = audio
			}
			switch step := rng.Int64N(1 << rng.IntN(18)); rng.IntN(8) {
			case 0:
				now[kind] -= step
			case 1:
				now[kind] = now[video+audio-kind]
			case 2:
				now[kind] += step << rng.IntN(15)
			default:
				now[kind] += step & 63
			}
			in = append(in, mark{kind, now[kind]})
		}
		placed(t, in)
	}
}
