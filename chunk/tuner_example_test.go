package chunk_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/chunk"
)

// Count the lines of a log. The Tuner finds the best number of workers and chunk size.
func ExampleNewTuner() {
	ctx, stop := context.WithCancel(context.Background())
	tuner := chunk.NewTuner()
	var running sync.WaitGroup
	running.Go(func() { tuner.Run(ctx) }) // samples the process and changes the Setting
	defer running.Wait()
	defer stop()

	log := strings.NewReader(strings.Repeat("GET /index.html\n", 100_000))
	r := chunk.NewReader(log, chunk.At(chunk.Lines()), chunk.TunedBy(tuner))
	defer r.Close()
	var workers sync.WaitGroup
	var total atomic.Int64
	var failed error
	for tuner.Acquire(ctx) == nil { // waits while the allowed number of workers is running
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
