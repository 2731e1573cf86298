package chunk_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

var home = chunk.Setting{Workers: 8, ChunkSize: 64 << 10, Depth: 3}

// steady is one second of a load that moves 100 MB/s on 4 processors, half of which are busy.
// Nothing waits.
func steady() chunk.Sample {
	return chunk.Sample{Elapsed: time.Second, Processors: 4, CPU: 2 * time.Second, Memory: 50e6,
		Moved: 100e6}
}

func newTuner(opts ...chunk.TunerOption) *chunk.Tuner {
	all := []chunk.TunerOption{chunk.StartAt(home), chunk.Between(
		chunk.Setting{Workers: 1, ChunkSize: 4 << 10, Depth: 1},
		chunk.Setting{Workers: 64, ChunkSize: 1 << 20, Depth: 16})}
	t := chunk.NewTuner(append(all, opts...)...)
	t.SetMemoryLimit(math.MaxInt64)
	return t
}

// untilMove observes samples until the setting changes, and returns the change. If nothing changes,
// it returns the last result.
func untilMove(t *chunk.Tuner, samples int, next func(i int) chunk.Sample) (m chunk.Move) {
	for i := range samples {
		if m = t.Observe(next(i)); m.From != m.To {
			break
		}
	}
	return m
}

// Each rule causes its change, and nothing changes without a reason.
func TestTunerRules(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(s *chunk.Sample, i int)
		most   chunk.Setting
		want   string
		to     chunk.Setting
	}{
		{"nothing waits", func(*chunk.Sample, int) {}, chunk.Setting{}, "", home},
		{"no load", func(s *chunk.Sample, _ int) { s.Moved, s.Waited = 0, 1 }, chunk.Setting{}, "",
			home},
		{"processors busy", func(s *chunk.Sample, _ int) { s.CPU = 3900 * time.Millisecond },
			chunk.Setting{},
			"processors_busy", chunk.Setting{Workers: 6, ChunkSize: 64 << 10, Depth: 3}},
		{"processors free, work waiting", func(s *chunk.Sample, _ int) { s.Waited = 1 },
			chunk.Setting{},
			"processors_free", chunk.Setting{Workers: 16, ChunkSize: 64 << 10, Depth: 3}},
		{"between the marks", func(s *chunk.Sample, _ int) {
			s.CPU, s.Waited = 3200*time.Millisecond, 1
		}, chunk.Setting{},
			"larger_may_pay", chunk.Setting{Workers: 8, ChunkSize: 128 << 10, Depth: 3}},
		{"as many workers as there may be", func(s *chunk.Sample, _ int) { s.Waited = 1 },
			chunk.Setting{Workers: 8, ChunkSize: 1 << 20, Depth: 16},
			"fewer_may_do", chunk.Setting{Workers: 6, ChunkSize: 64 << 10, Depth: 3}},
		{"source late", func(s *chunk.Sample, _ int) { s.Starved = 9 }, chunk.Setting{},
			"larger_may_pay", chunk.Setting{Workers: 8, ChunkSize: 128 << 10, Depth: 3}},
		{"source late, chunks as large as may be", func(s *chunk.Sample, _ int) { s.Starved = 9 },
			chunk.Setting{Workers: 64, ChunkSize: 64 << 10, Depth: 16},
			"smaller_may_pay", chunk.Setting{Workers: 8, ChunkSize: 32 << 10, Depth: 3}},
		{"source in bursts", func(s *chunk.Sample, _ int) { s.Starved, s.Stuffed = 9, 9 },
			chunk.Setting{},
			"source_in_bursts", chunk.Setting{Workers: 8, ChunkSize: 64 << 10, Depth: 6}},
		{"memory grows", func(s *chunk.Sample, i int) { s.Memory += int64(i) * 11e6 },
			chunk.Setting{},
			"memory_grows", chunk.Setting{Workers: 8, ChunkSize: 32 << 10, Depth: 3}},
		{"memory is short", func(s *chunk.Sample, _ int) { s.Memory = 950e6 }, chunk.Setting{},
			"memory_full", chunk.Setting{Workers: 8, ChunkSize: 64 << 10, Depth: 2}},
		{"no room to grow", func(s *chunk.Sample, _ int) {
			s.Memory, s.Starved, s.Stuffed = 800e6, 9, 9
		}, chunk.Setting{},
			"smaller_may_pay", chunk.Setting{Workers: 8, ChunkSize: 32 << 10, Depth: 3}},
	} {
		var opts []chunk.TunerOption
		if test.most.Workers > 0 {
			opts = append(opts, chunk.Between(chunk.Setting{Workers: 1, ChunkSize: 4 << 10,
				Depth: 1}, test.most))
		}
		tuner := newTuner(opts...)
		tuner.SetMemoryLimit(1e9)
		m := untilMove(tuner, 60, func(i int) chunk.Sample {
			s := steady()
			test.change(&s, i)
			return s
		})
		if m.Why != test.want || m.To != test.to {
			t.Errorf("%s: %v, want %s and %v", test.name, m, test.want, test.to)
		}
		if now, moves := tuner.Stats(); now != m.To || test.want != "" && moves[test.want] != 1 {
			t.Errorf("%s: %v, %v in the statistics", test.name, now, moves)
		}
	}
}

// The documentation has the table of the code.
func TestTunerRulesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/chunk.md")
	must(t, err)
	for _, r := range chunk.TunerRules() {
		if row := "| `" + r[0] + "` | " + strings.Join(r[1:], " | ") +
			" |"; !bytes.Contains(page, []byte(row)) {
			t.Errorf("docs/chunk.md has no row\n%s", row)
		}
	}
}

