package chunk

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// WriteTable writes what a case came to. Ratios are taken in the same round: how many times as fast as the first
// contender, and how many times as long as ours.
func WriteTable(w io.Writer, c Case, results []Result) error {
	first, us := results[0].Nanos, ours(results)
	t := measure.NewTable("contender", "MB/s", "x plain loop", "CPU s/GB", "B a run", "allocs a run", "GCs a GB",
		"time, x ours")
	for _, r := range results {
		t.Row(r.Name, rate(c.Size, r.Nanos), first.Over(r.Nanos), r.CPU.Times(1/float64(c.Size)),
			r.Bytes.Whole(), r.Allocs.Median(), r.GCs.Times(1e3/float64(c.Size)).Median(), r.Nanos.Over(us.Nanos))
	}
	_, err := t.WriteTo(w)
	return err
}

// writeShowing writes a table, and below it what it shows.
func writeShowing(w io.Writer, t *measure.Table, shows string) error {
	if _, err := t.WriteTo(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", shows)
	return err
}

// ours is the first result of this project's.
func ours(results []Result) Result {
	for _, r := range results {
		if strings.HasPrefix(r.Name, "chunk.") {
			return r
		}
	}
	return Result{}
}

// rate is megabytes a second.
func rate(size int, nanos measure.Series) measure.Series {
	v := make(measure.Series, len(nanos))
	for i := range v {
		v[i] = float64(size) * 1e3 / nanos[i]
	}
	return v
}
