//go:build linux

package host

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// Write writes the table. Ratios are taken within each round.
func (p Writing) Write(w io.Writer, results []WritingResult) {
	first := results[0]
	t := measure.NewTable("dirty_ratio/background", "MiB", "writes/s", "x "+first.Name, "writes/s until on the disk",
		"x "+first.Name, "p99 µs", "longest ms", "% of time in writes from 10 ms on", "MB/s to the disk",
		"MiB left for fsync")
	for _, r := range results {
		t.Row(r.Name, mebibytes(r.limits.dirty)+"/"+mebibytes(r.limits.background), r.Writes, r.Writes.Over(first.Writes),
			r.Landed, r.Landed.Over(first.Landed), r.Late, r.Longest, r.Stalled, r.Disk, r.Left)
	}
	fmt.Fprintf(w, "\n*%s*\n\n", p.Caption(results))
	t.WriteTo(w)
}

// Write writes the table. Ratios are taken within each round, to the first limit with as many queues.
func (p Async) Write(w io.Writer, results []AsyncResult) {
	t := measure.NewTable("queues", "requests in all", "fs.aio-max-nr", "queues set up", "EAGAIN", "writes/s",
		"x the first limit", "p99 ms")
	var first AsyncResult
	for _, r := range results {
		if r.Asked != first.Asked {
			first = r
		}
		t.Row(r.Asked, r.Asked*p.Requests, r.Limit, r.Got, r.Refused, r.Writes, r.Writes.Over(first.Writes), r.Late)
	}
	fmt.Fprintf(w, "\n*%s*\n\n", p.Caption())
	t.WriteTo(w)
}