// Settings that are too large for the memory shrink to the minimum, and no further.
func TestTunerShrinksToTheLeast(t *testing.T) {
	for _, least := range []chunk.Setting{
		{Workers: 1, ChunkSize: 4 << 10, Depth: 2},
		{Workers: 1, ChunkSize: 64 << 10, Depth: 3},
	} {
		tuner := newTuner(chunk.Between(least,
			chunk.Setting{Workers: 64, ChunkSize: 1 << 20, Depth: 16}))
		tuner.SetMemoryLimit(1e6)
		for range 200 {
			tuner.Observe(steady())
		}
		if m := tuner.Observe(steady()); m != (chunk.Move{From: least, To: least}) {
			t.Errorf("%+v, want to rest at %v", m, least)
		}
	}
}

func TestTunerMisusePanics(t *testing.T) {
	one := chunk.Setting{Workers: 1, ChunkSize: 1, Depth: 1}
	for _, c := range []struct{ least, most chunk.Setting }{
		{chunk.Setting{}, one},
		{chunk.Setting{Workers: 2, ChunkSize: 1, Depth: 1}, one},
		{one, chunk.Setting{Workers: 1 << 20, ChunkSize: 1, Depth: 1}},
	} {
		mustPanic(t, fmt.Sprintf("chunk: Between(%+v; %+v) is out of range", c.least, c.most),
			func() { chunk.Between(c.least, c.most) })
	}
	mustPanic(t, "chunk: Release without Acquire", func() { chunk.NewTuner().Release() })
	mustPanic(t, "chunk: TunedBy(nil)", func() { chunk.TunedBy(nil) })
}

// After any sample the setting is within its bounds. A change affects one part of it, or reverts an
// earlier change.
func FuzzTuner(f *testing.F) {
	f.Add([]byte("a load that changes all the time, and more often than not"))
	f.Fuzz(func(t *testing.T, in []byte) {
		tuner := newTuner()
		tuner.SetMemoryLimit(1e9)
		before := tuner.Setting()
		for len(in) >= 8 {
			v := binary.LittleEndian.Uint64(in)
			in = in[8:]
			for range 8 {
				m := tuner.Observe(chunk.Sample{
					Elapsed: time.Duration(uint8(v)) * 10 * time.Millisecond,
					CPU:     time.Duration(uint8(v>>8)) * 10 * time.Millisecond,
					Memory:  int64(v>>16&0xff) * 5e6, Moved: int64(v>>24&0xff) * 1e5,
					Waited:  int64(v >> 32 & 1),
					Starved: int64(v >> 33 & 1), Stuffed: int64(v >> 34 & 1),
					Processors: 1 + float64(v>>40&0xff),
				})
				now := tuner.Setting()
				if m.From != before || m.To != now || (m.From == m.To) != (m.Why == "") {
					t.Fatalf("%v from %v to %v", m, before, now)
				}
				if now.Workers < 1 || now.Workers > 64 || now.ChunkSize < 4<<10 ||
					now.ChunkSize > 1<<20 || now.Depth < 1 || now.Depth > 16 {
					t.Fatal(now)
				}
				before = now
			}
		}
	})
}

// A Reader reads the size of each chunk from the current setting, and loses nothing.
func TestReaderFollowsTheTuner(t *testing.T) {
	for seed := range uint64(60) {
		s := &slowCutters[seed%uint64(len(slowCutters))]
		rnd := rand.New(rand.NewPCG(seed, 9))
		in := s.make(rnd, rnd.IntN(6000))
		tuner := newTuner(chunk.Between(chunk.Setting{Workers: 1, ChunkSize: 1, Depth: 1},
			chunk.Setting{Workers: 4, ChunkSize: 300, Depth: 4}),
			chunk.StartAt(chunk.Setting{Workers: 4, ChunkSize: 1 + rnd.IntN(300),
				Depth: 1 + rnd.IntN(4)}))
		r := chunk.NewReader(bytes.NewReader(in), chunk.At(s.cutter), chunk.MaxRecord(1<<16),
			chunk.TunedBy(tuner))
		var chunks [][]byte
		var failed error
		for p, err := range r.Chunks(t.Context()) {
			if failed = err; err != nil {
				break
			}
			chunks = append(chunks, bytes.Clone(p))
			for range rnd.IntN(8) {
				sample := steady()
				sample.Moved, sample.Starved, sample.Stuffed = rnd.Int64N(1e8), rnd.Int64N(2),
					rnd.Int64N(2)
				tuner.Observe(sample)
			}
		}
		r.Close()
		if e := s.checkChunks(in, chunks, failed, 300, 1<<16, false); e != nil {
			t.Fatalf("seed %d: the chunks are wrong: %v", seed, e)
		}
	}
}

// The samples include a Reader's waiting times and its work.
func TestReaderCountsForTheTuner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tuner := newTuner()
		sample := tuner.Sampler()
		r := chunk.NewReader(&slowSource{left: 6, each: 10 * time.Millisecond},
			chunk.TunedBy(tuner))
		defer r.Close()
		for i := range 5 {
			if i == 2 {
				time.Sleep(100 * time.Millisecond)
			}
			ref, err := r.Next(t.Context())
			must(t, err)
			ref.Release()
		}
		time.Sleep(200 * time.Millisecond)
		s := sample()
		if s.Moved != 5*64<<10 || s.Starved < 2 || s.Starved > 3 || s.Stuffed != 1 {
			t.Errorf("%+v, want five chunks, two or three waits, and one full queue", s)
		}
	})
}
