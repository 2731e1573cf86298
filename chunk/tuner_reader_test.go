package chunk_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// A Reader takes the size of each chunk from the setting at the time.
func TestReaderFollowsTheTuner(t *testing.T) {
	tuner := newTuner()
	src := strings.NewReader(strings.Repeat("x", 1<<20))
	r := chunk.NewReader(src, chunk.TunedBy(tuner), chunk.Size(100)) // which takes its place
	defer r.Close()
	next := func() int {
		ref, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer ref.Release()
		return ref.Len()
	}
	if n := next(); n != 64<<10 {
		t.Errorf("a chunk of %d bytes", n)
	}
	starved := steady()
	starved.Starved = 1
	for _, want := range []int{128 << 10, 64 << 10, 32 << 10} { // larger, taken back, smaller
		if m, _ := untilMove(tuner, 50, func(int) chunk.Sample { return starved }); m.To.ChunkSize != want {
			t.Fatal(m)
		}
		for range 2 {
			if n := next(); n != want {
				t.Errorf("a chunk of %d bytes, want %d", n, want)
			}
		}
	}
}

// What a Reader waits for, and what it gives, is in the samples.
func TestReaderCountsForTheTuner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tuner := newTuner(chunk.Interval(time.Second))
		go tuner.Run(t.Context())
		synctest.Wait() // until it has begun to count
		r := chunk.NewReader(&slowSource{left: 6, each: 10 * time.Millisecond}, chunk.TunedBy(tuner))
		defer r.Close()
		for i := range 5 {
			if i == 2 {
				time.Sleep(100 * time.Millisecond)
			}
			ref, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ref.Release()
		}
		time.Sleep(time.Second)
		s := tuner.Stats().Sample
		if s.Moved != 5*64<<10 || s.Starved < 2 || s.Starved > 3 || s.Stuffed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Whatever the Tuner does meanwhile, the chunks are the source, cut where records end.
func TestTunedReaderLosesNothing(t *testing.T) {
	for seed := range uint64(60) {
		s := &slowCutters[seed%uint64(len(slowCutters))]
		rnd := rand.New(rand.NewPCG(seed, 9))
		in := s.make(rnd, rnd.IntN(6000))
		tuner := newTuner(chunk.SizeBetween(1, 300), chunk.DepthBetween(1, 4), chunk.Dwell(1),
			chunk.StartAt(chunk.Setting{Workers: 4, ChunkSize: 1 + rnd.IntN(300), Depth: 1 + rnd.IntN(4)}))
		var src io.Reader = newRandomReader(in, rnd, io.EOF)
		if seed%3 == 0 {
			src = bytes.NewReader(in)
		}
		r := chunk.NewReader(src, chunk.At(s.cutter), chunk.MaxRecord(1<<16), chunk.TunedBy(tuner))
		var chunks [][]byte
		var err error
		for err == nil {
			for range rnd.IntN(8) {
				sample := steady()
				sample.Moved, sample.Starved, sample.Stuffed = rnd.Int64N(1e8), rnd.Int64N(2), rnd.Int64N(2)
				tuner.Observe(sample)
			}
			ref, e := r.Next(t.Context())
			if err = e; e == nil {
				chunks = append(chunks, bytes.Clone(ref.Bytes()))
				ref.Release()
			}
			runtime.Gosched()
		}
		r.Close()
		if err == io.EOF {
			err = nil // as collect has it
		}
		if e := s.checkChunks(in, chunks, err, 300, 1<<16, false); e != nil {
			t.Fatalf("seed %d: %v", seed, e)
		}
	}
}
