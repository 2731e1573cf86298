package chunk_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

var home = chunk.Setting{Workers: 8, ChunkSize: 64 << 10, Depth: 3}

// steady is a second of a load that moves 100 MB/s on 4 processors of which half are busy, with nobody waiting.
func steady() chunk.Sample {
	return chunk.Sample{Elapsed: time.Second, Processors: 4, CPU: 2 * time.Second, Memory: 50e6, Moved: 100e6}
}

func newTuner(opts ...chunk.TunerOption) *chunk.Tuner {
	all := []chunk.TunerOption{chunk.StartAt(home), chunk.WorkersBetween(1, 64), chunk.MemoryLimit(math.MaxInt64)}
	return chunk.NewTuner(append(all, opts...)...)
}

// untilMove observes what next gives until something moves, and returns that; or, after so many samples, what was last.
func untilMove(t *chunk.Tuner, samples int, next func(i int) chunk.Sample) (m chunk.Move, after int) {
	for i := range samples {
		if m = t.Observe(next(i)); m.From != m.To {
			return m, i + 1
		}
	}
	return m, samples
}

// Each rule, and that nothing moves without a reason.
func TestTunerRules(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(s *chunk.Sample, i int)
		opts   []chunk.TunerOption
		want   chunk.MoveReason
		to     chunk.Setting
	}{
		{"nobody waits", func(*chunk.Sample, int) {}, nil, chunk.Stay, home},
		{"no load", func(s *chunk.Sample, _ int) { s.Moved, s.Waiting = 0, 1 }, nil, chunk.Stay, home},
		{"processors busy", func(s *chunk.Sample, _ int) { s.CPU = 3900 * time.Millisecond }, nil,
			chunk.ProcessorsBusy, chunk.Setting{Workers: 6, ChunkSize: 64 << 10, Depth: 3}},
		{"processors free, work waiting", func(s *chunk.Sample, _ int) { s.Waiting = 1 }, nil,
			chunk.ProcessorsFree, chunk.Setting{Workers: 10, ChunkSize: 64 << 10, Depth: 3}},
		{"work waited", func(s *chunk.Sample, _ int) { s.Waited = 1 }, nil,
			chunk.ProcessorsFree, chunk.Setting{Workers: 10, ChunkSize: 64 << 10, Depth: 3}},
		{"between the marks", func(s *chunk.Sample, _ int) { s.CPU, s.Waiting = 3200*time.Millisecond, 1 }, nil,
			chunk.LargerMayPay, chunk.Setting{Workers: 8, ChunkSize: 128 << 10, Depth: 3}},
		{"as many workers as there may be", func(s *chunk.Sample, _ int) { s.Waiting = 1 },
			[]chunk.TunerOption{chunk.WorkersBetween(1, 8)},
			chunk.FewerMayDo, chunk.Setting{Workers: 6, ChunkSize: 64 << 10, Depth: 3}},
		{"source late", func(s *chunk.Sample, _ int) { s.Starved = 9 }, nil,
			chunk.LargerMayPay, chunk.Setting{Workers: 8, ChunkSize: 128 << 10, Depth: 3}},
		{"source late, chunks as large as may be", func(s *chunk.Sample, _ int) { s.Starved = 9 },
			[]chunk.TunerOption{chunk.SizeBetween(4<<10, 64<<10)},
			chunk.SmallerMayPay, chunk.Setting{Workers: 8, ChunkSize: 32 << 10, Depth: 3}},
		{"both wait", func(s *chunk.Sample, _ int) { s.Starved, s.Stuffed = 9, 9 }, nil,
			chunk.SourceInBursts, chunk.Setting{Workers: 8, ChunkSize: 64 << 10, Depth: 6}},
		{"memory grows", func(s *chunk.Sample, i int) { s.Memory += int64(i) * 11e6 }, nil,
			chunk.MemoryGrows, chunk.Setting{Workers: 8, ChunkSize: 32 << 10, Depth: 3}},
		{"memory grows slowly", func(s *chunk.Sample, i int) { s.Memory += int64(i) * 9e6 }, nil, chunk.Stay, home},
		{"memory grows too fast for anything else to", func(s *chunk.Sample, i int) { s.Memory += int64(i) * 9e6; s.Starved = 1 },
			nil,
			chunk.SmallerMayPay, chunk.Setting{Workers: 8, ChunkSize: 32 << 10, Depth: 3}},
		{"memory full", func(s *chunk.Sample, _ int) { s.Memory = 91e6 }, []chunk.TunerOption{chunk.MemoryLimit(100e6)},
			chunk.MemoryFull, chunk.Setting{Workers: 8, ChunkSize: 64 << 10, Depth: 2}},
		{"memory nearly full", func(s *chunk.Sample, _ int) { s.Memory, s.Starved = 80e6, 1 },
			[]chunk.TunerOption{chunk.MemoryLimit(100e6)},
			chunk.SmallerMayPay, chunk.Setting{Workers: 8, ChunkSize: 32 << 10, Depth: 3}},
		{"processors not told", func(s *chunk.Sample, _ int) { s.Processors, s.CPU = 0, time.Hour }, nil,
			chunk.ProcessorsBusy, chunk.Setting{Workers: 6, ChunkSize: 64 << 10, Depth: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tuner := newTuner(test.opts...)
			m, _ := untilMove(tuner, 200, func(i int) chunk.Sample {
				s := steady()
				test.change(&s, i)
				return s
			})
			if m.Why != test.want || m.To != test.to {
				t.Errorf("%v; want %v: %v", m, test.to, test.want)
			}
			if got := tuner.Setting(); got != test.to {
				t.Errorf("Setting is %v, want %v", got, test.to)
			}
		})
	}
}

