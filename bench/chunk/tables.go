package chunk

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// WriteTable writes what a case came to. Ratios are to the first contender in the same round.
func WriteTable(w io.Writer, c Case, results []Result) error {
	base := results[0].Nanos
	t := measure.NewTable("contender", "MB/s", "x plain loop", "CPU s/GB", "B a run", "allocs a run")
	for _, r := range results {
		t.Row(r.Contender.Name, rate(c.Size, r.Nanos), base.Over(r.Nanos), scaled(r.CPU, 1/float64(c.Size)),
			fmt.Sprintf("%.0f", r.Bytes.Median()), r.Allocs.Median())
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

// scaled is s, f times as much.
func scaled(s measure.Series, f float64) measure.Series {
	v := make(measure.Series, len(s))
	for i := range v {
		v[i] = s[i] * f
	}
	return v
}
