package redis

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// WriteTables writes a table for each task and number of goroutines. Ratios are to the task's first contender in the same
// round and size.
func (p *Plan) WriteTables(w io.Writer, results []Result) {
	for _, t := range p.Tasks {
		for _, n := range p.Goroutines {
			fmt.Fprintf(w, "\n*%s, %s: time, as a multiple of the raw socket's (client CPU in brackets)*\n\n", t.What, goroutines(n))
			p.table(t, n, results).WriteTo(w)
		}
	}
}

func (p *Plan) table(t Task, n int, results []Result) *measure.Table {
	head := []string{"contender"}
	for _, size := range p.Sizes {
		head = append(head, SizeName(size))
	}
	tab := measure.NewTable(append(head, "B/op, largest", "allocs/op", "GCs/M")...)
	raw := t.contenders[0].Name
	floor := []any{raw + ", µs a call"}
	for _, size := range p.Sizes {
		cell := ""
		if r := find(results, t, raw, size, n); r != nil {
			cell = fmt.Sprintf("%.1f (%.1f)", r.Nanos.Median()/1e3, r.CPU.Median()/1e3)
		}
		floor = append(floor, cell)
	}
	tab.Row(floor...)
	for _, c := range t.contenders {
		row := []any{c.Name}
		var last *Result
		for _, size := range p.Sizes {
			r, base := find(results, t, c.Name, size, n), find(results, t, raw, size, n)
			if r == nil || base == nil {
				row = append(row, "")
				continue
			}
			row = append(row, ratios(r, base))
			last = r
		}
		if last != nil {
			row = append(row, last.Bytes.Whole(), last.Allocs.Median(), last.GCs.Median())
		}
		tab.Row(row...)
	}
	return tab
}

// ratios is how much longer r takes than base, with the spread, and how much more CPU.
func ratios(r, base *Result) string {
	if r == base {
		return "1 (1)"
	}
	time := r.Nanos.Over(base.Nanos)
	return fmt.Sprintf("%.2f, %.2f to %.2f (%.2f)", time.Median(), time.Min(), time.Max(), r.CPU.Over(base.CPU).Median())
}

func find(results []Result, t Task, contender string, size, goroutines int) *Result {
	for i := range results {
		r := &results[i]
		if r.Task == t.Key && r.Contender == contender && r.Size == size && r.Goroutines == goroutines {
			return r
		}
	}
	return nil
}