// A step that pays is kept, and one that does not is taken back and not tried again at once.
func TestTunerJudges(t *testing.T) {
	at := func(speed int64) func(int) chunk.Sample {
		return func(int) chunk.Sample {
			s := steady()
			s.Waiting, s.Moved = 1, speed
			return s
		}
	}
	tuner := newTuner(chunk.SizeBetween(64<<10, 64<<10))
	if m, after := untilMove(tuner, 50, at(100e6)); m.Why != chunk.ProcessorsFree || after != 4 {
		t.Fatalf("%v after %d samples", m, after)
	}
	if !tuner.Stats().Trying {
		t.Error("Trying is false while a step is")
	}
	m, after := untilMove(tuner, 50, at(120e6)) // two to dwell, four to look
	if m.Why != chunk.ProcessorsFree || m.From.Workers != 10 || m.To.Workers != 14 || after != 6 {
		t.Fatalf("%v after %d samples", m, after)
	}
	if m, after = untilMove(tuner, 50, at(124e6)); m.Why != chunk.NotPaid || m.To.Workers != 10 || after != 6 {
		t.Fatalf("%v after %d samples", m, after)
	}
	if s := tuner.Stats(); s.Trying || s.Kept != 1 || s.Moves[chunk.ProcessorsFree] != 2 || s.Moves[chunk.NotPaid] != 1 ||
		s.Samples != 16 || s.Last != m || s.Sample != at(124e6)(0) {
		t.Errorf("%+v", s)
	}
	if m, _ = untilMove(tuner, 50, at(120e6)); m.To.Workers != 12 {
		t.Errorf("%v; want half the stride", m)
	}
}

// Each step down costs less than is noticed. Together they don't.
func TestTunerStepsDownDontAddUp(t *testing.T) {
	most := chunk.Setting{Workers: 64, ChunkSize: 64 << 10, Depth: 3}
	tuner := newTuner(chunk.SizeBetween(64<<10, 64<<10), chunk.StartAt(most))
	for range 1000 {
		s := steady()
		s.CPU = 4 * time.Second
		s.Moved = int64(100e6 * math.Pow(0.96, math.Log(64/float64(tuner.Setting().Workers))/math.Log(4.0/3)))
		tuner.Observe(s)
	}
	if got := tuner.Setting().Workers; got != 48 {
		t.Errorf("%d workers, want 48", got)
	}
}

func TestTunerGivesUpWithoutALoad(t *testing.T) {
	tuner := newTuner()
	pressed := steady()
	pressed.Waiting = 1
	if m, _ := untilMove(tuner, 50, func(int) chunk.Sample { return pressed }); m.Why != chunk.ProcessorsFree {
		t.Fatal(m)
	}
	idle := chunk.Sample{Elapsed: time.Second}
	if m, _ := untilMove(tuner, 50, func(int) chunk.Sample { return idle }); m.Why != chunk.LoadGone || m.To != home {
		t.Error(m)
	}
}

