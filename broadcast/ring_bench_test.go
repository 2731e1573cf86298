package broadcast_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

const (
	benchFrame = 4 << 10  // bytes: a typical frame of a 2 Mbit/s stream
	benchBlock = 64 << 10 // bytes: frames are cut from blocks, as by a Reader
	benchGroup = 60       // frames from keyframe to keyframe
)

// A source cuts frames out of blocks. BenchmarkSource measures its cost, which is to be subtracted.
type source struct {
	pool  *millrace.Pool
	chain millrace.Chain
}

func (s *source) next(frame *millrace.Chain) {
	if s.chain.Len() < benchFrame {
		draft := s.pool.Get(benchBlock)
		ref := draft.Freeze(benchBlock)
		s.chain.Append(&ref)
	}
	s.chain.CutTo(frame, benchFrame)
}

func BenchmarkSource(b *testing.B) {
	src := source{pool: millrace.NewPool()}
	b.SetBytes(benchFrame)
	b.ReportAllocs()
	var frame millrace.Chain
	for b.Loop() {
		src.next(&frame)
		frame.Release()
	}
}

// BenchmarkPublish publishes a stream without readers.
func BenchmarkPublish(b *testing.B) {
	ring := broadcast.New()
	defer ring.Close()
	src := source{pool: millrace.NewPool()}
	b.SetBytes(benchFrame)
	b.ReportAllocs()
	var frame millrace.Chain
	for i := 0; b.Loop(); i++ {
		src.next(&frame)
		if err := ring.Publish(&frame, broadcast.Frame{Key: i%benchGroup == 0}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTake runs a publisher and its readers on one goroutine. It measures the cost of the ring
// per frame, without waking. ns/taken is the cost per frame and reader.
func BenchmarkTake(b *testing.B) {
	for _, readers := range []int{1, 10, 200} {
		for _, every := range []int{1, 16} {
			b.Run(fmt.Sprintf("cursors=%d/frames=%d", readers, every),
				func(b *testing.B) { benchmarkTake(b, readers, every) })
		}
	}
}

func benchmarkTake(b *testing.B, readers, every int) {
	ring := broadcast.New()
	defer ring.Close()
	cursors := make([]*broadcast.Cursor, readers)
	for i := range cursors {
		cursors[i] = ring.Cursor()
		defer cursors[i].Close()
	}
	src := source{pool: millrace.NewPool()}
	b.SetBytes(int64(benchFrame * readers))
	b.ReportAllocs()
	var frame, dst millrace.Chain
	i, taken := 0, 0
	for b.Loop() {
		src.next(&frame)
		if err := ring.Publish(&frame, broadcast.Frame{Key: i%benchGroup == 0}); err != nil {
			b.Fatal(err)
		}
		if i++; i%every != 0 {
			continue
		}
		for _, c := range cursors {
			batch, err := c.Take(&dst)
			if err != nil {
				b.Fatal(err)
			}
			taken += batch.Frames
			dst.Release()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(taken, 1)), "ns/taken")
}

// BenchmarkWake runs a publisher that wakes a goroutine per reader for each frame, and waits until
// all have taken the frame.
func BenchmarkWake(b *testing.B) {
	for _, readers := range []int{1, 10, 200} {
		b.Run(fmt.Sprintf("cursors=%d", readers), func(b *testing.B) { benchmarkWake(b, readers) })
	}
}

func benchmarkWake(b *testing.B, readers int) {
	ring := broadcast.New()
	var ended sync.WaitGroup
	var left atomic.Int64
	all := make(chan struct{}, 1)
	for range readers {
		c, w := ring.Cursor(), ring.Watch()
		ended.Go(func() {
			defer c.Close()
			defer w.Stop()
			var dst millrace.Chain
			for range w.C {
				batch, err := c.Take(&dst)
				if err != nil {
					return
				}
				dst.Release()
				if batch.Frames > 0 && left.Add(-int64(batch.Frames)) == 0 {
					all <- struct{}{}
				}
			}
		})
	}
	src := source{pool: millrace.NewPool()}
	b.SetBytes(int64(benchFrame * readers))
	b.ReportAllocs()
	var frame millrace.Chain
	for i := 0; b.Loop(); i++ {
		left.Store(int64(readers))
		src.next(&frame)
		if err := ring.Publish(&frame, broadcast.Frame{Key: i%benchGroup == 0}); err != nil {
			b.Fatal(err)
		}
		<-all
	}
	_ = ring.Close()
	ended.Wait()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*readers), "ns/taken")
}
