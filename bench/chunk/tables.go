package chunk

import (
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// WriteTable writes what a case came to. Ratios are to the first contender in the same round.
func WriteTable(w io.Writer, c Case, results []Result) error {
	base := results[0].Nanos
	t := measure.NewTable("contender", "MB/s", "x plain loop", "CPU s/GB", "B a run", "allocs a run", "GCs a GB")
	for _, r := range results {
		t.Row(r.Contender.Name, rate(c.Size, r.Nanos), base.Over(r.Nanos), r.CPU.Times(1/float64(c.Size)),
			r.Bytes.Whole(), r.Allocs.Median(), r.GCs.Times(1e3/float64(c.Size)).Median())
	}
	_, err := t.WriteTo(w)
	return err
}

// rate is megabytes a second.
func rate(size int, nanos measure.Series) measure.Series {
	v := make(measure.Series, len(nanos))
	for i := range v {
		v[i] = float64(size) * 1e3 / nanos[i]
	}
	return v
}
