package chunk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// A load is what a pipeline of the benchmark has to do: bytes of a source, and work on each chunk.
type load struct {
	name  string
	bytes int64
	src   func(f *os.File, n int64) io.Reader
	work  func([]byte)
}

func fromFile(f *os.File, n int64) io.Reader { return io.LimitReader(f, n) }

// lateSource is a peer: each Read takes a round trip, and gives as much as was asked for.
type lateSource struct {
	io.Reader
	late time.Duration
}

func (s lateSource) Read(p []byte) (int, error) {
	time.Sleep(s.late)
	return s.Reader.Read(p)
}

var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	return w
}}

// checks keeps what workers find from being optimised away.
var checks atomic.Int64

var loads = []load{
	{"count", 256 << 20, fromFile, func(p []byte) { checks.Add(int64(bytes.Count(p, []byte("\n")))) }},
	{"sha256", 128 << 20, fromFile, func(p []byte) { sum := sha256.Sum256(p); checks.Add(int64(sum[0])) }},
	{"gzip", 32 << 20, fromFile, func(p []byte) {
		w := writers.Get().(*gzip.Writer)
		defer writers.Put(w)
		w.Reset(io.Discard)
		w.Write(p)
		w.Close()
	}},
	{"worker-waits-5ms", 16 << 20, fromFile, func([]byte) { time.Sleep(5 * time.Millisecond) }},
	{"source-waits-1ms", 16 << 20, func(f *os.File, n int64) io.Reader { return lateSource{fromFile(f, n), time.Millisecond} },
		func(p []byte) { checks.Add(int64(bytes.Count(p, []byte("\n")))) }},
}

// pipeline cuts the source into chunks of lines and has workers work on them, as many as the Tuner lets.
func (l *load) pipeline(ctx context.Context, f *os.File, tuner *chunk.Tuner) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := chunk.NewReader(l.src(f, l.bytes), chunk.At(chunk.Lines()), chunk.TunedBy(tuner))
	defer r.Close()
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		if err := tuner.Acquire(ctx); err != nil {
			return err
		}
		ref, err := r.Next(ctx)
		if err != nil {
			tuner.Release()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		workers.Go(func() {
			defer tuner.Release()
			defer ref.Release()
			l.work(ref.Bytes())
		})
	}
}

// sampled runs f while the Tuner samples the process.
func sampled(ctx context.Context, tuner *chunk.Tuner, f func() error) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { tuner.Run(ctx) })
	defer running.Wait()
	defer stop()
	return f()
}

// settle has the pipeline run for so long, again and again.
func (l *load) settle(ctx context.Context, f *os.File, tuner *chunk.Tuner, d time.Duration) error {
	for begun := time.Now(); time.Since(begun) < d; {
		if err := l.pipeline(ctx, f, tuner); err != nil {
			return err
		}
	}
	return nil
}

// fixedAt is a Tuner that nobody samples for.
func fixedAt(s chunk.Setting) *chunk.Tuner {
	return chunk.NewTuner(chunk.WorkersBetween(1, 1024), chunk.StartAt(s))
}

// best tries the fixed settings that are worth it, each three times, and returns the one that was fastest in the median.
func (l *load) best(b *testing.B, f *os.File) (best chunk.Setting) {
	fastest := math.Inf(1)
	for _, perProcessor := range []float64{0.5, 1, 2, 4, 16} {
		for size := 16 << 10; size <= 1<<20; size *= 4 {
			s := chunk.Setting{Workers: int(perProcessor * float64(runtime.GOMAXPROCS(0))), ChunkSize: size, Depth: 3}
			var took []float64
			for range 3 {
				start := time.Now()
				if err := l.pipeline(b.Context(), f, fixedAt(s)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start).Seconds())
			}
			if m := median(took); m < fastest {
				best, fastest = s, m
			}
		}
	}
	return best
}

// BenchmarkTuner has a pipeline at the default setting, one under a Tuner that begins there and has had 800 samples, and one
// at the best of twenty fixed settings. It takes a minute for each load.
func BenchmarkTuner(b *testing.B) {
	line := []byte("a line of sixty-four bytes, a line of sixty-four bytes, a line,\n")
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat(line, 256<<20/len(line)), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			best := l.best(b, f)
			tuner := chunk.NewTuner(chunk.Interval(25 * time.Millisecond))
			again := func() error { return l.pipeline(b.Context(), f, tuner) }
			err := sampled(b.Context(), tuner, func() error { return l.settle(b.Context(), f, tuner, 20*time.Second) })
			if err != nil {
				b.Fatal(err)
			}
			start := chunk.NewTuner().Setting()
			inTurnsOf(b, float64(l.bytes),
				contender{"default", func() error { return l.pipeline(b.Context(), f, fixedAt(start)) }},
				contender{"tuned", func() error { return sampled(b.Context(), tuner, again) }},
				contender{"best-fixed", func() error { return l.pipeline(b.Context(), f, fixedAt(best)) }})
			b.Logf("default %v; tuned %v; best fixed %v", start, tuner.Setting(), best)
			b.Log(describe(tuner.Stats()))
		})
	}
}

func describe(s chunk.TunerStats) string {
	var text bytes.Buffer
	for why, n := range s.Moves {
		if n > 0 {
			fmt.Fprintf(&text, "%s %d  ", chunk.MoveReason(why).Label(), n)
		}
	}
	return text.String()
}