// Where the chunks are not what memory grows for, they are made large again.
func TestTunerDoesNotShrinkForOthers(t *testing.T) {
	tuner := newTuner()
	grows := func(i int) chunk.Sample {
		s := steady()
		s.Memory = int64(1e9 + float64(tuner.Stats().Samples)*20e6)
		return s
	}
	if m, _ := untilMove(tuner, 50, grows); m.Why != chunk.MemoryGrows {
		t.Fatal(m)
	}
	if m, _ := untilMove(tuner, 50, grows); m.Why != chunk.NotPaid || m.To != home {
		t.Error(m)
	}
	if m, _ := untilMove(tuner, 1000, grows); m.To.ChunkSize < 32<<10 {
		t.Error(m)
	}
}

// Under memory that stays full, everything ends at its least, and stays there.
func TestTunerShrinksToTheLeast(t *testing.T) {
	tuner := newTuner(chunk.MemoryLimit(10e6),
		chunk.SizeBetween(8<<10, 1<<20), chunk.DepthBetween(2, 16), chunk.WorkersBetween(3, 9))
	for range 200 {
		tuner.Observe(steady())
	}
	if want := (chunk.Setting{Workers: 3, ChunkSize: 8 << 10, Depth: 2}); tuner.Setting() != want {
		t.Errorf("%v, want %v", tuner.Setting(), want)
	}
}

