package chunk_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// Count the lines of a log with as many workers, and in chunks as large, as turn out to pay.
func ExampleNewTuner() {
	ctx, stop := context.WithCancel(context.Background())
	tuner := chunk.NewTuner(chunk.WorkersBetween(1, 32))
	var running sync.WaitGroup
	running.Go(func() { tuner.Run(ctx) }) // takes samples of the process and moves the Setting
	defer running.Wait()
	defer stop()

	log := strings.NewReader(strings.Repeat("GET /index.html\n", 100_000))
	r := chunk.NewReader(log, chunk.At(chunk.Lines()), chunk.TunedBy(tuner))
	defer r.Close()
	var workers sync.WaitGroup
	var total atomic.Int64
	var failed error
	for tuner.Acquire(ctx) == nil { // waits while as many are at work as the Tuner lets
		lines, err := r.Next(ctx)
		if err != nil {
			tuner.Release()
			if err != io.EOF {
				failed = err
			}
			break
		}
		workers.Go(func() {
			defer tuner.Release()
			defer lines.Release()
			total.Add(int64(bytes.Count(lines.Bytes(), []byte("\n"))))
		})
	}
	workers.Wait()
	fmt.Println(total.Load(), "lines,", failed)
	// Output: 100000 lines, <nil>
}

// A Tuner can be shown samples of anything that has workers: here of a model, in which each of them waits for a peer most
// of the time, and more than 10 are more than the peer can serve.
func ExampleTuner_Observe() {
	tuner := chunk.NewTuner(
		chunk.StartAt(chunk.Setting{Workers: 4, ChunkSize: 64 << 10, Depth: 3}), chunk.WorkersBetween(1, 32),
		chunk.SizeBetween(64<<10, 64<<10), chunk.DepthBetween(3, 3), // these are left alone
	)
	for range 40 {
		workers := min(tuner.Setting().Workers, 10)
		move := tuner.Observe(chunk.Sample{
			Elapsed: 250 * time.Millisecond, Processors: 2, CPU: time.Duration(workers) * 5 * time.Millisecond,
			Moved: int64(workers) << 20, Waiting: 1,
		})
		if move.From != move.To {
			fmt.Println(move)
		}
	}
	// Output:
	// 4 workers, 64 KiB, depth 3 -> 5 workers, 64 KiB, depth 3: processors free and work waiting, try more workers
	// 5 workers, 64 KiB, depth 3 -> 7 workers, 64 KiB, depth 3: processors free and work waiting, try more workers
	// 7 workers, 64 KiB, depth 3 -> 11 workers, 64 KiB, depth 3: processors free and work waiting, try more workers
	// 11 workers, 64 KiB, depth 3 -> 19 workers, 64 KiB, depth 3: processors free and work waiting, try more workers
	// 19 workers, 64 KiB, depth 3 -> 11 workers, 64 KiB, depth 3: the last step did not pay, take it back
	// 11 workers, 64 KiB, depth 3 -> 15 workers, 64 KiB, depth 3: processors free and work waiting, try more workers
	// 15 workers, 64 KiB, depth 3 -> 11 workers, 64 KiB, depth 3: the last step did not pay, take it back
}