func TestTunerStartIsWithinTheBounds(t *testing.T) {
	for _, test := range []struct{ start, want chunk.Setting }{
		{chunk.Setting{Workers: 1 << 30, ChunkSize: math.MaxInt, Depth: 1 << 30}, chunk.Setting{Workers: 64, ChunkSize: 1 << 20, Depth: 16}},
		{chunk.Setting{}, chunk.Setting{Workers: 1, ChunkSize: 4 << 10, Depth: 1}},
	} {
		if got := newTuner(chunk.StartAt(test.start)).Setting(); got != test.want {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
}

func TestTunerTexts(t *testing.T) {
	seen := make(map[string]bool)
	for why := range len(chunk.TunerStats{}.Moves) {
		for _, text := range []string{chunk.MoveReason(why).String(), chunk.MoveReason(why).Label()} {
			if text == "" || seen[text] {
				t.Errorf("MoveReason %d: %q", why, text)
			}
			seen[text] = true
		}
	}
	other := chunk.Setting{Workers: 8, ChunkSize: 1000, Depth: 3}
	for _, test := range []struct {
		got  fmt.Stringer
		want string
	}{
		{home, "8 workers, 64 KiB, depth 3"},
		{other, "8 workers, 1000 bytes, depth 3"},
		{chunk.Move{From: home, To: home}, "8 workers, 64 KiB, depth 3: nothing to move"},
		{chunk.Move{From: home, To: other, Why: chunk.MemoryGrows},
			"8 workers, 64 KiB, depth 3 -> 8 workers, 1000 bytes, depth 3: memory grows too fast"},
		{chunk.MoveReason(200), "MoveReason(200)"},
	} {
		if test.got.String() != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
	if chunk.MoveReason(200).Label() != "unknown" {
		t.Error(chunk.MoveReason(200).Label())
	}
}

func TestTunerMisusePanics(t *testing.T) {
	for _, test := range []struct {
		name string
		f    func()
	}{
		{"WorkersBetween(0, 4)", func() { chunk.WorkersBetween(0, 4) }},
		{"WorkersBetween(5, 4)", func() { chunk.WorkersBetween(5, 4) }},
		{"SizeBetween(1, 1073741825)", func() { chunk.SizeBetween(1, 1<<30+1) }},
		{"DepthBetween(1, 65537)", func() { chunk.DepthBetween(1, 1<<16+1) }},
		{"ProcessorMarks(0.9, 0.8)", func() { chunk.ProcessorMarks(0.9, 0.8) }},
		{"ProcessorMarks(NaN, 1)", func() { chunk.ProcessorMarks(math.NaN(), 1) }},
		{"GrowthMark(0)", func() { chunk.GrowthMark(0) }},
		{"GrowthMark(NaN)", func() { chunk.GrowthMark(math.NaN()) }},
		{"MemoryLimit(0)", func() { chunk.MemoryLimit(0) }},
		{"Interval(1ms)", func() { chunk.Interval(time.Millisecond) }},
		{"Dwell(0)", func() { chunk.Dwell(0) }},
		{"TunedBy(nil)", func() { chunk.TunedBy(nil) }},
		{"Release without Acquire", func() { newTuner().Release() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.HasPrefix(v, "chunk: "+test.name) {
					t.Errorf("panics with %v", v)
				}
			}()
			test.f()
		})
	}
}

// FuzzTuner observes whatever there is: the setting stays within its bounds, and each step changes one thing.
func FuzzTuner(f *testing.F) {
	f.Add([]byte{}, uint8(0), int64(math.MaxInt64))
	f.Add([]byte(strings.Repeat("\x01\x02\x03\x04\x05\x06\x07\x08", 64)), uint8(1), int64(1<<20))
	f.Add([]byte(strings.Repeat("\xff\x00\x7f\x80\x10\x20\x40\x01", 64)), uint8(2), int64(1<<40))
	f.Fuzz(func(t *testing.T, in []byte, start uint8, limit int64) {
		tuner := chunk.NewTuner(chunk.WorkersBetween(2, 33), chunk.SizeBetween(5000, 1<<20), chunk.DepthBetween(2, 9),
			chunk.MemoryLimit(max(limit, 1)), chunk.Dwell(1),
			chunk.StartAt(chunk.Setting{Workers: int(start), ChunkSize: int(start) << 12, Depth: int(start)}))
		before := tuner.Setting()
		for ; len(in) >= 8; in = in[8:] {
			m := tuner.Observe(fuzzSample([8]byte(in)))
			s := tuner.Setting()
			if m.From != before || m.To != s || (m.Why == chunk.Stay) != (m.From == m.To) {
				t.Fatalf("%v, from %v to %v", m, before, s)
			}
			if s.Workers < 2 || s.Workers > 33 || s.ChunkSize < 5000 || s.ChunkSize > 1<<20 || s.Depth < 2 || s.Depth > 9 {
				t.Fatalf("out of bounds: %v", m)
			}
			if differences(m.From, m.To) > 1 {
				t.Fatalf("more than one thing: %v", m)
			}
			before = s
		}
	})
}

// fuzzSample makes a sample of which each part can be anything, the extremes among it.
func fuzzSample(in [8]byte) chunk.Sample {
	number := func(b byte) int64 { return int64(int8(b)) << (b % 57) }
	return chunk.Sample{
		Elapsed:    time.Duration(number(in[0])),
		Processors: []float64{0, 1, 4, -1, math.NaN(), math.Inf(1), 1e-300, 1e300}[in[1]%8],
		CPU:        time.Duration(number(in[2])),
		Memory:     number(in[3]),
		Moved:      number(in[4]),
		Waiting:    int(int8(in[5])),
		Waited:     number(in[5] >> 1),
		Starved:    number(in[6]),
		Stuffed:    number(in[7]),
	}
}

func differences(a, b chunk.Setting) (n int) {
	for _, differs := range []bool{a.Workers != b.Workers, a.ChunkSize != b.ChunkSize, a.Depth != b.Depth} {
		if differs {
			n++
		}
	}
	return n
}

// Larger chunks that do the same with less processor time pay, if processor time is what the load takes.
func TestTunerSparesProcessors(t *testing.T) {
	for _, test := range []struct {
		cpu  time.Duration // of 4 s
		kept bool
	}{
		{3200 * time.Millisecond, true},
		{400 * time.Millisecond, false},
	} {
		tuner := newTuner(chunk.WorkersBetween(8, 8))
		sample := func(int) chunk.Sample {
			s := steady()
			s.Starved, s.CPU = 1, test.cpu
			if tuner.Setting().ChunkSize > 64<<10 {
				s.CPU = test.cpu * 8 / 10
			}
			return s
		}
		if m, _ := untilMove(tuner, 50, sample); m.Why != chunk.LargerMayPay {
			t.Fatal(m)
		}
		if m, _ := untilMove(tuner, 50, sample); (m.Why != chunk.NotPaid) != test.kept {
			t.Errorf("of %v processor time: %v; want it kept: %v", test.cpu, m, test.kept)
		}
	}
}
